//! The WGSL backend on one adapter.

use std::time::Duration;

use lapidary_wgsl::core::{AnyMatrixRef, Placement, PlanOptions, oracle};
use lapidary_wgsl::prelude::*;

use crate::Result;
use crate::row::{Row, bytes};
use crate::shapes::Product;

/// Outputs compared with the oracle.
const SAMPLE: usize = 64;

const WARM_UP: Duration = Duration::from_millis(250);

pub(crate) fn measure(
    adapter: &str,
    shapes: impl Iterator<Item = Product>,
    runs: usize,
    print: &mut impl FnMut(Row),
) -> Result<()> {
    let mut options = WgslOptions::default();
    if !adapter.is_empty() {
        options = options.adapter(AdapterChoice::parse(adapter));
    }
    let device = Wgsl::with_options(&options)?;
    for shape in shapes {
        if shape.operand == ElementType::F16 && !device.limits().f16 {
            eprintln!("skipped {}: the device has no f16", shape.name());
            continue;
        }
        print(time(&device, &shape, runs)?);
    }
    Ok(())
}

fn time(device: &Wgsl, shape: &Product, runs: usize) -> Result<Row> {
    let problem = shape.problem();
    let [a, b] = shape.operands();
    let upload = |bytes: &[u8]| -> Result<WgslTensor> {
        let tensor = device.alloc(shape.operand, bytes.len() / shape.operand.size())?;
        device.upload(&tensor, 0, bytes)?;
        Ok(tensor)
    };
    let (on_a, on_b) = (upload(&a)?, upload(&b)?);
    let outputs = problem.batch * problem.m * problem.n;
    let on_c = device.alloc(shape.output, outputs)?;
    let plan = device.plan(&problem, &PlanOptions::default())?;
    let args = Args::new(&on_a, &on_b, &on_c);
    let timing = device.time(&plan, &args, runs, WARM_UP)?;

    let after = pollster::block_on(device.download(&on_c))?;
    let operands = shape.view([&a, &b])?;
    let summary = device.summary(&plan);
    let positions = oracle::sample_positions(&problem, summary.block_tile, SAMPLE, 7);
    let reference = oracle::reference_at(&problem, &operands, &positions)?;
    let place = Placement { offset: 0, shape: problem.c_shape(), layout: problem.c_layout };
    let c = AnyMatrixRef::new(&after, shape.output, place)?;
    let comparison = reference.compare(&c);
    if !comparison.passed() {
        eprintln!("{}: {comparison}", shape.name());
    }
    Ok(Row {
        library: "lapidary-wgsl".into(),
        name: shape.name(),
        kernel: summary.kernel.clone(),
        flops: problem.flops(),
        bytes: bytes(&problem),
        times: timing.min_median_max(),
        clock: if timing.device_clock { "device" } else { "host" },
        right: comparison.passed(),
        device: device.adapter_info().name.replace(',', " "),
    })
}
