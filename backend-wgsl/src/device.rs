//! An open device: its limits, its pipelines, and how its failures become errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapidary_core::{DeviceInfo, ElementType, Error};

use crate::adapter::{self, AdapterChoice};
use crate::decide::{FIXED_BINDINGS, MOST_BINDINGS, Tuning};
use crate::emit::Access;
use crate::errors::{self, scoped};
use crate::limits::{DeviceLimits, shares_memory};
use crate::params::Params;
use crate::pipelines::Pipelines;
#[cfg(feature = "tune")]
use crate::pipelines::{Kept, SavesWhenDropped};

/// How to open a device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WgslOptions {
    /// Which adapter. The default asks `LAPIDARY_ADAPTER`, then takes the best.
    pub adapter: AdapterChoice,
    /// Whether shaders get run-time bounds checks and loop limits. The default is no: the shaders
    /// are this crate's own, and every index in them is guarded.
    pub checked: bool,
    /// Limits and features to ask for instead of all the adapter has. The default is all.
    pub limits: Option<wgpu::Limits>,
    /// Features to ask for, of those the adapter has. The default is f16, timestamps, subgroups,
    /// cooperative matrices, the pipeline cache and, where memory is the host's, buffers in it.
    pub features: wgpu::Features,
    /// What plans assume of the device beyond its limits, instead of what its class suggests.
    pub tuning: Option<Tuning>,
    /// How long to wait for one submission before it counts as hung. The default is 5 minutes.
    pub timeout: Duration,
    /// Bytes of device memory that a one-shot product may hold at once; one that needs more is cut into
    /// pieces that are streamed through the device (see [`stream`](crate::stream)). The default is what
    /// there is: products are streamed where the device refuses to hold them whole.
    pub memory_budget: Option<u64>,
    /// Where measured choices of kernels are read from, and written to by [`Wgsl::tune`]. The default
    /// is nowhere: nothing is read, and the same problem always gets the same kernel.
    #[cfg(feature = "tune")]
    pub tune_cache: Option<crate::tune::TuneCache>,
    /// Where compiled kernels are kept for the next process, if the device can
    /// (`Features::PIPELINE_CACHE`). The default is nowhere: drivers on desktops keep a cache of their
    /// own.
    #[cfg(feature = "tune")]
    pub pipeline_cache: Option<crate::PipelineCache>,
    /// What a test changes in shaders; `checked` counts as true then. The default is nothing.
    #[cfg(feature = "testing")]
    pub rewrite: Option<crate::ShaderRewrite>,
}

impl Default for WgslOptions {
    fn default() -> Self {
        Self {
            adapter: AdapterChoice::from_environment(),
            checked: false,
            limits: None,
            features: wgpu::Features::SHADER_F16
                | wgpu::Features::TIMESTAMP_QUERY
                | wgpu::Features::SUBGROUP
                | wgpu::Features::PIPELINE_CACHE
                | wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
                | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
            tuning: None,
            timeout: Duration::from_secs(300),
            memory_budget: None,
            #[cfg(feature = "tune")]
            tune_cache: None,
            #[cfg(feature = "tune")]
            pipeline_cache: None,
            #[cfg(feature = "testing")]
            rewrite: None,
        }
    }
}

impl WgslOptions {
    /// Picks the adapter.
    #[must_use]
    pub fn adapter(mut self, adapter: AdapterChoice) -> Self {
        self.adapter = adapter;
        self
    }

    /// Lets one-shot products hold at most so many bytes of device memory at once.
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// Asks for run-time checks in shaders.
    #[must_use]
    pub fn checked(mut self, checked: bool) -> Self {
        self.checked = checked;
        self
    }

    /// Plans with the kernels that were measured to be fastest, as far as `cache` knows any.
    #[cfg(feature = "tune")]
    #[must_use]
    pub fn tune_cache(mut self, cache: crate::tune::TuneCache) -> Self {
        self.tune_cache = Some(cache);
        self
    }

    /// Keeps compiled kernels in `cache` for the next process.
    #[cfg(feature = "tune")]
    #[must_use]
    pub fn pipeline_cache(mut self, cache: crate::PipelineCache) -> Self {
        self.pipeline_cache = Some(cache);
        self
    }

    /// Changes shaders before they are compiled.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn rewrite(mut self, rewrite: crate::ShaderRewrite) -> Self {
        self.rewrite = Some(rewrite);
        self
    }

    /// Plans with these assumptions of the device.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }

    /// Asks for exactly these limits and, of those the adapter has, these features.
    #[must_use]
    pub fn restrict(mut self, limits: wgpu::Limits, features: wgpu::Features) -> Self {
        self.limits = Some(limits);
        self.features = features;
        self
    }
}

/// The GEMM backend for WebGPU-class devices. Cheap to clone; clones share the device.
#[derive(Clone, Debug)]
pub struct Wgsl {
    pub(crate) inner: Arc<Inner>,
    /// Shared by clones, but not by threads of this crate that end some time later.
    #[cfg(feature = "tune")]
    _saves: Arc<SavesWhenDropped>,
}

/// Devices opened so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// What clones share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Number of this device in the program, by which it knows its plans and tensors.
    pub(crate) id: u64,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: DeviceLimits,
    pub(crate) name: String,
    pub(crate) timeout: Duration,
    pub(crate) memory_budget: Option<u64>,
    #[cfg(feature = "tune")]
    pub(crate) tune_cache: Option<crate::tune::TuneCache>,
    /// Bound where a kernel has no use for a binding.
    pub(crate) dummy: wgpu::Buffer,
    info: wgpu::AdapterInfo,
    pub(crate) checked: bool,
    #[cfg(feature = "testing")]
    pub(crate) rewrite: Option<crate::ShaderRewrite>,
    /// For each way to bind, by the number of bindings behind the fixed ones.
    layouts: [Vec<Layouts>; 2],
    pub(crate) pipelines: Pipelines,
    /// Why the device was lost, once it was.
    lost: Arc<Mutex<Option<String>>>,
    /// Whether errors that no scope catches come to this crate's handler.
    own_handler: bool,
}

#[derive(Debug)]
struct Layouts {
    bind_group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

impl Wgsl {
    /// Opens the best adapter with all it has.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no adapter, or it cannot be opened.
    pub fn new() -> Result<Self, Error> {
        Self::with_options(&WgslOptions::default())
    }

    /// Opens a device as `options` say.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if no adapter matches, or it cannot be opened with those limits.
    pub fn with_options(options: &WgslOptions) -> Result<Self, Error> {
        pollster::block_on(Self::with_options_async(options))
    }

    /// As [`Wgsl::with_options`], without blocking.
    ///
    /// # Errors
    /// As [`Wgsl::with_options`].
    pub async fn with_options_async(options: &WgslOptions) -> Result<Self, Error> {
        let adapter = adapter::find(adapter::instance(), &options.adapter).await?;
        let info = adapter.get_info();
        let name = info.name;
        let mut features = options.features & adapter.features();
        if !shares_memory(info.device_type) {
            // A card's own memory is slow for the host.
            features.remove(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
        }
        let experimental = if features.intersects(wgpu::Features::all_experimental_mask()) {
            // SAFETY: of the experimental features only cooperative matrices are used, by kernels
            // whose every load and store is inside tiles or buffers whose sizes the plan knows.
            unsafe { wgpu::ExperimentalFeatures::enabled() }
        } else {
            wgpu::ExperimentalFeatures::disabled()
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("lapidary"),
            required_features: features,
            experimental_features: experimental,
            required_limits: options.limits.clone().unwrap_or_else(|| adapter.limits()),
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| {
            Error::NoDevice { reason: format!("{name} could not be opened: {error}") }
        })?;
        let lost = Arc::new(Mutex::new(None));
        let on_lost = Arc::clone(&lost);
        device.set_device_lost_callback(move |reason, message| {
            remember(&on_lost, format!("{reason:?}: {message}"));
        });
        let on_error = Arc::clone(&lost);
        let label = name.clone();
        // What no error scope caught; wgpu's default handler would panic.
        device.on_uncaptured_error(Arc::new(move |error| {
            if let Some(error) = errors::note(error) {
                tracing::error!(device = label, %error, "uncaptured device error");
                remember(&on_error, error.to_string());
            }
        }));
        let mut limits = DeviceLimits::of(&device);
        if limits.f16 && features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
            limits.list_matrices(&adapter.cooperative_matrix_properties());
        }
        if let Some(tuning) = options.tuning {
            limits.tuning = tuning;
        }
        Self::assemble(device, queue, limits, options, lost, true)
    }

    /// Opens the adapters with these indices of [`list`](crate::adapter::list), or all that share a
    /// product with profit (see [`sharing`](crate::adapter::sharing)), to be
    /// [`Devices`](lapidary_core::Devices) in proportion to how fast their classes are.
    ///
    /// An index may be given twice; the adapter is opened twice then.
    ///
    /// # Errors
    /// As [`Wgsl::with_options`] for each adapter, whose own choice does not count here.
    pub fn share(
        options: &WgslOptions,
        adapters: Option<&[usize]>,
    ) -> Result<lapidary_core::Devices<Self>, Error> {
        let all;
        let adapters = match adapters {
            Some(adapters) => adapters,
            None => {
                all = adapter::sharing(&pollster::block_on(adapter::list()));
                &all[..]
            }
        };
        let open = |&index: &usize| {
            let options = options.clone().adapter(AdapterChoice::Index(index));
            let device = Self::with_options(&options)?;
            let weight = device.limits().tuning.flops;
            Ok((device, weight))
        };
        let members = adapters.iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        lapidary_core::Devices::weighted(members)
    }

    /// Uses a device that the program already has. Its error handlers are left alone.
    ///
    /// The device needs nothing beyond `Limits::downlevel_defaults()`; `SHADER_F16` allows f16
    /// operands. Cooperative matrices are not used: a device does not tell which there are.
    ///
    /// # Errors
    /// [`Error::Device`] if the device refuses the few objects every plan needs.
    pub fn from_device(device: wgpu::Device, queue: wgpu::Queue) -> Result<Self, Error> {
        let limits = DeviceLimits::of(&device);
        Self::assemble(device, queue, limits, &WgslOptions::default(), Arc::default(), false)
    }

    fn assemble(
        device: wgpu::Device,
        queue: wgpu::Queue,
        limits: DeviceLimits,
        options: &WgslOptions,
        lost: Arc<Mutex<Option<String>>>,
        own_handler: bool,
    ) -> Result<Self, Error> {
        let info = device.adapter_info();
        let name = info.name.clone();
        let (layouts, dummy) = scoped(&device, &name, "opening the device", 256, || {
            let most = MOST_BINDINGS.min(limits.storage_bindings).saturating_sub(FIXED_BINDINGS);
            let layouts = [Access::ReadOnlyInputs, Access::AllReadWrite].map(|access| {
                (0..=most).map(|further| Layouts::new(&device, access, further)).collect()
            });
            let dummy = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("lapidary unused binding"),
                size: 256,
                usage: wgpu::BufferUsages::STORAGE,
                mapped_at_creation: false,
            });
            (layouts, dummy)
        })?;
        #[cfg(feature = "tune")]
        let pipelines =
            Pipelines::keeping(Kept::open(&device, &info, options.pipeline_cache.as_ref())?);
        #[cfg(not(feature = "tune"))]
        let pipelines = Pipelines::default();
        tracing::debug!(device = name, ?limits, "device opened");
        #[cfg(feature = "testing")]
        let checked = options.checked || options.rewrite.is_some();
        #[cfg(not(feature = "testing"))]
        let checked = options.checked;
        let inner = Arc::new(Inner {
            id: OPENED.fetch_add(1, Ordering::Relaxed),
            device,
            queue,
            limits,
            name,
            timeout: options.timeout,
            memory_budget: options.memory_budget,
            #[cfg(feature = "tune")]
            tune_cache: options.tune_cache.clone(),
            dummy,
            info,
            checked,
            #[cfg(feature = "testing")]
            rewrite: options.rewrite.clone(),
            layouts,
            pipelines,
            lost,
            own_handler,
        });
        Ok(Self {
            #[cfg(feature = "tune")]
            _saves: Arc::new(SavesWhenDropped(Arc::clone(&inner))),
            inner,
        })
    }

    /// The limits plans are made within.
    #[must_use]
    pub fn limits(&self) -> &DeviceLimits {
        &self.inner.limits
    }

    /// The device, for programs that share it.
    ///
    /// On a device that this crate has opened, leave its handler of uncaptured errors alone: it is how
    /// [`Backend::execute`](lapidary_core::Backend::execute) hears of them.
    #[must_use]
    pub fn device(&self) -> &wgpu::Device {
        &self.inner.device
    }

    /// The queue, for programs that share it.
    #[must_use]
    pub fn queue(&self) -> &wgpu::Queue {
        &self.inner.queue
    }

    /// The adapter's name, driver, type and API.
    #[must_use]
    pub fn adapter_info(&self) -> &wgpu::AdapterInfo {
        &self.inner.info
    }

    #[cfg(feature = "tune")]
    pub(crate) fn is_checked(&self) -> bool {
        self.inner.checked
    }

    pub(crate) fn describe(&self) -> DeviceInfo {
        let inner = &self.inner;
        let info = &inner.info;
        let driver = format!("{} {}", info.driver, info.driver_info);
        let mut description = DeviceInfo::new("wgsl", inner.name.clone(), driver.trim());
        description.elements =
            vec![ElementType::F32, ElementType::BF16, ElementType::I8, ElementType::I4];
        if inner.limits.f16 {
            description.elements.insert(1, ElementType::F16);
        }
        let features = inner.device.features();
        let limits = &inner.limits;
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        description.properties = vec![
            ("type".into(), format!("{:?}", info.device_type)),
            ("api".into(), format!("{:?}", info.backend)),
            ("workgroup memory".into(), format!("{} B", limits.workgroup_bytes)),
            ("workgroup threads".into(), limits.workgroup_threads.to_string()),
            ("workgroups per axis".into(), limits.workgroups_per_axis.to_string()),
            ("storage binding".into(), format!("{} B", limits.binding_bytes)),
            ("buffer".into(), format!("{} B", limits.buffer_bytes)),
            (
                "subgroup size".into(),
                format!("{} to {}", info.subgroup_min_size, info.subgroup_max_size),
            ),
            ("memory shared with the host".into(), yes_no(limits.unified)),
            ("f16".into(), yes_no(limits.f16)),
            ("cooperative matrices".into(), matrices(limits, limits.cooperative)),
            ("cooperative matrices with f16 sums".into(), matrices(limits, limits.cooperative_f16)),
            (
                "tuned for".into(),
                match limits.tuning.measured_on {
                    Some(device) => format!("{}, measured on {device}", limits.tuning.class),
                    None => format!("{}, estimated", limits.tuning.class),
                },
            ),
            ("timestamps".into(), yes_no(features.contains(wgpu::Features::TIMESTAMP_QUERY))),
            ("checked shaders".into(), yes_no(inner.checked)),
        ];
        description
    }
}

/// Sizes of a device's matrices along M, N and K, if it lists any.
fn matrices(limits: &DeviceLimits, listed: bool) -> String {
    let side = limits.matrix_side;
    if listed { format!("{side}x{side}x{side}") } else { "no".to_owned() }
}

impl Inner {
    /// The layout of every bind group with `further` bindings behind the fixed ones.
    pub(crate) fn bind_group_layout(&self, access: Access, further: u32) -> &wgpu::BindGroupLayout {
        &self.layout(access, further).bind_group
    }

    fn layout(&self, access: Access, further: u32) -> &Layouts {
        let layouts = match access {
            Access::ReadOnlyInputs => &self.layouts[0],
            Access::AllReadWrite => &self.layouts[1],
        };
        // A decision has no more than the device allows, and so than there are.
        &layouts[(further as usize).min(layouts.len() - 1)]
    }

    /// The layout of every pipeline.
    pub(crate) fn pipeline_layout(&self, access: Access, further: u32) -> &wgpu::PipelineLayout {
        &self.layout(access, further).pipeline
    }

    /// Runs `work` with the device's errors caught.
    pub(crate) fn scoped<T>(
        &self,
        operation: &'static str,
        bytes: u64,
        work: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        self.check_alive()?;
        let result = scoped(&self.device, &self.name, operation, bytes, work)?;
        // No scope catches the loss of the device. A poll is what has it reported.
        self.poll(wgpu::PollType::Poll)?;
        Ok(result)
    }

    /// As [`Inner::scoped`], for what happens often: without the scopes where the device's handler is
    /// this crate's.
    pub(crate) fn often<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        if !self.own_handler {
            return self.scoped(operation, 0, work);
        }
        self.check_alive()?;
        let result = errors::watched(&self.name, operation, work)?;
        self.poll(wgpu::PollType::Poll)?;
        Ok(result)
    }

    /// Fails once the device was lost.
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        match &*self.lost.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(reason) => {
                Err(Error::DeviceLost { device: self.name.clone(), reason: reason.clone() })
            }
        }
    }

    /// Waits for everything submitted so far.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let wait = wgpu::PollType::Wait { submission_index: None, timeout: Some(self.timeout) };
        self.poll(wait)
    }

    /// Waits for a submission and what came before it.
    pub(crate) fn wait_for(&self, submission: wgpu::SubmissionIndex) -> Result<(), Error> {
        self.poll(wgpu::PollType::Wait {
            submission_index: Some(submission),
            timeout: Some(self.timeout),
        })
    }

    /// Polls the device, which runs callbacks that are due, that of its loss among them.
    fn poll(&self, how: wgpu::PollType) -> Result<(), Error> {
        // wgpu panics where the driver says while it polls that the device is lost.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(how)));
        if polled.is_err() {
            remember(&self.lost, "the driver lost it while it was polled".into());
        }
        self.check_alive()?;
        match polled {
            Ok(Err(wgpu::PollError::Timeout)) => {
                Err(Error::Timeout { device: self.name.clone(), seconds: self.timeout.as_secs() })
            }
            Ok(Err(error)) => Err(Error::Device {
                device: self.name.clone(),
                operation: "waiting",
                message: error.to_string(),
            }),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }
}

fn remember(lost: &Mutex<Option<String>>, reason: String) {
    lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
}

impl Layouts {
    /// Inputs at 0, 1 and 3, the output at 2, parameters at 4: four storage bindings, which is all
    /// that `downlevel_defaults` allows; further inputs behind them.
    fn new(device: &wgpu::Device, access: Access, further: u32) -> Self {
        let storage = |binding, read_only| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let inputs = access == Access::ReadOnlyInputs;
        let mut entries = vec![
            storage(0, inputs),
            storage(1, inputs),
            storage(2, false),
            storage(3, inputs),
            wgpu::BindGroupLayoutEntry {
                binding: 4,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Uniform,
                    has_dynamic_offset: false,
                    // Known, so that wgpu need not check it at every dispatch.
                    min_binding_size: wgpu::BufferSize::new(size_of::<Params>() as u64),
                },
                count: None,
            },
        ];
        entries.extend((0..further).map(|index| storage(FIXED_BINDINGS + 1 + index, inputs)));
        let bind_group = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("lapidary"),
            entries: &entries,
        });
        let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("lapidary"),
            bind_group_layouts: &[Some(&bind_group)],
            immediate_size: 0,
        });
        Self { bind_group, pipeline }
    }
}
