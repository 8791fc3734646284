//! What an execution costs the host beside what wgpu takes for the same commands.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use lapidary_core::testing::block_on;
use lapidary_core::{Args, Backend, ElementType, PlanOptions, Problem};
use lapidary_wgsl::{Wgsl, WgslOptions, WgslTensor, wgpu};

/// The system's allocator, counting what the current thread asks of it.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is going away has nothing to count for.
    COUNT.try_with(|count| count.set(count.get() + 1)).ok();
}

// SAFETY: every call is handed to the system's allocator unchanged; counting allocates nothing, as the
// counter is a constant without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs after which wgpu's own pools have grown to their size, and runs counted.
const WARM: usize = 40;
const COUNTED: usize = 40;

/// The fewest allocations of a run, and the shortest time of one: wgpu now and then grows a pool, and
/// the machine has other things to do.
fn least(device: &wgpu::Device, mut run: impl FnMut()) -> (u64, Duration) {
    let mut least = (u64::MAX, Duration::MAX);
    for index in 0..WARM + COUNTED {
        let (before, start) = (COUNT.get(), Instant::now());
        run();
        let (elapsed, after) = (start.elapsed(), COUNT.get());
        device.poll(wgpu::PollType::wait_indefinitely()).expect("alive");
        if index >= WARM {
            least = (least.0.min(after - before), least.1.min(elapsed));
        }
    }
    least
}

/// One dispatch with the bindings of a product, as a program would write it by hand.
struct ByHand {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
}

impl ByHand {
    fn new(device: &wgpu::Device, queue: &wgpu::Queue, operands: [&WgslTensor; 3]) -> Self {
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(
                "@group(0) @binding(0) var<storage, read> a: array<f32>;
                 @group(0) @binding(1) var<storage, read> b: array<f32>;
                 @group(0) @binding(2) var<storage, read_write> c: array<f32>;
                 @group(0) @binding(3) var<storage, read> bias: array<f32>;
                 @group(0) @binding(4) var<uniform> scale: vec4<f32>;
                 @compute @workgroup_size(1) fn main() { c[0] = scale.x * a[0] * b[0] + bias[0]; }"
                    .into(),
            ),
        });
        // Sizes of storage bindings are the buffers', as where one layout serves many kernels.
        let entry = |binding, ty, bytes| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty,
                has_dynamic_offset: false,
                min_binding_size: wgpu::BufferSize::new(bytes),
            },
            count: None,
        };
        let storage =
            |binding, read_only| entry(binding, wgpu::BufferBindingType::Storage { read_only }, 0);
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[
                storage(0, true),
                storage(1, true),
                storage(2, false),
                storage(3, true),
                entry(4, wgpu::BufferBindingType::Uniform, 16),
            ],
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let buffer = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 256,
                usage,
                mapped_at_creation: false,
            })
        };
        let (bias, scale) =
            (buffer(wgpu::BufferUsages::STORAGE), buffer(wgpu::BufferUsages::UNIFORM));
        let [a, b, c] = operands.map(WgslTensor::buffer);
        let resources = (0..).zip([a, b, c, &bias, &scale]);
        let entries: Vec<_> = resources
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        Self { device: device.clone(), queue: queue.clone(), pipeline, group }
    }

    /// `count` dispatches in one pass of one submission.
    fn run(&self, count: usize) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for _ in 0..count {
                pass.set_pipeline(&self.pipeline);
                pass.set_bind_group(0, &self.group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            }
        }
        self.queue.submit([encoder.finish()]);
        self.device.poll(wgpu::PollType::Poll).expect("alive");
    }
}

/// All that an execution, or a batch, allocates is what wgpu does for the same commands. Times are
/// printed, not judged.
#[test]
fn an_execution_allocates_nothing_beyond_its_commands() {
    let Some(device) = common::own(&WgslOptions::default()) else { return };
    let shared = Wgsl::from_device(device.device().clone(), device.queue().clone());
    let shared = shared.expect("shares the device");
    let problem = Problem::new(64, 64, 64);
    for (device, scopes) in [
        (&device, 0),
        // On a program's own device errors are caught in wgpu's scopes, one for each of three kinds,
        // and closing a scope allocates.
        (&shared, 3),
    ] {
        let tensor = || device.alloc(ElementType::F32, 64 * 64).expect("allocates");
        let (a, b, c) = (tensor(), tensor(), tensor());
        let plan = device.plan(&problem, &PlanOptions::default()).expect("plans");
        assert_eq!(plan.decision().chunks.len(), 1);
        let args = Args::new(&a, &b, &c);
        let hand = ByHand::new(device.device(), device.queue(), [&a, &b, &c]);
        let ours = least(device.device(), || device.execute(&plan, &args).expect("executes"));
        let theirs = least(device.device(), || hand.run(1));
        println!("one product: {ours:?}, by hand {theirs:?}");
        assert_eq!(ours.0, theirs.0 + scopes);

        // A packed B is looked up as any other.
        let packed = device.pack_b(&plan, (&b).into()).expect("packs");
        let args = Args::with_packed_b(&a, &packed, &c);
        let ours = least(device.device(), || device.execute(&plan, &args).expect("executes"));
        println!("with B packed: {ours:?}");
        assert_eq!(ours.0, theirs.0 + scopes);

        let args = Args::new(&a, &b, &c);
        let mut batch = device.batch();
        for _ in 0..16 {
            batch.add(&plan, &args).expect("adds");
        }
        let ours = least(device.device(), || batch.submit().expect("submits"));
        let theirs = least(device.device(), || hand.run(16));
        println!("a batch of 16: {ours:?}, by hand {theirs:?}");
        assert_eq!(ours.0, theirs.0 + scopes);
        block_on(device.sync()).expect("alive");
    }
}
