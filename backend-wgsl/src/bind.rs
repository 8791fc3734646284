//! Binding operands: which part of which buffer, and the parameters that go with it.

use lapidary_core::{Error, Layout, Placement, Problem, Shape, Tensor, TensorSlice};

use crate::decide::{
    self, Chunk, CopyWay, Kernel, Pass, Reads, Stage, Store, Vector, bands, largest_band,
    pack_workgroups, reduce_workgroups,
};
use crate::device::Wgsl;
use crate::emit::{self, Access};
use crate::params::{self, Params, Strides};
use crate::plan::{Dispatch, Prepared, WgslPlan, aligned_kernel, multiply_access};
use crate::tensor::WgslTensor;

/// A tensor and where in it a matrix starts, layout included.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) tensor: &'a WgslTensor,
    pub(crate) offset: usize,
    pub(crate) layout: Layout,
}

/// The vectors of an execution, each where the problem has it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Vectors<'a> {
    pub(crate) bias: Option<TensorSlice<'a, WgslTensor>>,
    pub(crate) row_scale: Option<TensorSlice<'a, WgslTensor>>,
    pub(crate) col_scale: Option<TensorSlice<'a, WgslTensor>>,
    pub(crate) group_scales: Option<TensorSlice<'a, WgslTensor>>,
}

/// A storage binding and where in it an element lies.
struct Bound<'a> {
    buffer: &'a wgpu::Buffer,
    offset: u64,
    size: u64,
    /// Index of the chunk's first element from the binding's start.
    base: u32,
}

impl<'a> Source<'a> {
    /// The part that a chunk touches whose first element lies `shift` elements further on.
    fn bound(&self, shift: i128, shape: Shape, alignment: u64) -> Bound<'a> {
        bound(self.tensor, (self.offset as i128 + shift) as usize, shape, self.layout, alignment)
    }

    /// The same, ending at a whole vector of `width` elements: an array of vectors has no part of
    /// one. [`aligned_kernel`] has made sure that the buffer reaches that far.
    fn bound_vectors(&self, shift: i128, shape: Shape, alignment: u64, width: u32) -> Bound<'a> {
        let vector = u64::from(width) * self.tensor.element().bits() as u64 / 8;
        let bound = self.bound(shift, shape, alignment);
        Bound { size: bound.size.next_multiple_of(vector.max(4)), ..bound }
    }
}

impl Wgsl {
    /// Binds every chunk of a plan to its operands.
    pub(crate) fn bind(
        &self,
        plan: &WgslPlan,
        a: Option<Source<'_>>,
        b: Option<Source<'_>>,
        c: TensorSlice<'_, WgslTensor>,
        vectors: &Vectors<'_>,
    ) -> Result<Prepared, Error> {
        if let (Some(deep), Some(a), Some(b)) = (&plan.deep, a, b) {
            return self.bind_deep(plan, deep, [a, b], c, vectors);
        }
        let WgslPlan { problem, decision, .. } = plan;
        let shares = |tensor: &WgslTensor| tensor.same_allocation(c.tensor);
        let Vectors { bias, row_scale, col_scale, group_scales } = *vectors;
        let beside = [bias, row_scale, col_scale, group_scales];
        let shared = a.is_some_and(|s| shares(s.tensor))
            || b.is_some_and(|s| shares(s.tensor))
            || beside.into_iter().flatten().any(|s| shares(s.tensor));
        let access = if shared { Access::AllReadWrite } else { Access::ReadOnlyInputs };
        let mut copying = Vec::with_capacity(2);
        let given = [a, b];
        let [a, b] = [(a, 0), (b, 1)].map(|(source, side)| {
            let source = source?;
            Some(plan.copies[side].as_ref().map_or(source, |copy| {
                let reads = [decision.operands.a, decision.operands.b][side];
                copying.push((source, copy, reads, side));
                Source { tensor: copy, offset: 0, layout: reads.layout }
            }))
        });
        let multiply = match (&decision.kernel, a, b) {
            (Some(kernel), Some(a), Some(b)) => {
                let Some(kernel) = aligned_kernel(plan, kernel, a, b, c)? else {
                    return self.bind(self.apart_plan(plan)?, given[0], given[1], c, vectors);
                };
                let access = if shared { access } else { multiply_access(&kernel) };
                let pipeline = self.multiply_pipeline(plan, &kernel, access)?;
                Some((kernel, pipeline, access))
            }
            _ => None,
        };
        let c_bytes = c.tensor.byte_offset + (c.offset * c.tensor.element().size()) as u64;
        let rows = decision.finishes_rows() && c_bytes.is_multiple_of(decision.row_alignment());
        let finish = self.finish_pipeline(plan, rows, access)?.map(|pipeline| (pipeline, rows));
        let mut chunks = Vec::with_capacity(decision.chunks.len());
        for chunk in &decision.chunks {
            let mut dispatches = Vec::with_capacity(4);
            for (source, copy, reads, side) in copying.drain(..) {
                dispatches.extend(self.bind_copy(problem, source, copy, reads, side == 0)?);
            }
            dispatches.extend(self.bind_chunk(
                plan,
                chunk,
                access,
                (a, b, c, vectors),
                (multiply.as_ref(), finish.as_ref()),
            )?);
            chunks.push(dispatches);
        }
        let k = if decision.kernel.is_some() { decision.operands.k as f64 } else { 1.0 };
        let operations =
            decision.chunks.iter().map(|chunk| 2.0 * k * (chunk.sum_bytes() / 4) as f64);
        Ok(Prepared { chunks, operations: operations.collect() })
    }

    #[allow(clippy::type_complexity, reason = "the operands and the pipelines, in their order")]
    fn bind_chunk(
        &self,
        plan: &WgslPlan,
        chunk: &Chunk,
        access: Access,
        (a, b, c, vectors): (
            Option<Source<'_>>,
            Option<Source<'_>>,
            TensorSlice<'_, WgslTensor>,
            &Vectors<'_>,
        ),
        (multiply, finish): (
            Option<&(Kernel, wgpu::ComputePipeline, Access)>,
            Option<&(wgpu::ComputePipeline, bool)>,
        ),
    ) -> Result<Vec<Dispatch>, Error> {
        let problem = &plan.problem;
        let alignment = self.inner.limits.binding_alignment;
        let rows = chunk.shape();
        let k = plan.decision.operands.k;
        let mut params = Params::of(problem);
        params.k = k as u32;
        params.m = chunk.rows as u32;
        params.n = chunk.cols as u32;
        params.batch = chunk.batch as u32;

        let a = a.map(|a| {
            let shape = Shape { cols: k, ..rows };
            let width = multiply.map_or(1, |(kernel, ..)| kernel.a.width);
            let bound = a.bound_vectors(chunk.a_offset(a.layout), shape, alignment, width);
            params.a = Strides::new(bound.base, a.layout);
            bound
        });
        let b = b.map(|b| {
            let shape = Shape { rows: k, ..rows };
            let width = multiply.map_or(1, |(kernel, ..)| kernel.b.width);
            let bound = b.bound_vectors(chunk.b_offset(b.layout), shape, alignment, width);
            params.b = Strides::new(bound.base, b.layout);
            bound
        });
        let c_source = Source { tensor: c.tensor, offset: c.offset, layout: problem.c_layout };
        let c = c_source.bound(chunk.c_offset(problem.c_layout), rows, alignment);
        params.c = Strides::new(c.base, problem.c_layout);
        let bias = vectors.bias.map(|bias| {
            let layout = Layout::row_major(1, chunk.cols);
            let shape = Shape::new(1, chunk.cols);
            let bound = bound(bias.tensor, bias.offset + chunk.col0, shape, layout, alignment);
            params.bias_base = bound.base;
            bound
        });
        let scales = Scales::of(problem, chunk, vectors, alignment, &mut params);
        let packs = plan.decision.store != Store::Fused;
        if packs && finish.is_some_and(|(_, rows)| *rows) {
            params.words = (chunk.sum_bytes() / 4 * problem.c.size() as u64 / 4) as u32;
        } else if packs {
            let (axes, lowest) = params::axes(problem.c_layout, rows);
            params.axes = axes;
            params.c.base = (i128::from(c.base) + lowest) as u32;
            params.words = (c.size / 4) as u32;
        }

        let uniform = self.uniform(&params)?;
        let sums = plan.scratch.as_ref().map(|buffer| Bound {
            buffer,
            offset: 0,
            size: chunk.sum_bytes() * u64::from(plan.decision.slices()),
            base: 0,
        });
        let traits = &plan.decision.traits;
        let mut dispatches = Vec::with_capacity(2);
        if let Some((kernel, pipeline, access)) = multiply {
            let output = sums.as_ref().unwrap_or(&c);
            dispatches.push(Dispatch {
                pipeline: pipeline.clone(),
                bindings: self.bind_group(
                    *access,
                    [a.as_ref(), b.as_ref(), Some(output), bias.as_ref()],
                    scales.at(decide::bindings(traits, Stage::Multiply { fused: sums.is_none() })),
                    &uniform,
                )?,
                workgroups: chunk.workgroups(kernel),
            });
        }
        if let Some((pipeline, rows)) = finish {
            let axis = self.inner.limits.workgroups_per_axis;
            dispatches.push(Dispatch {
                pipeline: pipeline.clone(),
                bindings: self.bind_group(
                    access,
                    [sums.as_ref(), None, Some(&c), bias.as_ref()],
                    scales.at(decide::bindings(traits, Stage::Finish)),
                    &uniform,
                )?,
                workgroups: if packs {
                    pack_workgroups(u64::from(params.words), axis)
                } else {
                    let outputs = chunk.sum_bytes() / if *rows { 16 } else { 4 };
                    reduce_workgroups(outputs, plan.decision.reduce_groups(*rows), axis)
                },
            });
        }
        Ok(dispatches)
    }

    /// Binds an operand and its copy for the copying kernel: one dispatch, or several where a
    /// dispatch cannot have as many workgroups, or a binding not all of either.
    pub(crate) fn bind_copy(
        &self,
        problem: &Problem,
        source: Source<'_>,
        target: &WgslTensor,
        reads: Reads,
        is_a: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let alignment = self.inner.limits.binding_alignment;
        let (lines, layout) =
            if is_a { (problem.m, source.layout) } else { (problem.n, source.layout.transposed()) };
        let copy = reads.copy.ok_or(Error::Device {
            device: self.inner.name.clone(),
            operation: "copying an operand",
            message: "the plan has no copy".into(),
        })?;
        let source = Source { layout, ..source };
        let copied =
            Layout { batch_stride: reads.layout.batch_stride, ..Layout::row_major(1, copy.pitch) };
        let access = Access::ReadOnlyInputs;
        let way = CopyWay::of(copy.order, source.tensor.element(), layout);
        let text = emit::copy(source.tensor.element(), copy.order, way, access);
        let pipeline = self.inner.pipeline(Pass::Copy(copy.order).name(), text, access, 0)?;
        let types = [source.tensor.element(), target.element()];
        let count = [copy.batch, lines, problem.k];
        let most = largest_band(&copy, types, layout, count, &self.inner.limits)?;
        bands(&copy, lines, problem.k, most)
            .into_iter()
            .map(|band| {
                let [batch, rows, cols] = band.count;
                let strides = [layout.batch_stride, layout.row_stride, layout.col_stride];
                let shift =
                    band.first.iter().zip(strides).map(|(&at, s)| at as i128 * s as i128).sum();
                let from = source.bound(shift, Shape { batch, rows, cols }, alignment);
                let part = Shape { batch, rows: band.slow, cols: band.written };
                let to = bound(target, band.to, part, copied, alignment);
                let mut params = Params::of(problem);
                params.m = rows as u32;
                params.n = band.written as u32;
                params.k = cols as u32;
                params.batch = batch as u32;
                params.a = Strides::new(from.base, layout);
                params.c.base = to.base;
                params.c.row = copy.pitch as u32;
                params.c.batch = reads.layout.batch_stride as u32;
                let uniform = self.uniform(&params)?;
                let [x, y] = way.workgroups(&band, target.element());
                Ok(Dispatch {
                    pipeline: pipeline.clone(),
                    bindings: self.bind_group(
                        access,
                        [Some(&from), None, Some(&to), None],
                        Vec::new(),
                        &uniform,
                    )?,
                    workgroups: [x, y, batch as u32],
                })
            })
            .collect()
    }

    /// A uniform buffer with these parameters.
    pub(crate) fn uniform(&self, params: &Params) -> Result<wgpu::Buffer, Error> {
        let bytes = bytemuck::bytes_of(params);
        self.inner.scoped("allocating parameters", bytes.len() as u64, || {
            let buffer = self.inner.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("lapidary parameters"),
                size: bytes.len() as u64,
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            self.inner.queue.write_buffer(&buffer, 0, bytes);
            buffer
        })
    }

    fn bind_group<'b>(
        &self,
        access: Access,
        mut storage: [Option<&'b Bound<'b>>; 4],
        scales: Vec<(&'b Bound<'b>, u32)>,
        uniform: &wgpu::Buffer,
    ) -> Result<wgpu::BindGroup, Error> {
        let inner = &self.inner;
        let mut behind = Vec::with_capacity(3);
        for (bound, binding) in scales {
            match storage.get_mut(binding as usize) {
                Some(place) => *place = Some(bound),
                None => behind.push(bound),
            }
        }
        let further = behind.len() as u32;
        let mut resources = Vec::with_capacity(8);
        resources.extend(storage.into_iter().map(|bound| resource(bound, &inner.dummy)));
        resources.push(uniform.as_entire_binding());
        resources.extend(behind.into_iter().map(|bound| resource(Some(bound), &inner.dummy)));
        let entries: Vec<_> = (0..)
            .zip(resources)
            .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
            .collect();
        inner.scoped("binding operands", 0, || {
            inner.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("lapidary"),
                layout: inner.bind_group_layout(access, further),
                entries: &entries,
            })
        })
    }
}

/// The scales that a chunk needs.
struct Scales<'a> {
    row: Option<Bound<'a>>,
    col: Option<Bound<'a>>,
    group: Option<Bound<'a>>,
}

impl<'a> Scales<'a> {
    /// Finds them, and says in `params` where they are.
    fn of(
        problem: &Problem,
        chunk: &Chunk,
        vectors: &Vectors<'a>,
        alignment: u64,
        params: &mut Params,
    ) -> Self {
        let part =
            |scales: TensorSlice<'a, WgslTensor>, lines, [line0, count, each]: [usize; 3]| {
                let layout = Layout {
                    row_stride: each as isize,
                    col_stride: 1,
                    batch_stride: (lines * each) as isize,
                };
                let shape = Shape { batch: chunk.batch, rows: count, cols: each };
                let first = scales.offset + (chunk.batch0 * lines + line0) * each;
                bound(scales.tensor, first, shape, layout, alignment)
            };
        let row = vectors.row_scale.map(|s| part(s, problem.m, [chunk.row0, chunk.rows, 1]));
        let col = vectors.col_scale.map(|s| part(s, problem.n, [chunk.col0, chunk.cols, 1]));
        let groups = problem.b_group.and_then(|length| problem.k.checked_div(length)).unwrap_or(0);
        let group =
            vectors.group_scales.map(|s| part(s, problem.n, [chunk.col0, chunk.cols, groups]));
        let base = |bound: &Option<Bound<'_>>| bound.as_ref().map_or(0, |bound| bound.base);
        params.row_scale = [base(&row), problem.m as u32];
        params.col_scale = [base(&col), problem.n as u32];
        params.group_scales = [base(&group), (problem.n * groups) as u32, groups as u32, 0];
        Self { row, col, group }
    }

    /// The same at a stage's bindings.
    fn at(&self, bindings: Vec<(Vector, u32)>) -> Vec<(&Bound<'a>, u32)> {
        let bound = |vector| match vector {
            Vector::RowScale => self.row.as_ref(),
            Vector::ColScale => self.col.as_ref(),
            Vector::GroupScales => self.group.as_ref(),
        };
        bindings.into_iter().filter_map(|(vector, at)| Some((bound(vector)?, at))).collect()
    }
}

/// The part of a tensor that a chunk touches, from an aligned offset to a whole word.
fn bound<'a>(
    tensor: &'a WgslTensor,
    first: usize,
    shape: Shape,
    layout: Layout,
    alignment: u64,
) -> Bound<'a> {
    let bits = tensor.element().bits() as u64;
    let span = Placement { offset: first, shape, layout }.span().unwrap_or(first..first + 1);
    let low = tensor.byte_offset + span.start as u64 * bits / 8;
    let high = tensor.byte_offset + (span.end as u64 * bits).div_ceil(8);
    let offset = low / alignment * alignment;
    Bound {
        buffer: &tensor.buffer,
        offset,
        size: high.next_multiple_of(4) - offset,
        base: ((tensor.byte_offset * 8 + first as u64 * bits - offset * 8) / bits) as u32,
    }
}

/// The binding of an operand, or of the placeholder where a kernel has no use for one.
fn resource<'a>(bound: Option<&Bound<'a>>, dummy: &'a wgpu::Buffer) -> wgpu::BindingResource<'a> {
    wgpu::BindingResource::Buffer(match bound {
        Some(bound) => wgpu::BufferBinding {
            buffer: bound.buffer,
            offset: bound.offset,
            size: wgpu::BufferSize::new(bound.size),
        },
        None => wgpu::BufferBinding { buffer: dummy, offset: 0, size: None },
    })
}
