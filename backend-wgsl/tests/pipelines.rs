//! Compiled kernels on disk: found again, and never in the way.
#![cfg(feature = "tune")]

mod common;

use std::path::Path;

use lapidary_core::{ElementType, Gemm, MatrixRef, Operands};
use lapidary_wgsl::{PipelineCache, PipelineCacheState, Wgsl, WgslOptions};

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
