//! Running a configuration on the emulator with all checks on, against a reference in f64.

use std::sync::Arc;

use super::elements::{Sequence, decode, encode, put, put_code, random_element};
use lapidary_cdna::exec::{Launch, Machine, Order, Prepared, Report};
use lapidary_cdna::loader::{ArgValue, CodeObject};
use lapidary_core::ElementType;
use lapidary_hip::compile::{Cache, Compiler, Request};
use lapidary_hip::preshuffle::{ACopy, Args, PackedB, PackedScales, PreshuffleConfig, SourceB};

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
    /// The same, before the activation.
    pub(crate) arguments: Vec<f64>,
    /// The magnitudes of each element's terms before the activation: Σ|a||b| with its factors, and
    /// |beta·C| + |bias|.
    pub(crate) magnitudes: Vec<[f64; 2]>,
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
    /// What is not finite.
    pub(crate) poison: Option<Poison>,
    /// Values of alpha and beta, where the epilogue has them.
    pub(crate) factors: [f32; 2],
    /// Whether operands are views into larger buffers full of canaries; otherwise each allocation
    /// ends with its operand, and the emulator reports what lies beyond.
    pub(crate) views: bool,
    /// Random elements in place of integers from −3 to 3.
    pub(crate) random: bool,
}

/// A row of A or a column of B whose elements, or whose block scales, are all one code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Poison {
    RowOfA(usize, u32),
    ColumnOfB(usize, u32),
    ScalesOfA(usize, u8),
    ScalesOfB(usize, u8),
}

/// Fills gaps: a NaN in every float type it is read as, and an odd value in integers.
const CANARY: u8 = 0xff;

/// The canary between rows of A. The one NaN of the FNUZ types is the code of minus zero.
fn canary_of(element: ElementType) -> u8 {
    match element {
        ElementType::F8E4M3Fnuz | ElementType::F8E5M2Fnuz => 0x80,
        _ => CANARY,
    }
}

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
            poison: None,
            factors: [2.0, 3.0],
            views: false,
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
        let reference = self.reference(&data);
        // A guarded view starts anywhere.
        let lead = match config.copy {
            ACopy::Guarded if self.views => config.a.bits().div_ceil(8),
            _ => 0,
        };
        let mut machine = Machine::new();
        let mut device = |name: &str, bytes: &[u8]| {
            // Allocations are whole dwords, as every GPU allocator's are.
            let mut padded = bytes.to_vec();
            let beyond = if self.views { 64 } else { 0 };
            let canary = if name == "A" { canary_of(config.a) } else { CANARY };
            padded.resize(bytes.len().next_multiple_of(4) + beyond, canary);
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
            a: device("A", &[vec![canary_of(config.a); lead], data.a].concat()) + lead as u64,
            b: device("B", packed.bytes()),
            row_scale: device("row scale", &floats(&data.row_scale)),
            col_scale: device("column scale", &floats(&data.col_scale)),
            bias: device("bias", &bias),
            a_stride: data.a_stride as u64,
            c_stride: data.c_stride as u64,
            a_batch: (m * data.a_stride) as u64,
            b_batch: layout.matrix_bytes().expect("it was packed") as u64,
            c_batch: (m * data.c_stride) as u64,
            alpha: bits(self.factors[0]),
            beta: bits(self.factors[1]),
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
        let mut report = self.launch(&mut machine, kernel, &args, args.launch(batch).ok());
        if let Some(reduce) = reduce {
            // The first pass is judged with the second.
            let second = self.launch(&mut machine, reduce, &args, args.reduce_launch(batch).ok());
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
        let (arguments, magnitudes): (Vec<f64>, Vec<[f64; 2]>) = reference.into_iter().unzip();
        let activation = config.epilogue.activation;
        let expected = arguments.iter().map(|&x| activation.apply(x)).collect();
        Outcome { report, found, expected, arguments, magnitudes, raw, broken_canaries }
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
        let canary = canary_of(config.a);
        let rows = batch * m;
        let mut a = vec![canary; (rows - 1) * a_stride + row_bytes];
        let a_values =
            (0..rows * k).map(|i| fill(config.a, &mut a[i / k * a_stride..], i % k)).collect();
        if let Some(Poison::RowOfA(row, code)) = self.poison {
            (0..k).for_each(|i| put_code(config.a, &mut a[row * a_stride..], i, code));
        }
        let mut b = vec![0; (batch * n * k * config.b.bits()).div_ceil(8)];
        let b_values = (0..batch * n * k).map(|i| fill(config.b, &mut b, i)).collect();
        if let Some(Poison::ColumnOfB(column, code)) = self.poison {
            (0..k).for_each(|i| put_code(config.b, &mut b, column * k + i, code));
        }

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
        let (mut a_scales, mut b_scales) = (scales(rows * blocks), scales(batch * n * blocks));
        match self.poison {
            Some(Poison::ScalesOfA(row, code)) => a_scales[row * blocks..][..blocks].fill(code),
            Some(Poison::ScalesOfB(column, code)) => {
                b_scales[column * blocks..][..blocks].fill(code);
            }
            _ => {}
        }
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

    /// Each element before the activation, and the magnitudes of its terms.
    fn reference(&self, data: &Data) -> Vec<(f64, [f64; 2])> {
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
            let mut magnitude: f64 = (0..k).map(|i| product(i).abs()).sum();
            let mut added = 0.0;
            let mut scale = |factor: f64| {
                x *= factor;
                magnitude *= factor.abs();
            };
            if e.row_scale {
                scale(f64::from(data.row_scale[row]));
            }
            if e.col_scale {
                scale(f64::from(data.col_scale[column]));
            }
            if e.alpha {
                scale(f64::from(self.factors[0]));
            }
            if e.beta {
                let old = f64::from(self.factors[1]) * f64::from(data.old[index]);
                x += old;
                added += old.abs();
            }
            if e.bias {
                x += f64::from(data.bias[col]);
                added += f64::from(data.bias[col]).abs();
            }
            (x, [magnitude, added])
        };
        (0..batch * m * n).map(element).collect()
    }
}

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
