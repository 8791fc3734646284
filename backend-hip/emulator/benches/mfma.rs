//! Bit-exact matrix instructions a second on one thread.

use std::hint::black_box;
use std::time::{Duration, Instant};

use lapidary_cdna::Arch;
use lapidary_cdna::isa::Opcode;
use lapidary_cdna::mfma::formats::Overflow;
use lapidary_cdna::mfma::{Format, MfmaShape, Scales, execute};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// Windows that are timed for each instruction.
const WINDOWS: usize = 200;
/// How long a window lasts.
const WINDOW: Duration = Duration::from_millis(2);

fn main() {
    let only: Option<String> = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let cases = [
        (Arch::Gfx942, Opcode::VMfmaF32_16x16x32Fp8Fp8, 0),
        (Arch::Gfx942, Opcode::VMfmaF32_32x32x16Fp8Fp8, 0),
        (Arch::Gfx942, Opcode::VMfmaF32_16x16x16F16, 0),
        (Arch::Gfx942, Opcode::VMfmaF32_16x16x16Bf16, 0),
        (Arch::Gfx942, Opcode::VMfmaF32_16x16x8Xf32, 0),
        (Arch::Gfx942, Opcode::VMfmaF32_16x16x4F32, 0),
        (Arch::Gfx942, Opcode::VMfmaI32_16x16x32I8, 0),
        (Arch::Gfx950, Opcode::VMfmaF32_16x16x32F16, 0),
        (Arch::Gfx950, Opcode::VMfmaF32_16x16x32Bf16, 0),
        (Arch::Gfx950, Opcode::VMfmaI32_16x16x64I8, 0),
        (Arch::Gfx950, Opcode::VMfmaF32_16x16x128F8f6f4, 0),
        (Arch::Gfx950, Opcode::VMfmaScaleF32_16x16x128F8f6f4, 4),
    ];
    println!("{:<8} {:<36} {:>14}", "arch", "instruction", "per second");
    for (arch, opcode, format) in cases {
        if only.as_ref().is_some_and(|name| !opcode.mnemonic().contains(name.as_str())) {
            continue;
        }
        match MfmaShape::resolve(arch, opcode, format, 0, format) {
            Ok(shape) => {
                let rate = measure(&shape);
                println!("{:<8} {:<36} {rate:>14.0}", arch.name(), opcode.mnemonic());
            }
            Err(error) => println!("{:<8} {:<36} {error}", arch.name(), opcode.mnemonic()),
        }
    }
}

/// Instructions a second on operands of ordinary size: the best of many windows, so short that most are not interrupted.
fn measure(shape: &MfmaShape) -> f64 {
    let mut rng = SmallRng::seed_from_u64(1);
    let a = operand(&mut rng, shape.a(), shape.a_registers());
    let b = operand(&mut rng, shape.b(), shape.b_registers());
    let ones = [0x7f7f_7f7f; 64];
    let scales = Scales { a: &ones, a_byte: 0, b: &ones, b_byte: 0 };
    let c = vec![[0u32; 64]; shape.acc_registers()];
    let mut d = c.clone();
    let mut best = 0f64;
    for _ in 0..WINDOWS {
        let start = Instant::now();
        let mut runs = 0u32;
        while start.elapsed() < WINDOW {
            for _ in 0..50 {
                if let Err(error) = execute(shape, black_box(&a), &b, &c, Some(&scales), &mut d) {
                    println!("{error}");
                    return 0.0;
                }
                black_box(&d);
            }
            runs += 50;
        }
        best = best.max(f64::from(runs) / start.elapsed().as_secs_f64());
    }
    best
}

/// Registers full of elements drawn evenly from -1 to 1 (integers: from all values).
fn operand(rng: &mut SmallRng, format: Format, registers: usize) -> Vec<[u32; 64]> {
    let bits = format.bits() as usize;
    let mut lanes = vec![[0u32; 64]; registers];
    for lane in 0..64 {
        for element in 0..registers * 32 / bits {
            let code = match format {
                Format::I8 => rng.random::<u32>() & 0xff,
                _ => format.encode(rng.random_range(-1.0..1.0), Overflow::Saturate),
            };
            let wide = u64::from(code) << (element * bits % 32);
            let first = element * bits / 32;
            lanes[first][lane] |= wide as u32;
            if let Some(next) = lanes.get_mut(first + 1) {
                next[lane] |= (wide >> 32) as u32;
            }
        }
    }
    lanes
}
