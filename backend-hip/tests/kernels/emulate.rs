//! Running a configuration on the emulator with all checks on, against a reference in f64.

use std::sync::Arc;

use lapidary_cdna::exec::{Launch, Machine, Order, Prepared, Report};
use lapidary_cdna::loader::{ArgValue, CodeObject};
use lapidary_core::ElementType;
use lapidary_hip::compile::{Cache, Compiler, Request};
use lapidary_hip::preshuffle::{ACopy, Args, PackedB, PackedScales, PreshuffleConfig, SourceB};

/// Numbers of a fixed sequence.
pub(crate) struct Sequence(u64);

impl Sequence {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }

    /// An integer from −3 to 3.
    pub(crate) fn small(&mut self) -> i32 {
        self.below(7) as i32 - 3
    }
}

/// Puts an integer from −3 to 3 into `bytes` as element `index`.
pub(crate) fn put(element: ElementType, bytes: &mut [u8], index: usize, value: i32) {
    use ElementType as T;
    let magnitude = |codes: [u8; 4], sign: u8| {
        codes[value.unsigned_abs() as usize] | if value < 0 { sign } else { 0 }
    };
    match element {
        T::F32 => bytes[index * 4..][..4].copy_from_slice(&(value as f32).to_le_bytes()),
        T::F16 => bytes[index * 2..][..2]
            .copy_from_slice(&half::f16::from_f32(value as f32).to_le_bytes()),
        T::BF16 => bytes[index * 2..][..2]
            .copy_from_slice(&half::bf16::from_f32(value as f32).to_le_bytes()),
        T::I8 => bytes[index] = value as i8 as u8,
        T::F8E4M3 => bytes[index] = magnitude([0, 0x38, 0x40, 0x44], 0x80),
        T::F8E4M3Fnuz => bytes[index] = magnitude([0, 0x40, 0x48, 0x4c], 0x80),
        T::F8E5M2 => bytes[index] = magnitude([0, 0x3c, 0x40, 0x42], 0x80),
        T::F8E5M2Fnuz => bytes[index] = magnitude([0, 0x40, 0x44, 0x46], 0x80),
        T::I4 => put_nibble(bytes, index, value as u8 & 0xf),
        T::F4E2M1 => put_nibble(bytes, index, magnitude([0, 2, 4, 5], 8)),
        _ => panic!("{element} has no test values"),
    }
}

/// A random finite element: its code, and its value.
fn random_element(element: ElementType, numbers: &mut Sequence) -> (u32, f64) {
    use ElementType as T;
    // A float in [-1, 1) with 24 random bits.
    let unit = |numbers: &mut Sequence| numbers.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0;
    match element {
        T::F32 => {
            let value = unit(numbers);
            (value.to_bits(), f64::from(value))
        }
        T::F16 => {
            let value = half::f16::from_f32(unit(numbers));
            (u32::from(value.to_bits()), value.to_f64())
        }
        T::BF16 => {
            let value = half::bf16::from_f32(unit(numbers));
            (u32::from(value.to_bits()), value.to_f64())
        }
        T::I8 => {
            let code = numbers.below(256) as u8;
            (u32::from(code), f64::from(code as i8))
        }
        T::I4 => {
            let code = numbers.below(16) as u8;
            (u32::from(code), f64::from((code << 4) as i8 >> 4))
        }
        _ => loop {
            let code = numbers.below(1 << element.bits()) as u32;
            if let Some(value) = small_float(element, code) {
                return (code, value);
            }
        },
    }
}

/// The value of an 8- or 4-bit float, `None` where it is not finite.
fn small_float(element: ElementType, code: u32) -> Option<f64> {
    use ElementType as T;
    let (exponent_bits, bias) = match element {
        T::F8E4M3 => (4, 7),
        T::F8E4M3Fnuz => (4, 8),
        T::F8E5M2 => (5, 15),
        T::F8E5M2Fnuz => (5, 16),
        _ => (2, 1),
    };
    let fraction_bits = element.bits() as i32 - 1 - exponent_bits;
    let magnitude = code & ((1 << (element.bits() - 1)) - 1);
    let negative = code != magnitude;
    let finite = match element {
        T::F8E4M3 => magnitude != 0x7f,
        T::F8E5M2 => magnitude < 0x7c,
        T::F8E4M3Fnuz | T::F8E5M2Fnuz => code != 0x80,
        _ => true,
    };
    let fraction =
        f64::from(magnitude & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let exponent = (magnitude >> fraction_bits) as i32;
    let value = if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    };
    finite.then_some(if negative { -value } else { value })
}

/// Puts an element's code into `bytes` as element `index`.
fn put_code(element: ElementType, bytes: &mut [u8], index: usize, code: u32) {
    match element.bits() {
        4 => put_nibble(bytes, index, code as u8),
        bits => {
            bytes[index * bits / 8..][..bits / 8].copy_from_slice(&code.to_le_bytes()[..bits / 8]);
        }
    }
}

fn put_nibble(bytes: &mut [u8], index: usize, nibble: u8) {
    let shift = index % 2 * 4;
    bytes[index / 2] = bytes[index / 2] & !(0xf << shift) | nibble << shift;
}

/// Compiles and decodes a kernel.
pub(crate) fn prepare(compiler: &Compiler, request: &Request, kernel: &str) -> Prepared {
    let object = compiler.compile(request).unwrap_or_else(|error| panic!("{error}"));
    let object = Arc::new(CodeObject::parse(&object.bytes).expect("a code object"));
    Prepared::new(&object, kernel).expect("the kernel decodes")
}

/// What a run gave.
pub(crate) struct Outcome {
    /// The emulator's report.
    pub(crate) report: Report,
    /// C as f64, row-major.
    pub(crate) found: Vec<f64>,
    /// The expected values, before rounding to the output type.
    pub(crate) expected: Vec<f64>,
    /// Σ|a||b| of each element.
    pub(crate) magnitudes: Vec<f64>,
    /// C's raw bytes, gaps between rows included.
    pub(crate) raw: Vec<u8>,
    /// Bytes outside C's elements that changed.
    pub(crate) broken_canaries: usize,
}

/// One problem for one configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) config: PreshuffleConfig,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Matrices.
    pub(crate) batch: usize,
    pub(crate) splits: usize,
    pub(crate) order: Order,
    pub(crate) seed: u64,
    /// A row of A that holds nothing but NaN.
    pub(crate) nan_row: Option<usize>,
    /// Random elements in place of integers from −3 to 3.
    pub(crate) random: bool,
}

/// Fills gaps: a NaN in every float type it is read as, and an odd value in integers.
const CANARY: u8 = 0xff;

impl Case {
    pub(crate) fn new(config: PreshuffleConfig, [m, n, k]: [usize; 3]) -> Self {
        let mut config = config;
        // Vectors need whole multiples.
        if !n.is_multiple_of(config.c_vector) {
            config.c_vector = 1;
        }
        Self {
            config,
            m,
            n,
            k,
            batch: 1,
            splits: 1,
            order: Order::RoundRobin,
            seed: 1,
            nan_row: None,
            random: false,
        }
    }

    /// Compiles and runs.
    pub(crate) fn run(&self, compiler: &Compiler) -> Outcome {
        let request = self.config.request().unwrap_or_else(|e| panic!("{}: {e}", self.config));
        let kernel = prepare(compiler, &request, "preshuffle");
        let reduce = self.config.split_k.then(|| {
            let request = self.config.reduce_request().expect("a valid configuration");
            prepare(compiler, &request, "reduce")
        });
        self.run_prepared(&kernel, reduce.as_ref())
    }

    fn launch(
        &self,
        machine: &mut Machine,
        kernel: &Prepared,
        args: &Args,
        launch: Option<lapidary_hip::preshuffle::Launch>,
    ) -> Report {
        let launch = launch.expect("the grid fits");
        let args = vec![ArgValue::Bytes(bytemuck::bytes_of(args).to_vec())];
        let launch = Launch {
            grid: launch.grid,
            workgroup: [launch.threads, 1, 1],
            args,
            order: self.order,
            ..Launch::default()
        };
        machine.launch(kernel, &launch).unwrap_or_else(|error| panic!("{}: {error}", self.config))
    }

    fn run_prepared(&self, kernel: &Prepared, reduce: Option<&Prepared>) -> Outcome {
        let Self { config, m, n, k, batch, .. } = *self;
        let data = self.data();
        let mut machine = Machine::new();
        let mut device = |name: &str, bytes: &[u8]| {
            // Allocations are whole dwords, as every GPU allocator's are.
            let mut padded = bytes.to_vec();
            padded.resize(bytes.len().next_multiple_of(4), CANARY);
            machine.memory.alloc_read_only(name, &padded).expect("memory")
        };
        let source = SourceB {
            bytes: &data.b,
            element: config.b,
            k,
            n,
            batch,
            k_stride: 1,
            n_stride: k,
            batch_stride: n * k,
        };
        let packed = PackedB::pack(&source, config.tile[2]).expect("B packs");
        packed.check(&config, k, n, batch).expect("the layout fits");

        let integer = config.output == ElementType::I32;
        let bits = |value: f32| if integer { value as i32 as u32 } else { value.to_bits() };
        let floats =
            |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let bias: Vec<u8> = data.bias.iter().flat_map(|&v| bits(v).to_le_bytes()).collect();
        let layout = packed.layout();
        let mut args = Args {
            a: device("A", &data.a),
            b: device("B", packed.bytes()),
            row_scale: device("row scale", &floats(&data.row_scale)),
            col_scale: device("column scale", &floats(&data.col_scale)),
            bias: device("bias", &bias),
            a_stride: data.a_stride as u64,
            c_stride: data.c_stride as u64,
            a_batch: (m * data.a_stride) as u64,
            b_batch: layout.matrix_bytes().expect("it was packed") as u64,
            c_batch: (m * data.c_stride) as u64,
            alpha: bits(ALPHA),
            beta: bits(BETA),
            ..Args::sizes(&config, [m, n, k], layout.column_bytes(), self.splits)
                .expect("sizes fit")
        };
        if config.block_scaled {
            args.a_scale = device("A scales", &data.a_scales);
            let packed = PackedScales::pack(&data.b_scales, layout).expect("whole blocks");
            args.b_scale = device("B scales", packed.bytes());
        }
        args.c = machine.memory.alloc_from("C", &data.c).expect("memory");
        if config.split_k {
            let bytes = args.workspace_bytes(batch) as u64;
            args.workspace = machine.memory.alloc("sums", bytes).expect("memory");
        }

        args.check_spans(&config).expect("offsets reach");
        let mut report = self.launch(&mut machine, kernel, &args, args.launch(batch));
        if let Some(reduce) = reduce {
            // The first pass is judged with the second.
            let second = self.launch(&mut machine, reduce, &args, args.reduce_launch(batch));
            report.findings.extend(second.findings);
            report.complete &= second.complete;
        }

        let size = config.output.size();
        let raw = machine.memory.read(args.c, data.c.len()).expect("C");
        let gaps = (0..batch * m - 1).map(|row| row * data.c_stride + n * size);
        let broken_canaries = gaps
            .flat_map(|start| &raw[start..start + data.c_stride - n * size])
            .filter(|&&byte| byte != CANARY)
            .count();
        let found = (0..batch * m * n)
            .map(|i| decode(config.output, &raw[i / n * data.c_stride + i % n * size..]))
            .collect();
        let (expected, magnitudes) = self.reference(&data);
        Outcome { report, found, expected, magnitudes, raw, broken_canaries }
    }

    /// Operands, with canaries between rows.
    fn data(&self) -> Data {
        let Self { config, m, n, k, batch, .. } = *self;
        let mut numbers = Sequence::new(self.seed);
        let mut fill = |element: ElementType, bytes: &mut [u8], index: usize| {
            if self.random {
                let (code, value) = random_element(element, &mut numbers);
                put_code(element, bytes, index, code);
                value
            } else {
                let value = numbers.small();
                put(element, bytes, index, value);
                f64::from(value)
            }
        };
        let row_bytes = (k * config.a.bits()).div_ceil(8);
        let a_stride = match config.copy {
            ACopy::Guarded => row_bytes + config.a.bits().div_ceil(8),
            _ => row_bytes.next_multiple_of(16) + 16,
        };
        // The one NaN of the FNUZ types is the code of minus zero.
        let canary = match config.a {
            ElementType::F8E4M3Fnuz | ElementType::F8E5M2Fnuz => 0x80,
            _ => CANARY,
        };
        let rows = batch * m;
        let mut a = vec![canary; (rows - 1) * a_stride + row_bytes];
        let a_values =
            (0..rows * k).map(|i| fill(config.a, &mut a[i / k * a_stride..], i % k)).collect();
        if let Some(row) = self.nan_row {
            a[row * a_stride..][..row_bytes].fill(canary);
        }
        let mut b = vec![0; (batch * n * k * config.b.bits()).div_ceil(8)];
        let b_values = (0..batch * n * k).map(|i| fill(config.b, &mut b, i)).collect();

        let size = config.output.size();
        let c_stride = (n + config.c_vector) * size;
        let mut c = vec![CANARY; (rows - 1) * c_stride + n * size];
        let mut integers = Sequence::new(self.seed + 400);
        let old: Vec<i32> = (0..rows * n).map(|_| integers.small()).collect();
        if config.epilogue.beta {
            for (i, &value) in old.iter().enumerate() {
                encode(config.output, &mut c[i / n * c_stride + i % n * size..], value);
            }
        }
        let blocks = k / 32;
        let mut more = Sequence::new(self.seed + 100);
        let mut powers = |count: usize| -> Vec<f32> {
            (0..count).map(|_| [0.5, 1.0, 2.0, 0.25][more.below(4) as usize]).collect()
        };
        let (row_scale, col_scale) = (powers(batch * m), powers(batch * n));
        let bias = (0..n).map(|_| integers.small() as f32).collect();
        // 2^-2 to 2^2.
        let mut scales =
            |count: usize| -> Vec<u8> { (0..count).map(|_| 125 + more.below(5) as u8).collect() };
        let (a_scales, b_scales) = (scales(rows * blocks), scales(batch * n * blocks));
        Data {
            a,
            a_values,
            a_stride,
            b,
            b_values,
            c,
            old,
            c_stride,
            row_scale,
            col_scale,
            bias,
            a_scales,
            b_scales,
        }
    }

    /// The expected elements, and Σ|a||b| of each.
    fn reference(&self, data: &Data) -> (Vec<f64>, Vec<f64>) {
        let Self { config, m, n, k, batch, .. } = *self;
        let (e, blocks) = (config.epilogue, k / 32);
        let element = |index: usize| {
            let (row, col) = (index / n, index % n);
            let column = row / m * n + col;
            let product = |i: usize| {
                let p = data.a_values[row * k + i] * data.b_values[column * k + i];
                if !config.block_scaled {
                    return p;
                }
                let a = data.a_scales[row * blocks + i / 32];
                let b = data.b_scales[column * blocks + i / 32];
                p * 2f64.powi(i32::from(a) + i32::from(b) - 254)
            };
            let mut x: f64 = (0..k).map(product).sum();
            let magnitude: f64 = (0..k).map(|i| product(i).abs()).sum();
            if e.row_scale {
                x *= f64::from(data.row_scale[row]);
            }
            if e.col_scale {
                x *= f64::from(data.col_scale[column]);
            }
            if e.alpha {
                x *= f64::from(ALPHA);
            }
            if e.beta {
                x += f64::from(BETA) * f64::from(data.old[index]);
            }
            if e.bias {
                x += f64::from(data.bias[col]);
            }
            (e.activation.apply(x), magnitude)
        };
        (0..batch * m * n).map(element).unzip()
    }
}

const ALPHA: f32 = 2.0;
const BETA: f32 = 3.0;

/// The operands of a case, and their values.
struct Data {
    a: Vec<u8>,
    a_values: Vec<f64>,
    a_stride: usize,
    b: Vec<u8>,
    b_values: Vec<f64>,
    c: Vec<u8>,
    old: Vec<i32>,
    c_stride: usize,
    row_scale: Vec<f32>,
    col_scale: Vec<f32>,
    bias: Vec<f32>,
    a_scales: Vec<u8>,
    b_scales: Vec<u8>,
}

fn encode(output: ElementType, to: &mut [u8], value: i32) {
    match output {
        ElementType::F32 => to[..4].copy_from_slice(&(value as f32).to_le_bytes()),
        ElementType::I32 => to[..4].copy_from_slice(&value.to_le_bytes()),
        ElementType::F16 => {
            to[..2].copy_from_slice(&half::f16::from_f32(value as f32).to_le_bytes());
        }
        ElementType::BF16 => {
            to[..2].copy_from_slice(&half::bf16::from_f32(value as f32).to_le_bytes());
        }
        _ => panic!("no such output"),
    }
}

fn decode(output: ElementType, from: &[u8]) -> f64 {
    match output {
        ElementType::F32 => {
            f64::from(f32::from_le_bytes(from[..4].try_into().expect("four bytes")))
        }
        ElementType::I32 => {
            f64::from(i32::from_le_bytes(from[..4].try_into().expect("four bytes")))
        }
        ElementType::F16 => half::f16::from_le_bytes([from[0], from[1]]).to_f64(),
        ElementType::BF16 => half::bf16::from_le_bytes([from[0], from[1]]).to_f64(),
        _ => panic!("no such output"),
    }
}

/// `value` rounded to the output type once. Expected values are exact in f32 here.
pub(crate) fn rounded(output: ElementType, value: f64) -> f64 {
    match output {
        ElementType::F16 => half::f16::from_f32(value as f32).to_f64(),
        ElementType::BF16 => half::bf16::from_f32(value as f32).to_f64(),
        _ => f64::from(value as f32),
    }
}

/// The compiler with the user's cache, or a line that says why there is none.
pub(crate) fn compiler() -> Option<Compiler> {
    match Compiler::find_clang() {
        Ok(compiler) => Some(compiler.with_cache(Cache::of_user())),
        Err(error @ lapidary_hip::HipError::CompilerNotFound { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
