//! Problems, views and plans from arbitrary bytes: each is valid, or a typed error; nothing panics.

use lapidary_core::testing::Random;
use lapidary_core::{
    Activation, AnyMatrixMut, AnyMatrixRef, ElementType, KernelChoice, Layout, MatrixKernel,
    Placement, PlanOptions, Problem, Shape,
};

/// Numbers drawn from bytes, and from a generator once they are used up.
pub(crate) struct Source<'b> {
    bytes: &'b [u8],
    random: Random,
}

impl<'b> Source<'b> {
    /// The numbers that `bytes` stand for.
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        let seed = bytes.iter().fold(7, |hash: u64, &b| hash.wrapping_mul(31) + u64::from(b));
        Self { bytes, random: Random::new(seed) }
    }

    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => self.random.bits() as u8,
        }
    }

    /// Mostly small, at times at an edge of a width, at times anything.
    fn size(&mut self) -> usize {
        let small = usize::from(self.byte());
        match self.byte() % 16 {
            0 => 0,
            1 => small << 8,
            2 => (1 << 16) + small - 128,
            3 => (1 << 31) + small - 128,
            4 => (1 << 32) + small - 128,
            5 => usize::MAX - small,
            6 => self.random.bits() as usize,
            _ => small,
        }
    }

    fn stride(&mut self) -> isize {
        let size = self.size() as isize;
        if self.byte().is_multiple_of(4) { size.wrapping_neg() } else { size }
    }

    fn layout(&mut self, rows: usize, cols: usize) -> Layout {
        match self.byte() % 4 {
            0 => Layout {
                row_stride: self.stride(),
                col_stride: self.stride(),
                batch_stride: self.stride(),
            },
            1 => Layout::col_major(rows, cols),
            _ => Layout::row_major(rows, cols),
        }
    }

    fn element(&mut self) -> ElementType {
        ElementType::ALL[usize::from(self.byte()) % ElementType::ALL.len()]
    }

    /// Any problem; about half of the time of types that go together.
    pub(crate) fn problem(&mut self) -> Problem {
        let (m, n, k) = (self.size(), self.size(), self.size());
        let (a, b, c) = (self.element(), self.element(), self.element());
        let b = if self.byte().is_multiple_of(2) { a } else { b };
        let flags = self.byte();
        let factor =
            |byte: u8| [1.0, 0.0, -2.5, f64::NAN, f64::INFINITY, 1e300][usize::from(byte) % 6];
        let activation = usize::from(self.byte()) % Activation::ALL.len();
        Problem::new(m, n, k)
            .elements(a, c)
            .factors(a, b)
            .batch(if flags & 1 == 0 { 1 } else { self.size() })
            .alpha(factor(self.byte()))
            .beta(factor(self.byte()))
            .bias(flags & 2 != 0)
            .row_scale(flags & 4 != 0)
            .col_scale(flags & 8 != 0)
            .block_scales(flags & 16 != 0)
            .wrapping(flags & 32 != 0)
            .b_group((flags & 64 != 0).then(|| self.size()))
            .activation(Activation::ALL[activation])
            .a_layout(self.layout(m, k))
            .b_layout(self.layout(k, n))
            .c_layout(self.layout(m, n))
    }
}

/// A problem is valid, or refused with a message of one line.
pub(crate) fn problem(bytes: &[u8]) {
    let problem = Source::new(bytes).problem();
    if let Err(error) = problem.validate() {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    assert!(problem.flops() >= 0.0 && problem.min_bytes() >= 0.0);
}

/// A view lies inside its storage, or is refused; one that was made can be read at its corners.
pub(crate) fn view(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let element = source.element();
    let shape = Shape { batch: source.size(), rows: source.size(), cols: source.size() };
    let layout = source.layout(shape.rows, shape.cols);
    let placement = Placement { offset: source.size(), shape, layout };
    let mut storage = vec![0u8; usize::from(source.byte()) * 16];
    if let Ok(view) = AnyMatrixRef::new(&storage, element, placement)
        && !shape.is_empty()
    {
        for (b, r, c) in [
            (0, 0, 0),
            (shape.batch - 1, 0, shape.cols - 1),
            (0, shape.rows - 1, 0),
            (shape.batch - 1, shape.rows - 1, shape.cols - 1),
        ] {
            let _ = view.get(b, r, c);
            let _ = view.transposed().get(b, c, r);
        }
    }
    let _ = AnyMatrixMut::from_bytes(&mut storage, element, placement);
}

/// A plan of any problem within any limits: decided and within them, or refused with a message of one
/// line.
pub(crate) fn plan(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let problem = source.problem();
    let mut kernels = KernelChoice::all_steps(problem.a);
    kernels.push(KernelChoice::Skinny);
    #[cfg(feature = "wgsl")]
    {
        use lapidary_wgsl::decide::{
            cooperative_blocks, cooperative_f16_blocks, dot4_blocks, float_blocks, integer_blocks,
        };
        let blocks = float_blocks().into_iter().chain(integer_blocks()).chain(dot4_blocks());
        let blocks = blocks.chain(cooperative_blocks()).chain(cooperative_f16_blocks());
        kernels.extend(blocks.map(|block| KernelChoice::Policy(block.config)));
    }
    let which = usize::from(source.byte());
    let tile = [source.size(), source.size(), source.size()];
    let splits = source.size();
    kernels.push(KernelChoice::Matrix(MatrixKernel {
        buffers: Some(which % 4),
        splits: (which & 8 != 0).then_some(splits),
        ..MatrixKernel::tile(tile)
    }));
    // A third of the time the backend's own choice.
    let choice = kernels.get(which % (kernels.len() * 3 / 2)).copied().unwrap_or_default();
    let mut options = PlanOptions::kernel(choice);
    let asked = source.byte();
    options.k_slices = (asked & 1 != 0).then(|| source.size());
    options.copies = (asked & 2 != 0).then_some([asked & 4 != 0, asked & 8 != 0]);
    let one_line = |error: lapidary_core::Error| {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    };
    #[cfg(feature = "wgsl")]
    {
        use lapidary_wgsl::{DeviceLimits, wgpu};
        let mut limits = wgpu::Limits::downlevel_defaults();
        limits.max_compute_workgroup_storage_size = u32::from(source.byte()) * 256;
        limits.max_compute_workgroups_per_dimension = 1 + (source.size() as u32 & 0xffff);
        limits.max_storage_buffer_binding_size = 1024 + (source.size() as u64 & 0xffff_ffff);
        let features = wgpu::Features::SHADER_F16;
        let mut limits = DeviceLimits::from_limits(&limits, features, which.is_multiple_of(3));
        limits.cooperative = asked & 16 != 0;
        limits.cooperative_f16 = asked & 4 != 0;
        limits.subgroup_lanes = [0, 8, 16, 32][usize::from(asked >> 5 & 3)];
        limits.matrix_side = if asked & 128 != 0 { 8 } else { 16 };
        let decided = lapidary_wgsl::decide::decide_with(&problem, &limits, &options, "any");
        decided.map_or_else(one_line, |decision| {
            assert!(decision.chunks.iter().all(|chunk| chunk.rows <= problem.m));
            let summary = &decision.summary;
            assert!(summary.workgroup_bytes <= limits.workgroup_bytes, "{summary:?}");
            assert!(summary.workgroup_threads <= limits.workgroup_threads, "{summary:?}");
            let counts = summary.dispatches.iter().flatten();
            let most = counts.max().copied().unwrap_or(0);
            assert!(most <= limits.workgroups_per_axis, "{summary:?}");
        });
    }
    #[cfg(feature = "hip")]
    {
        use lapidary_hip::Target;
        use lapidary_hip::decide::{Asked, DeviceFacts, decide};
        let target = [Target::Gfx942, Target::Gfx950, Target::Gfx90a][which % 3];
        let facts = DeviceFacts { target, compute_units: 304, name: "any".into() };
        let asked = Asked::of_options(&options, target);
        decide(&problem, &facts, asked).map_or_else(one_line, |decision| {
            assert!(!decision.summary.kernel.is_empty());
            let summary = &decision.summary;
            assert!(summary.workgroup_bytes <= target.lds_bytes() as usize, "{summary:?}");
        });
    }
}
