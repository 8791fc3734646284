//! The CPU backend next to other crates, f32 row-major, all threads.

use std::time::{Duration, Instant};

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use lapidary_wgsl::core::{Cpu, PlanOptions, oracle};
use lapidary_wgsl::prelude::*;

use crate::Result;
use crate::row::{Row, bytes, min_median_max};
use crate::shapes::Product;

/// Outputs compared with the oracle.
const SAMPLE: usize = 64;

pub(crate) fn measure(shape: &Product, runs: usize, print: &mut impl FnMut(Row)) -> Result<()> {
    let problem = shape.problem();
    let (m, n, k) = (problem.m, problem.n, problem.k);
    let [a, b] = shape.operands();
    let operands = shape.view([&a, &b])?;
    let positions = oracle::sample_positions(&problem, [16, 16], SAMPLE, 7);
    let reference = oracle::reference_at(&problem, &operands, &positions)?;
    let mut row = |library: &str, c: &[f32], times: Vec<Duration>| -> Result<()> {
        let c = MatrixRef::row_major(c, m, n)?;
        print(Row {
            library: library.into(),
            name: shape.name(),
            kernel: String::new(),
            flops: problem.flops(),
            bytes: bytes(&problem),
            times: min_median_max(times),
            clock: "host",
            right: reference.compare(&c.into()).passed(),
            device: "cpu".into(),
        });
        Ok(())
    };
    let mut c = vec![0.0f32; m * n];

    let cpu = Cpu::new();
    let place = |bytes: &[u8]| -> Result<_> {
        let tensor = cpu.alloc(ElementType::F32, bytes.len() / 4)?;
        cpu.upload(&tensor, 0, bytes)?;
        Ok(tensor)
    };
    let (on_a, on_b) = (place(&a)?, place(&b)?);
    let on_c = cpu.alloc(ElementType::F32, m * n)?;
    let plan = cpu.plan(&problem, &PlanOptions::default())?;
    let times = repeat(runs, || Ok(cpu.execute(&plan, &Args::new(&on_a, &on_b, &on_c))?))?;
    let after = pollster::block_on(cpu.download(&on_c))?;
    row("lapidary-cpu", &floats(&after), times)?;
    let (a, b) = (floats(&a), floats(&b));

    let times = repeat(runs, || {
        matmul(
            MatMut::from_row_major_slice_mut(&mut c, m, n),
            Accum::Replace,
            MatRef::from_row_major_slice(&a, m, k),
            MatRef::from_row_major_slice(&b, k, n),
            1.0f32,
            Par::rayon(0),
        );
        Ok(())
    })?;
    row("faer", &c, times)?;

    let (row_a, row_b, row_c) = (k as isize, n as isize, n as isize);
    let times = repeat(runs, || {
        // SAFETY: the three matrices are row-major of these sizes, and C overlaps neither A nor B.
        unsafe {
            matrixmultiply::sgemm(
                m,
                k,
                n,
                1.0,
                a.as_ptr(),
                row_a,
                1,
                b.as_ptr(),
                row_b,
                1,
                0.0,
                c.as_mut_ptr(),
                row_c,
                1,
            );
        }
        Ok(())
    })?;
    row("matrixmultiply", &c, times)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Times of `runs` calls after two that are not counted.
fn repeat(runs: usize, mut call: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    call()?;
    call()?;
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            call()?;
            Ok(start.elapsed())
        })
        .collect()
}
