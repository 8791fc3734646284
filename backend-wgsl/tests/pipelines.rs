//! Compiled kernels: by several threads at once, each once; on disk, found again and never in the way.
#![cfg(feature = "tune")]

mod common;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use lapidary_core::{
    ElementType, Error, Gemm, KernelChoice, MatrixRef, Operands, PlanOptions, Problem,
};
use lapidary_wgsl::{PipelineCache, PipelineCacheState, Wgsl, WgslOptions};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

fn open(folder: &Path) -> Option<Wgsl> {
    common::own(&WgslOptions::default().pipeline_cache(PipelineCache::at(folder)))
}

/// A product whose result is known.
fn multiply(device: &Wgsl) {
    let (a, b) = (vec![2.0f32; 20 * 30], vec![0.5f32; 30 * 10]);
    let a = MatrixRef::row_major(&a, 20, 30).expect("fits");
    let b = MatrixRef::row_major(&b, 30, 10).expect("fits");
    let operands = Operands::new(a, b);
    let problem = operands.problem(ElementType::F32).expect("agrees");
    let output = Gemm::<Wgsl>::run(device, &problem, &operands).expect("runs");
    assert_eq!(output.matrix.to_vec::<f32>().expect("f32"), [30.0; 200]);
}

fn state(device: &Wgsl) -> PipelineCacheState {
    device.pipeline_cache().expect("Vulkan has caches").1.clone()
}

#[test]
fn the_second_process_finds_what_the_first_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(first) = open(folder.path()) else { return };
    let Some((file, _)) = first.pipeline_cache() else {
        println!("skipped: this API has no pipeline cache");
        return;
    };
    assert_eq!(state(&first), PipelineCacheState::Absent);
    assert_eq!(first.save_pipelines().expect("nothing to do"), None);
    multiply(&first);
    assert_eq!(first.save_pipelines().expect("writes"), Some(file.clone()));
    assert_eq!(first.save_pipelines().expect("nothing new"), None);
    let bytes = std::fs::metadata(&file).expect("there").len() as usize;
    drop(first);

    let second = open(folder.path()).expect("as before");
    match state(&second) {
        // The hash and what stands before it come on top.
        PipelineCacheState::Read(read) => assert_eq!(read + 48, bytes),
        other => panic!("{other:?}"),
    }
    multiply(&second);
    // Dropping writes, the last clone alone.
    std::fs::remove_file(&file).expect("removes");
    let clone = second.clone();
    drop(second);
    assert!(!file.exists());
    drop(clone);
    assert!(file.exists());
}

#[test]
fn a_corrupt_file_or_folder_is_harmless() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(device) = open(folder.path()) else { return };
    let Some((file, _)) = device.pipeline_cache() else {
        println!("skipped: this API has no pipeline cache");
        return;
    };
    multiply(&device);
    drop(device);
    let whole = std::fs::read(&file).expect("written");
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("not empty") ^= 1;
    for damage in [&b""[..], b"lapidary kernel1", &whole[..whole.len() / 2], &flipped] {
        std::fs::write(&file, damage).expect("writes");
        let device = open(folder.path()).expect("as before");
        assert!(matches!(state(&device), PipelineCacheState::Refused(_)), "{:?}", state(&device));
        multiply(&device);
        drop(device);
        let device = open(folder.path()).expect("as before");
        assert!(matches!(state(&device), PipelineCacheState::Read(_)), "replaced by a whole one");
    }
    // A file where the folder should be.
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "x").expect("writes");
    let device = open(&blocked).expect("as before");
    multiply(&device);
    let error = device.save_pipelines().expect_err("there is no folder");
    assert!(error.to_string().contains("cannot be written"), "{error}");
    drop(device);
    assert_eq!(std::fs::read_to_string(&blocked).expect("there"), "x");
}

#[test]
fn devices_that_share_a_folder_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    if open(folder.path()).is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..2 {
                    let device = open(folder.path()).expect("as before");
                    assert!(!matches!(
                        device.pipeline_cache(),
                        Some((_, PipelineCacheState::Refused(_)))
                    ));
                    multiply(&device);
                }
            });
        }
    });
}

/// Counts the compilations of the threads it is the subscriber of, and holds each up until as many have
/// begun as are awaited.
#[derive(Clone)]
struct Compilations(Arc<Counted>);

struct Counted {
    begun: Mutex<usize>,
    another: Condvar,
    awaited: usize,
}

impl Compilations {
    fn awaiting(awaited: usize) -> Self {
        Self(Arc::new(Counted { begun: Mutex::new(0), another: Condvar::new(), awaited }))
    }

    fn begun(&self) -> usize {
        *self.0.begun.lock().expect("no panic")
    }
}

impl Subscriber for Compilations {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "compile"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn enter(&self, _: &Id) {
        let mut begun = self.0.begun.lock().expect("no panic");
        *begun += 1;
        self.0.another.notify_all();
        let missing = |begun: &mut usize| *begun < self.0.awaited;
        // Long enough for any machine: a test that passes does not wait for it.
        let waited = self.0.another.wait_timeout_while(begun, Duration::from_secs(60), missing);
        drop(waited.expect("no panic"));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn exit(&self, _: &Id) {}
}

/// Plans on a thread for each problem, all at once.
fn plan_at_once(
    device: &Wgsl,
    compilations: &Compilations,
    problems: &[Problem],
) -> Vec<Result<(), Error>> {
    // A kernel that stores C itself: one compilation a plan.
    let options = PlanOptions::kernel(KernelChoice::Naive);
    std::thread::scope(|scope| {
        let threads: Vec<_> = problems
            .iter()
            .map(|problem| {
                let (options, compilations) = (&options, compilations.clone());
                scope.spawn(move || {
                    tracing::subscriber::with_default(compilations, || {
                        Gemm::<Wgsl>::plan(device, problem, options).map(|_| ())
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn threads_compile_different_kernels_at_the_same_time() {
    let Some(device) = common::own(&WgslOptions::default()) else { return };
    let compilations = Compilations::awaiting(2);
    let (f32, bf16) = (Problem::new(8, 8, 8), ElementType::BF16);
    let problems = [f32.clone(), f32.elements(bf16, ElementType::F32)];
    // Neither compilation goes on before the other has begun.
    for planned in plan_at_once(&device, &compilations, &problems) {
        planned.expect("plans");
    }
    assert_eq!(compilations.begun(), 2);
}

#[test]
fn threads_that_want_the_same_kernel_have_it_compiled_once() {
    let Some(device) = common::own(&WgslOptions::default()) else { return };
    let compilations = Compilations::awaiting(1);
    for planned in plan_at_once(&device, &compilations, &vec![Problem::new(8, 8, 8); 8]) {
        planned.expect("plans");
    }
    assert_eq!(compilations.begun(), 1);
    // It is kept.
    plan_at_once(&device, &compilations, &[Problem::new(8, 8, 8)]);
    assert_eq!(compilations.begun(), 1);
}

#[test]
fn a_compilation_that_fails_fails_for_every_thread_that_waits() {
    let Some(device) = common::own(&WgslOptions::default()) else { return };
    let compilations = Compilations::awaiting(1);
    device.device().destroy();
    for planned in plan_at_once(&device, &compilations, &vec![Problem::new(8, 8, 8); 8]) {
        assert!(matches!(planned, Err(Error::DeviceLost { .. })), "{planned:?}");
    }
    // Each tries for itself: what failed for one may work for the next.
    assert_eq!(compilations.begun(), 8);
}
