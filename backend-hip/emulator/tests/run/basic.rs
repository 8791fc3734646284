//! Kernels without matrix instructions.

use lapidary_cdna::Arch;
use lapidary_cdna::exec::Order;
use lapidary_cdna::loader::ArgValue::{I32, U64};
use lapidary_cdna::mfma::Format;
use lapidary_cdna::mfma::formats::Overflow;

use super::gpu::{Gpu, Numbers, available, compile, everywhere};

const SOURCE: &str = "basic.hip";

#[test]
fn vector_add_of_odd_sizes() {
    everywhere(SOURCE, |object| {
        for n in [1usize, 63, 255, 257, 1000] {
            let mut numbers = Numbers::new(n as u64);
            let a: Vec<f32> = (0..n).map(|_| numbers.unit()).collect();
            let b: Vec<f32> = (0..n).map(|_| numbers.unit()).collect();
            let mut gpu = Gpu::new([n.div_ceil(256) as u32, 1, 1], [256, 1, 1]);
            let (pa, pb, pc) = (gpu.input("a", &a), gpu.input("b", &b), gpu.output::<f32>("c", n));
            gpu.run(object, "vector_add", vec![pa.into(), pb.into(), pc.into(), I32(n as i32)]);
            let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            assert_eq!(gpu.read::<f32>(pc, n), want);
        }
    });
}

fn gemm(m: usize, n: usize, k: usize, a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut c = vec![0f32; m * n];
    for i in 0..m {
        for j in 0..n {
            c[i * n + j] = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        }
    }
    c
}

#[test]
fn tiled_gemm_with_tails_in_every_order() {
    everywhere(SOURCE, |object| {
        let (m, n, k) = (37, 29, 50);
        let mut numbers = Numbers::new(1);
        // Small integers: every order of summation gives the same bits.
        let a: Vec<f32> = (0..m * k).map(|_| numbers.small(9) as f32).collect();
        let b: Vec<f32> = (0..k * n).map(|_| numbers.small(9) as f32).collect();
        let want = gemm(m, n, k, &a, &b);
        for order in [Order::RoundRobin, Order::Reverse, Order::Random(7)] {
            let mut gpu = Gpu::new([n.div_ceil(16) as u32, m.div_ceil(16) as u32, 1], [256, 1, 1]);
            gpu.launch.order = order;
            let (pa, pb) = (gpu.input("a", &a), gpu.input("b", &b));
            let pc = gpu.output::<f32>("c", m * n);
            let sizes = [m, n, k].map(|x| I32(x as i32));
            let mut args = vec![pa.into(), pb.into(), pc.into()];
            args.extend(sizes);
            let report = gpu.run(object, "gemm_tiled", args);
            assert_eq!(gpu.read::<f32>(pc, m * n), want);
            assert_eq!(report.counters.barriers, 6 * 2 * 4);
            assert_eq!(report.counters.waves, 6 * 4);
            assert_eq!(report.counters.traffic["c"].written, (m * n * 4) as u64);
        }
    });
}

#[test]
fn dpp_reduces_a_wave() {
    everywhere(SOURCE, |object| {
        let mut numbers = Numbers::new(3);
        let data: Vec<i32> = (0..64 * 5).map(|_| numbers.small(1_000_000)).collect();
        let mut gpu = Gpu::new([5, 1, 1], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 5));
        gpu.run(object, "wave_sum", vec![input.into(), output.into()]);
        let want: Vec<i32> = data.chunks(64).map(|chunk| chunk.iter().sum()).collect();
        assert_eq!(gpu.read::<i32>(output, 5), want);
    });
}

#[test]
fn lanes_move_as_documented() {
    everywhere(SOURCE, |object| {
        let data: Vec<i32> = (0..64).map(|x| x * 3 + 100).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 12 * 64));
        gpu.run(object, "lane_moves", vec![input.into(), output.into()]);
        let got = gpu.read::<i32>(output, 12 * 64);
        let row = |lane: usize, at: i32| {
            if (0..16).contains(&at) { data[(lane & !15) + at as usize] } else { 0 }
        };
        for lane in 0..64usize {
            let at = (lane & 15) as i32;
            let sender = (0..64).rev().find(|l| l * 5 & 63 == lane);
            let want = [
                data[lane ^ 3],
                row(lane, at + 1),
                row(lane, at - 2),
                row(lane, (at - 3).rem_euclid(16)),
                row(lane, 15 - at),
                data[lane ^ 7],
                row(lane, 5),
                data[lane ^ 1],
                data[lane * 7 & 63],
                sender.map_or(0, |l| data[l]),
                lane as i32,
                data[0] + 1,
            ];
            for (n, want) in want.into_iter().enumerate() {
                assert_eq!(got[n * 64 + lane], want, "move {n} lane {lane}");
            }
        }
    });
}

#[test]
fn atomics_add_up_in_any_order() {
    everywhere(SOURCE, |object| {
        let n = 700;
        let mut numbers = Numbers::new(5);
        let data: Vec<u32> = (0..n).map(|_| numbers.next() as u32 & 0xffff).collect();
        for order in [Order::RoundRobin, Order::Random(1)] {
            let mut gpu = Gpu::new([3, 1, 1], [256, 1, 1]);
            gpu.launch.order = order;
            gpu.launch.threads = Some(2);
            let input = gpu.input("in", &data);
            let bins = gpu.inout("bins", &[0u32; 64]);
            let sum = gpu.inout("sum", &[0f32]);
            let most = gpu.inout("most", &[-5i32]);
            let wide = gpu.inout("wide", &[1u64]);
            let cas = gpu.inout("cas", &[0f32]);
            let mut args: Vec<_> = [input, bins, sum, most, wide, cas].map(Into::into).into();
            args.push(I32(n));
            gpu.run(object, "atomics", args);
            let mut want = [0u32; 64];
            data.iter().for_each(|x| want[*x as usize & 63] += 1);
            assert_eq!(gpu.read::<u32>(bins, 64), want);
            assert_eq!(gpu.read::<f32>(sum, 1)[0], data.iter().map(|x| (x & 15) as f32).sum());
            assert_eq!(gpu.read::<i32>(most, 1)[0], *data.iter().max().unwrap() as i32);
            let total: u64 = data.iter().map(|&x| u64::from(x) << 20).sum();
            assert_eq!(gpu.read::<u64>(wide, 1)[0], 1 + total);
            assert_eq!(gpu.read::<f32>(cas, 1)[0], n as f32);
        }
    });
}

#[test]
fn generic_pointers_reach_every_memory() {
    everywhere(SOURCE, |object| {
        let data: Vec<i32> = (0..64).map(|x| x * 100_000).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.inout("in", &data), gpu.output::<i32>("out", 3 * 64));
        let report = gpu.run(object, "generic", vec![input.into(), output.into(), I32(3)]);
        assert!(report.counters.by_opcode.contains_key("flat_load_dword"), "no flat access");
        let got = gpu.read::<i32>(output, 3 * 64);
        for lane in 0..64usize {
            for kind in 0..3 {
                let want = match (lane + kind) % 3 {
                    0 => data[lane],
                    1 => data[63 - lane] + 1000,
                    _ => data[lane] + 2000 + (lane as i32 & 7),
                };
                assert_eq!(got[kind * 64 + lane], want, "lane {lane} kind {kind}");
            }
        }
        let want: Vec<i32> = data.iter().map(|x| x + 5).collect();
        assert_eq!(gpu.read::<i32>(input, 64), want);
    });
}

#[test]
fn atomics_on_floats_return_old_values() {
    everywhere(SOURCE, |object| {
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let sum = gpu.inout("sum", &[1f64]);
        let pair = gpu.inout("pair", &[0u32]);
        let counter = gpu.inout("counter", &[7u32, 1000]);
        let (tickets, swapped) =
            (gpu.output::<u32>("tickets", 64), gpu.output::<i32>("swapped", 64));
        let args = [sum, pair, counter, tickets, swapped].map(Into::into).into();
        gpu.run(object, "float_atomics", args);
        assert_eq!(gpu.read::<f64>(sum, 1), [1.0 + 0.5 * 2016.0]);
        // 64 times one, and 64 times two.
        assert_eq!(gpu.read::<u32>(pair, 1), [0x4300_4280]);
        let mut tickets = gpu.read::<u32>(tickets, 64);
        tickets.sort_unstable();
        assert_eq!(tickets, (0..64).map(|n| 7 + 2 * n).collect::<Vec<u32>>());
        let mut swapped = gpu.read::<i32>(swapped, 64);
        swapped.push(gpu.read::<i32>(counter, 2)[1]);
        swapped.sort_unstable();
        assert_eq!(swapped, (0..64).chain([1000]).collect::<Vec<i32>>());
    });
}

#[test]
fn scratch_arrays_and_spills() {
    everywhere(SOURCE, |object| {
        let data: Vec<i32> = (0..128).map(|x| x * 17 % 101).collect();
        let mut gpu = Gpu::new([2, 1, 1], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 128));
        gpu.run(object, "scratch", vec![input.into(), output.into(), I32(25)]);
        let want: Vec<i32> = data
            .iter()
            .map(|&x| {
                let mut table: Vec<i32> = (0..40).map(|i| x * i).collect();
                let mut at = (x & 31) as usize;
                for _ in 0..25 {
                    table[at] = table[at].wrapping_add(table[(at + 7) % 40]);
                    at = (at + 3) % 40;
                }
                (0..40).fold(0, |sum, i| sum ^ (table[i as usize] + i))
            })
            .collect();
        assert_eq!(gpu.read::<i32>(output, 128), want);

        let mut numbers = Numbers::new(11);
        let data: Vec<f32> = (0..48 * 64).map(|_| numbers.small(8) as f32).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<f32>("out", 64));
        let report = gpu.run(object, "spills", vec![input.into(), output.into()]);
        for (lane, got) in gpu.read::<f32>(output, 64).into_iter().enumerate() {
            let x = |i: usize| f64::from(data[i * 64 + lane]);
            let mut sum = 0f64;
            for i in 0..48 {
                for j in 0..3 {
                    sum = sum * 0.5 + x((i * 5 + j * 11) % 48) * x((i * 13 + j) % 48);
                }
            }
            assert!(
                (f64::from(got) - sum).abs() <= 1e-4 * sum.abs().max(1.0),
                "{lane}: {got} {sum}"
            );
        }
        let stores = |name: &str| report.counters.by_opcode.keys().any(|key| key.starts_with(name));
        assert!(stores("scratch_store") || stores("v_accvgpr_write"), "nothing was spilled");
    });
}

#[test]
fn epilogues_with_activations() {
    everywhere(SOURCE, |object| {
        let (m, n) = (3usize, 77usize);
        let mut numbers = Numbers::new(13);
        let mut vector = |n: usize| (0..n).map(|_| numbers.unit() * 3.0).collect::<Vec<f32>>();
        let (x, rows, columns, bias) = (vector(m * n), vector(m), vector(n), vector(n));
        let mut gpu = Gpu::new([m as u32, 1, 1], [64, 1, 1]);
        let inputs = [("x", &x), ("rows", &rows), ("columns", &columns), ("bias", &bias)];
        let mut args: Vec<_> =
            inputs.iter().map(|(name, data)| gpu.input(name, data).into()).collect();
        let silu = gpu.output::<u16>("silu", m * n);
        let gelu = gpu.output::<u16>("gelu", m * n);
        args.extend([silu.into(), gelu.into(), I32(n as i32)]);
        gpu.run(object, "epilogue", args);
        let (silu, gelu) = (gpu.read::<u16>(silu, m * n), gpu.read::<u16>(gelu, m * n));
        let value = |bits: u16| f64::from(f32::from_bits(u32::from(bits) << 16));
        for i in 0..m {
            for j in 0..n {
                let v = f64::from(x[i * n + j]) * f64::from(rows[i]) * f64::from(columns[j])
                    + f64::from(bias[j]);
                let near = |got: f64, want: f64| {
                    // Half a unit of bfloat16, and the single precision error before it.
                    assert!((got - want).abs() <= want.abs() / 255.0 + 1e-5, "{got} {want}");
                };
                near(value(silu[i * n + j]), v / (1.0 + (-v).exp()));
                let u = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v * v * v);
                near(value(gelu[i * n + j]), 0.5 * v * (1.0 + u.tanh()));
            }
        }
    });
}

#[test]
fn lds_sized_at_launch() {
    everywhere(SOURCE, |object| {
        let n = 1000usize;
        let data: Vec<i32> = (0..2 * n as i32).collect();
        let mut gpu = Gpu::new([2, 1, 1], [256, 1, 1]);
        gpu.launch.dynamic_lds = 4 * n as u32;
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 2 * n));
        gpu.run(object, "reverse", vec![input.into(), output.into(), I32(n as i32)]);
        let want: Vec<i32> = data.chunks(n).flat_map(|chunk| chunk.iter().rev().copied()).collect();
        assert_eq!(gpu.read::<i32>(output, 2 * n), want);
    });
}

#[test]
fn loads_straight_to_lds() {
    everywhere(SOURCE, |object| {
        let data: Vec<i32> = (0..1024).map(|x| x * 7).collect();
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 1024));
        gpu.run(object, "lds_dma", vec![input.into(), output.into()]);
        let want: Vec<i32> = (0..1024)
            .map(|x| {
                let (i, thread) = (x / 256, x % 256);
                data[(thread & 15) * 64 + (thread >> 4) + 16 * i]
            })
            .collect();
        assert_eq!(gpu.read::<i32>(output, 1024), want);
    });
}

#[test]
fn loads_straight_to_lds_through_a_descriptor() {
    everywhere(SOURCE, |object| {
        let data: Vec<i32> = (1..=1000).collect();
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 1024));
        gpu.run(object, "buffer_dma", vec![input.into(), output.into(), I32(1000)]);
        let want: Vec<i32> = (0..1024).map(|x| data.get(1023 - x).copied().unwrap_or(0)).collect();
        assert_eq!(gpu.read::<i32>(output, 1024), want);
    });
}

#[test]
fn descriptors_bound_loads_and_stores() {
    everywhere(SOURCE, |object| {
        let n = 250usize;
        let data: Vec<i32> = (0..n as i32).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", n));
        gpu.run(object, "buffers", vec![input.into(), output.into(), I32(n as i32)]);
        let want: Vec<i32> = data.iter().map(|x| x + 1).collect();
        assert_eq!(gpu.read::<i32>(output, n), want);
    });
}

#[test]
fn integer_expansions() {
    everywhere(SOURCE, |object| {
        let mut numbers = Numbers::new(17);
        let mut special = vec![1i32, -1, i32::MAX, i32::MIN + 1, 7, -13];
        special.extend((0..58).map(|_| numbers.next() as i32));
        let a = special.clone();
        let b: Vec<i32> = special.iter().rev().map(|&x| if x == 0 { 1 } else { x }).collect();
        let c: Vec<u64> = (0..64).map(|_| numbers.next() << 31 ^ numbers.next()).collect();
        let d: Vec<u64> = (0..64).map(|i| numbers.next() >> (i % 40)).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let args = vec![
            gpu.input("a", &a).into(),
            gpu.input("b", &b).into(),
            gpu.input("c", &c).into(),
            gpu.input("d", &d).into(),
        ];
        let (out, wide) = (gpu.output::<i32>("out", 14 * 64), gpu.output::<u64>("wide", 8 * 64));
        gpu.run(object, "integers", [args, vec![out.into(), wide.into()]].concat());
        let (out, wide) = (gpu.read::<i32>(out, 14 * 64), gpu.read::<u64>(wide, 8 * 64));
        for i in 0..64 {
            let (x, y) = (a[i], b[i]);
            let (ux, uy) = (x as u32, y as u32);
            let want = [
                x.wrapping_div(y),
                x.wrapping_rem(y),
                (ux / uy) as i32,
                (ux % uy) as i32,
                ux.count_ones() as i32,
                (ux | 1).leading_zeros() as i32,
                (ux | 0x8000_0000).trailing_zeros() as i32,
                ux.reverse_bits() as i32,
                (u64::from(ux) * u64::from(uy) >> 32) as i32,
                (x >> (uy & 31)) ^ (ux << (uy & 31)) as i32,
                x.min(y),
                ux.rotate_left(uy & 31) as i32,
                x.wrapping_abs().wrapping_add(i32::from(x > y)),
                (i32::from(x as i16) * i32::from(y as i16)).wrapping_add(i32::from(x as i8)),
            ];
            for (n, want) in want.into_iter().enumerate() {
                assert_eq!(out[n * 64 + i], want, "operation {n} of {x}, {y}");
            }
            let (p, q) = (c[i], d[i]);
            let shift = (q & 63) as u32;
            let want = [
                p.wrapping_add(q),
                p.wrapping_sub(q),
                p.wrapping_mul(q),
                p / (q | 1),
                p % (q | 1),
                p << shift,
                p >> shift,
                (p as i64 >> shift) as u64,
            ];
            for (n, want) in want.into_iter().enumerate() {
                assert_eq!(wide[n * 64 + i], want, "operation {n} of {p}, {q}");
            }
        }
    });
}

#[test]
fn float_expansions_round_correctly() {
    everywhere(SOURCE, |object| {
        let mut numbers = Numbers::new(19);
        let edge = [0.0f32, -0.0, 1.5, -2.5, 1e-40, -3e38, 5e-39, 1e20];
        let a: Vec<f32> = (0..64)
            .map(|i| {
                edge.get(i)
                    .copied()
                    .unwrap_or_else(|| numbers.unit() * 2f32.powi(numbers.small(60)))
            })
            .collect();
        let b: Vec<f32> = (0..64)
            .map(|i| edge.get(63 - i).copied().unwrap_or_else(|| numbers.unit() * 1000.0))
            .collect();
        let c: Vec<f64> = a.iter().map(|&x| f64::from(x) * 1.000_000_1).collect();
        let d: Vec<f64> = b.iter().map(|&x| f64::from(x) / 3.0).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let args = vec![
            gpu.input("a", &a).into(),
            gpu.input("b", &b).into(),
            gpu.input("c", &c).into(),
            gpu.input("d", &d).into(),
        ];
        let (out, wide) = (gpu.output::<f32>("out", 12 * 64), gpu.output::<f64>("wide", 6 * 64));
        gpu.run(object, "floats", [args, vec![out.into(), wide.into()]].concat());
        let (out, wide) = (gpu.read::<f32>(out, 12 * 64), gpu.read::<f64>(wide, 6 * 64));
        for i in 0..64 {
            let (x, y) = (a[i], b[i]);
            let half = half::f16::from_f32(x).to_f32();
            let want = [
                x / y,
                x.abs().sqrt(),
                x.mul_add(y, x),
                // clang contracts a product and a sum of one expression.
                x.mul_add(y, -x),
                x.floor(),
                y.ceil(),
                x.trunc(),
                y.round_ties_even(),
                (x * 100.0) as i32 as f32,
                x.min(y),
                x.max(y),
                half,
            ];
            for (n, want) in want.into_iter().enumerate() {
                let got = out[n * 64 + i];
                let same = got.to_bits() == want.to_bits()
                    || got.is_nan() && want.is_nan()
                    // Either zero is a minimum of the two.
                    || (n == 9 || n == 10) && got == want;
                assert!(same, "operation {n} of {x:e}, {y:e}: {got:e} instead of {want:e}");
            }
            let (p, q) = (c[i], d[i]);
            let want =
                [p + q, p * q, p / q, p.abs().sqrt(), p.mul_add(q, p), (p * 1000.0) as i64 as f64];
            for (n, want) in want.into_iter().enumerate() {
                let got = wide[n * 64 + i];
                // A conversion beyond 64 bits is undefined in C.
                let undefined = n == 5 && (p * 1000.0).abs() >= 9e18;
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(
                    same || undefined,
                    "operation {n} of {p:e}, {q:e}: {got:e} instead of {want:e}"
                );
            }
        }
    });
}

#[test]
fn hidden_arguments_give_sizes() {
    everywhere(SOURCE, |object| {
        let mut gpu = Gpu::new([3, 1, 1], [96, 2, 1]);
        let output = gpu.inout("out", &[0i32; 250]);
        gpu.run(object, "hidden", vec![output.into(), I32(250)]);
        assert_eq!(gpu.read::<i32>(output, 250), [96 * 1_000_000 + 288 + 2; 250]);
    });
}

#[test]
fn packed_halves() {
    everywhere(SOURCE, |object| {
        let mut numbers = Numbers::new(23);
        let mut halves = || {
            (0..128).map(|_| half::f16::from_f32(numbers.unit() * 50.0)).collect::<Vec<half::f16>>()
        };
        let (a, b) = (halves(), halves());
        let c: Vec<half::bf16> =
            (0..64).map(|i| half::bf16::from_f32(i as f32 * 0.37 - 9.0)).collect();
        let bits = |data: &[half::f16]| data.iter().map(|x| x.to_bits()).collect::<Vec<u16>>();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (pa, pb) = (gpu.input("a", &bits(&a)), gpu.input("b", &bits(&b)));
        let pc = gpu.input("c", &c.iter().map(|x| x.to_bits()).collect::<Vec<u16>>());
        let out = gpu.output::<u16>("out", 512);
        let (d, e) = (gpu.output::<f32>("d", 64), gpu.output::<u16>("e", 64));
        gpu.run(object, "halves", [pa, pb, out, pc, d, e].map(Into::into).into());
        let out = gpu.read::<u16>(out, 512);
        for i in 0..128 {
            let (x, y, other) = (a[i].to_f32(), b[i].to_f32(), b[i ^ 1].to_f32());
            let want = [x * y, x + y, x - other, x.max(y)];
            for (n, want) in want.into_iter().enumerate() {
                assert_eq!(out[n * 128 + i], half::f16::from_f32(want).to_bits(), "{n} {x} {y}");
            }
        }
        for (i, (d, e)) in
            gpu.read::<f32>(d, 64).into_iter().zip(gpu.read::<u16>(e, 64)).enumerate()
        {
            assert_eq!(d, c[i].to_f32() * 3.0);
            assert_eq!(e, half::bf16::from_f32(c[i].to_f32() * (1.0 + 1.0 / 256.0)).to_bits());
        }
    });
}

#[test]
fn eight_bit_conversions() {
    everywhere(SOURCE, |object| {
        let (fp8, bf8) = match object.arch {
            Arch::Gfx942 => (Format::E4m3Fnuz, Format::E5m2Fnuz),
            Arch::Gfx950 => (Format::E4m3Fn, Format::E5m2),
        };
        let mut numbers = Numbers::new(29);
        let mut data = vec![0.0f32, -0.0, 1e9, -1e9, 240.0, 449.0, 1e-9, f32::NAN, f32::INFINITY];
        data.extend((9..256).map(|_| numbers.unit() * 2f32.powi(numbers.small(9))));
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, codes) = (gpu.input("in", &data), gpu.output::<u32>("codes", 128));
        let output = gpu.output::<f32>("out", 320);
        gpu.run(object, "eight_bits", vec![input.into(), codes.into(), output.into()]);
        let (codes, out) = (gpu.read::<u32>(codes, 128), gpu.read::<f32>(output, 320));
        for i in 0..64 {
            let code = |format: Format, n: usize| {
                format.encode(f64::from(data[4 * i + n]), Overflow::NonFinite)
            };
            let word = |format: Format| (0..4).fold(0, |w, n| w | code(format, n) << (8 * n));
            assert_eq!(codes[i], word(fp8), "{:?}", &data[4 * i..4 * i + 4]);
            assert_eq!(codes[64 + i], word(bf8));
            let value = |format: Format, n: usize| format.value(code(format, n)) as f32;
            let want = [value(fp8, 0), value(fp8, 3), value(bf8, 1), value(fp8, 2), value(fp8, 3)];
            for (n, want) in want.into_iter().enumerate() {
                let got = out[64 * n + i];
                assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
            }
        }
    });
}

#[test]
fn ids_of_three_dimensions() {
    everywhere(SOURCE, |object| {
        let mut gpu = Gpu::new([2, 3, 2], [4, 4, 4]);
        let count = 64 * 12;
        let output = gpu.output::<i32>("out", count);
        gpu.run(object, "ids", vec![output.into()]);
        let want: Vec<i32> = (0..count as i32)
            .map(|flat| {
                let (item, group) = (flat % 64, flat / 64);
                item % 4
                    | item / 4 % 4 << 4
                    | item / 16 << 8
                    | group % 2 << 12
                    | group / 2 % 3 << 16
                    | group / 6 << 20
            })
            .collect();
        assert_eq!(gpu.read::<i32>(output, count), want);
    });
}

#[test]
fn calls_return() {
    everywhere(SOURCE, |object| {
        let data: Vec<i32> = (0..64).map(|x| x - 20).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 64));
        gpu.run(object, "calls", vec![input.into(), output.into()]);
        let want: Vec<i32> = data.iter().map(|x| x * x - 3 + 49 - data[0]).collect();
        assert_eq!(gpu.read::<i32>(output, 64), want);
    });
}

#[test]
fn recursion_has_a_stack() {
    everywhere(SOURCE, |object| {
        assert!(object.kernel("recursion").unwrap().descriptor.dynamic_stack);
        let data: Vec<i32> = (0..64).map(|x| x % 12).collect();
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 64));
        gpu.run(object, "recursion", vec![input.into(), output.into()]);
        let numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
        let want: Vec<i32> = data.iter().map(|&n| numbers[n as usize]).collect();
        assert_eq!(gpu.read::<i32>(output, 64), want);
    });
}

#[test]
fn preloaded_arguments_and_their_fallback() {
    if !available() {
        return;
    }
    for arch in Arch::ALL {
        let object = compile(SOURCE, arch, &["-O3", "-mllvm", "-amdgpu-kernarg-preload-count=8"]);
        let kernel = object.kernel("vector_add").unwrap();
        assert!(kernel.descriptor.kernarg_preload_dwords > 0, "nothing is preloaded");
        for preload in [true, false] {
            let n = 300usize;
            let a: Vec<f32> = (0..n).map(|x| x as f32).collect();
            let mut gpu = Gpu::new([2, 1, 1], [256, 1, 1]);
            gpu.launch.preload = preload;
            let (pa, pb) = (gpu.input("a", &a), gpu.input("b", &a));
            let pc = gpu.output::<f32>("c", n);
            gpu.run(&object, "vector_add", vec![pa.into(), pb.into(), pc.into(), I32(n as i32)]);
            assert_eq!(gpu.read::<f32>(pc, n), a.iter().map(|x| x + x).collect::<Vec<f32>>());
        }
    }
}

#[test]
fn a_sample_of_workgroups_leaves_the_rest_alone() {
    everywhere(SOURCE, |object| {
        let n = 1024usize;
        let a = vec![1f32; n];
        let mut gpu = Gpu::new([4, 1, 1], [256, 1, 1]);
        gpu.launch.workgroups = lapidary_cdna::exec::Workgroups::Only(vec![[1, 0, 0], [3, 0, 0]]);
        let (pa, pb) = (gpu.input("a", &a), gpu.input("b", &a));
        let pc = gpu.inout("c", &vec![0f32; n]);
        let args = vec![U64(pa.0), U64(pb.0), U64(pc.0), I32(n as i32)];
        let report = gpu.run(object, "vector_add", args);
        assert_eq!(report.counters.workgroups, 2);
        let want: Vec<f32> = (0..n).map(|i| if i / 256 % 2 == 1 { 2.0 } else { 0.0 }).collect();
        assert_eq!(gpu.read::<f32>(pc, n), want);
    });
}
