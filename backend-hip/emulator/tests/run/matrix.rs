//! Matrix GEMMs on small integers, where every order and precision of accumulation gives the same result.

use lapidary_cdna::Arch;
use lapidary_cdna::loader::ArgValue::{F32, I32};
use lapidary_cdna::mfma::Format;
use lapidary_cdna::mfma::formats::Overflow;

use super::gpu::{Gpu, Numbers, available, everywhere};

const SOURCE: &str = "matrix.hip";

/// Codes of a matrix, packed low element first.
fn pack(format: Format, values: &[i32]) -> Vec<u8> {
    let bits = format.bits();
    let mut bytes = vec![0u8; (values.len() * bits as usize).div_ceil(8)];
    for (i, &value) in values.iter().enumerate() {
        let code = format.encode(f64::from(value), Overflow::NonFinite);
        assert_eq!(format.value(code), f64::from(value), "{format} cannot hold {value}");
        let at = i * bits as usize;
        for n in 0..bits.div_ceil(8) as usize {
            bytes[at / 8 + n] |= (code >> (8 * n) << (at % 8)) as u8;
        }
    }
    bytes
}

/// The largest integer such that every smaller one is exact too.
fn range(format: Format) -> i32 {
    match format {
        Format::E2m1 => 4,
        Format::E5m2 | Format::E5m2Fnuz => 4,
        _ => 8,
    }
}

fn product(m: usize, n: usize, k: usize, a: &[i32], b: &[i32]) -> Vec<i32> {
    let mut c = vec![0; m * n];
    for i in 0..m {
        for j in 0..n {
            c[i * n + j] = (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum();
        }
    }
    c
}

fn fp8(arch: Arch) -> (Format, Format) {
    match arch {
        Arch::Gfx942 => (Format::E4m3Fnuz, Format::E5m2Fnuz),
        Arch::Gfx950 => (Format::E4m3Fn, Format::E5m2),
    }
}

/// Runs `kernel` on tiles of `tile` rows and columns and compares.
fn check(
    kernel: &str,
    tile: usize,
    k: usize,
    workgroup: u32,
    formats: impl Fn(Arch) -> (Format, Format),
) {
    everywhere(SOURCE, |object| {
        if object.kernel(kernel).is_err() {
            return;
        }
        let (fa, fb) = formats(object.arch);
        let (m, n) = (2 * tile, 3 * tile);
        let mut numbers = Numbers::new(k as u64);
        let a: Vec<i32> = (0..m * k).map(|_| numbers.small(range(fa))).collect();
        let b: Vec<i32> = (0..n * k).map(|_| numbers.small(range(fb))).collect();
        let mut gpu = Gpu::new([3, 2, 1], [workgroup, 1, 1]);
        let (pa, pb) = (gpu.input("a", &pack(fa, &a)), gpu.input("b", &pack(fb, &b)));
        let pc = gpu.output::<u32>("c", m * n);
        let args = vec![pa.into(), pb.into(), pc.into(), I32(n as i32), I32(k as i32)];
        let report = gpu.run(object, kernel, args);
        let want = product(m, n, k, &a, &b);
        for (at, (got, want)) in gpu.read::<u32>(pc, m * n).into_iter().zip(want).enumerate() {
            let got = if fa == Format::I8 { got as i32 as f32 } else { f32::from_bits(got) };
            assert_eq!(got, want as f32, "{} {kernel} at {},{}", object.arch, at / n, at % n);
        }
        assert!(report.counters.matrix_passes > 0);
    });
}

#[test]
fn f32() {
    check("f32_16", 16, 20, 64, |_| (Format::F32, Format::F32));
    check("f32_32", 32, 10, 64, |_| (Format::F32, Format::F32));
}

#[test]
fn xf32() {
    check("xf32_16", 16, 24, 64, |_| (Format::F32, Format::F32));
    check("xf32_32", 32, 12, 64, |_| (Format::F32, Format::F32));
}

#[test]
fn f16() {
    check("f16_16", 16, 48, 64, |_| (Format::F16, Format::F16));
    check("f16_32", 32, 24, 64, |_| (Format::F16, Format::F16));
    check("wide_f16_16", 16, 96, 64, |_| (Format::F16, Format::F16));
    check("wide_f16_32", 32, 48, 64, |_| (Format::F16, Format::F16));
}

#[test]
fn bf16() {
    check("bf16_16", 16, 48, 64, |_| (Format::Bf16, Format::Bf16));
    check("bf16_32", 32, 24, 64, |_| (Format::Bf16, Format::Bf16));
    check("wide_bf16_16", 16, 96, 64, |_| (Format::Bf16, Format::Bf16));
    check("wide_bf16_32", 32, 48, 64, |_| (Format::Bf16, Format::Bf16));
}

#[test]
fn i8() {
    check("i8_16", 16, 96, 64, |_| (Format::I8, Format::I8));
    check("i8_32", 32, 48, 64, |_| (Format::I8, Format::I8));
    check("wide_i8_16", 16, 128, 64, |_| (Format::I8, Format::I8));
    check("wide_i8_32", 32, 96, 64, |_| (Format::I8, Format::I8));
}

#[test]
fn eight_bit_floats() {
    check("fp8_16", 16, 96, 64, |arch| (fp8(arch).0, fp8(arch).0));
    check("fp8_32", 32, 48, 64, |arch| (fp8(arch).0, fp8(arch).0));
    check("bf8_16", 16, 96, 64, |arch| (fp8(arch).1, fp8(arch).1));
    check("fp8_bf8_16", 16, 96, 64, fp8);
    check("bf8_fp8_32", 32, 48, 64, |arch| (fp8(arch).1, fp8(arch).0));
    check("fp8_wide", 16, 256, 64, |arch| (fp8(arch).0, fp8(arch).0));
}

#[test]
fn accumulation_registers() {
    check("f16_agpr", 64, 64, 64, |_| (Format::F16, Format::F16));
}

#[test]
fn double_buffered_lds() {
    check("fp8_lds", 64, 256, 256, |arch| (fp8(arch).0, fp8(arch).0));
}

/// Scaled GEMMs of gfx950.
fn check_scaled(kernel: &str, tile: usize, k: usize, fa: Format, fb: Format) {
    everywhere(SOURCE, |object| {
        if object.arch != Arch::Gfx950 {
            return;
        }
        let (m, n, blocks) = (2 * tile, tile, k / 32);
        let mut numbers = Numbers::new(k as u64);
        let mut matrix = |count: usize, format: Format| -> Vec<i32> {
            (0..count).map(|_| numbers.small(range(format))).collect()
        };
        let (a, b) = (matrix(m * k, fa), matrix(n * k, fb));
        let mut scales = |count: usize| -> Vec<u8> {
            (0..count).map(|_| (127 + numbers.small(2)) as u8).collect()
        };
        let (sa, sb) = (scales(m * blocks), scales(n * blocks));
        let mut gpu = Gpu::new([1, 2, 1], [64, 1, 1]);
        let args =
            [("a", pack(fa, &a)), ("b", pack(fb, &b)), ("sa", sa.clone()), ("sb", sb.clone())];
        let mut args: Vec<_> =
            args.iter().map(|(name, data)| gpu.input(name, data).into()).collect();
        let pc = gpu.output::<f32>("c", m * n);
        args.extend([pc.into(), I32(n as i32), I32(k as i32)]);
        gpu.run(object, kernel, args);
        let power = |code: u8| 2f64.powi(i32::from(code) - 127);
        let got = gpu.read::<f32>(pc, m * n);
        for i in 0..m {
            for j in 0..n {
                let want: f64 = (0..k)
                    .map(|l| {
                        let scale = power(sa[i * blocks + l / 32]) * power(sb[j * blocks + l / 32]);
                        f64::from(a[i * k + l] * b[j * k + l]) * scale
                    })
                    .sum();
                assert_eq!(f64::from(got[i * n + j]), want, "{kernel} at {i},{j}");
            }
        }
    });
}

#[test]
fn mx_scaled() {
    check_scaled("mxfp8_16", 16, 256, Format::E4m3Fn, Format::E4m3Fn);
    check_scaled("mxfp8_32", 32, 128, Format::E4m3Fn, Format::E4m3Fn);
    check_scaled("mxfp4_16", 16, 256, Format::E2m1, Format::E2m1);
    check_scaled("mxfp4_32", 32, 128, Format::E2m1, Format::E2m1);
    check_scaled("mxfp8_fp4_16", 16, 128, Format::E4m3Fn, Format::E2m1);
    check_scaled("mxbf8_fp8_16", 16, 128, Format::E5m2, Format::E4m3Fn);
}

#[test]
fn transposing_reads_feed_a_matrix_instruction() {
    everywhere(SOURCE, |object| {
        if object.arch != Arch::Gfx950 {
            return;
        }
        let mut numbers = Numbers::new(3);
        let a: Vec<i32> = (0..16 * 32).map(|_| numbers.small(8)).collect();
        // 32 rows of 16.
        let b: Vec<i32> = (0..32 * 16).map(|_| numbers.small(8)).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let pa = gpu.input("a", &pack(Format::F16, &a));
        let pb = gpu.input("b", &pack(Format::F16, &b));
        let pc = gpu.output::<f32>("c", 256);
        gpu.run(object, "transposed", vec![pa.into(), pb.into(), pc.into()]);
        for (at, got) in gpu.read::<f32>(pc, 256).into_iter().enumerate() {
            let want: i32 = (0..32).map(|l| a[at / 16 * 32 + l] * b[l * 16 + at % 16]).sum();
            assert_eq!(got, want as f32);
        }
    });
}

#[test]
fn scaled_conversions_divide_by_the_scale() {
    everywhere(SOURCE, |object| {
        if object.arch != Arch::Gfx950 {
            return;
        }
        let mut numbers = Numbers::new(5);
        let data: Vec<f32> = (0..128).map(|_| numbers.unit() * 30.0).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, codes) = (gpu.input("in", &data), gpu.output::<u32>("codes", 128));
        let output = gpu.output::<f32>("out", 128);
        let args = vec![input.into(), codes.into(), output.into(), F32(4.0)];
        gpu.run(object, "scaled_codes", args);
        let (codes, out) = (gpu.read::<u32>(codes, 128), gpu.read::<f32>(output, 128));
        for i in 0..64 {
            let code = |format: Format, n: usize| {
                format.encode(f64::from(data[2 * i + n]) / 4.0, Overflow::NonFinite)
            };
            let fp8 = code(Format::E4m3Fn, 0) | code(Format::E4m3Fn, 1) << 8;
            assert_eq!(codes[i], fp8 << 16);
            let (low, high) = (code(Format::E2m1, 0), code(Format::E2m1, 1));
            assert_eq!(codes[64 + i], (low | high << 4) << 16);
            assert_eq!(f64::from(out[i]), Format::E2m1.value(low) * 4.0);
            assert_eq!(f64::from(out[64 + i]), Format::E2m1.value(high) * 4.0);
        }
    });
}

#[test]
fn lane_swaps() {
    everywhere(SOURCE, |object| {
        if object.arch != Arch::Gfx950 {
            return;
        }
        let data: Vec<i32> = (0..128).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 256));
        gpu.run(object, "swaps", vec![input.into(), output.into()]);
        let got = gpu.read::<i32>(output, 256);
        for lane in 0..64i32 {
            let [a0, a1, b0, b1] = [0, 1, 2, 3].map(|n| got[n * 64 + lane as usize]);
            assert_eq!(a0, if lane < 32 { lane } else { 64 + lane - 32 });
            assert_eq!(a1, if lane < 32 { lane + 32 } else { 64 + lane });
            let odd = lane / 16 % 2 == 1;
            assert_eq!(b0, if odd { 64 + lane - 16 } else { lane });
            assert_eq!(b1, if odd { 64 + lane } else { lane + 16 });
        }
    });
}

#[test]
fn wide_loads_straight_to_lds() {
    everywhere(SOURCE, |object| {
        if object.arch != Arch::Gfx950 {
            return;
        }
        let data: Vec<i32> = (0..256).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 256));
        gpu.run(object, "lds_dma_x4", vec![input.into(), output.into()]);
        let want: Vec<i32> = data.chunks(4).rev().flatten().copied().collect();
        assert_eq!(gpu.read::<i32>(output, 256), want);
    });
}

#[test]
fn the_swizzle_is_free_of_bank_conflicts() {
    if !available() {
        return;
    }
    let object = super::gpu::compile(SOURCE, Arch::Gfx942, &["-O3"]);
    let (k, n) = (256usize, 64usize);
    let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
    let data = vec![0u8; 64 * k];
    let (pa, pb) = (gpu.input("a", &data), gpu.input("b", &data));
    let pc = gpu.output::<f32>("c", 64 * n);
    let args = vec![pa.into(), pb.into(), pc.into(), I32(n as i32), I32(k as i32)];
    let report = gpu.run(&object, "fp8_lds", args);
    let reads: u64 = report
        .counters
        .lines
        .iter()
        .filter(|line| line.text.starts_with("ds_read_b128"))
        .map(|line| line.access.conflict_cycles)
        .sum();
    assert_eq!(reads, 0);
}
