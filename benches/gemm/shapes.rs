//! What is timed.

use lapidary_wgsl::core::random::Random;
use lapidary_wgsl::core::{
    AnyMatrixRef, ElementType, Error, Layout, Operands, Placement, Problem, element,
};

/// One product, all operands row-major but B where it is named transposed.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) operand: ElementType,
    pub(crate) output: ElementType,
    sizes: [usize; 4],
    transposed: bool,
}

const fn product(operand: ElementType, output: ElementType, sizes: [usize; 4]) -> Product {
    Product { operand, output, sizes, transposed: false }
}

/// Shapes as [M, N, K, batch].
const FULL: [[usize; 4]; 13] = [
    [4096, 4096, 4096, 1],
    [8192, 8192, 8192, 1],
    [2048, 2048, 2048, 1],
    [1024, 1024, 1024, 1],
    [1000, 1000, 1000, 1],
    [4095, 4097, 4099, 1],
    [105, 384, 1536, 1],
    [1, 4096, 4096, 1],
    [16, 4096, 4096, 1],
    [64, 4096, 4096, 1],
    [64, 64, 262_144, 1],
    [262_144, 64, 64, 1],
    [64, 64, 64, 512],
];

const QUICK: [[usize; 4]; 5] =
    [[256, 256, 256, 1], [105, 384, 300, 1], [1, 512, 512, 1], [16, 512, 256, 1], [32, 32, 32, 16]];

/// Every product to time.
pub(crate) fn list(quick: bool) -> impl Iterator<Item = Product> {
    use ElementType::{BF16, F16, F32, I8, I32};
    let shapes: &[[usize; 4]] = if quick { &QUICK } else { &FULL };
    let mut all: Vec<Product> = shapes.iter().map(|&s| product(F32, F32, s)).collect();
    all.extend(shapes.iter().map(|&s| product(F16, F32, s)));
    for (operand, output) in [(F16, F16), (BF16, F32), (I8, I32)] {
        all.push(product(operand, output, shapes[0]));
    }
    let vector = if quick { shapes[2] } else { shapes[7] };
    all.extend([F32, F16].map(|t| Product { transposed: true, ..product(t, F32, vector) }));
    all.into_iter()
}

impl Product {
    /// `f32-4096x4096x4096`, with the output's type where it is another, `-nt` where B is transposed.
    pub(crate) fn name(&self) -> String {
        let [m, n, k, batch] = self.sizes;
        let output =
            if self.output == self.operand { String::new() } else { format!("-{}", self.output) };
        let batch = if batch > 1 { format!("x{batch}") } else { String::new() };
        let transposed = if self.transposed { "-nt" } else { "" };
        format!("{}{output}-{m}x{n}x{k}{batch}{transposed}", self.operand)
    }

    pub(crate) fn problem(&self) -> Problem {
        let [m, n, k, batch] = self.sizes;
        let problem = Problem::new(m, n, k).elements(self.operand, self.output).batch(batch);
        if self.transposed { problem.b_layout(Layout::col_major(k, n)) } else { problem }
    }

    /// Whether the CPU backend and its peers are timed on it.
    pub(crate) fn runs_on_cpu(&self) -> bool {
        let [m, n, k, batch] = self.sizes;
        let small = m as u128 * n as u128 * k as u128 <= 1 << 33;
        self.operand == ElementType::F32 && batch == 1 && !self.transposed && small
    }

    /// The bytes of random A and B: uniform on [−1, 1), or integers of 8 bits.
    pub(crate) fn operands(&self) -> [Vec<u8>; 2] {
        let [m, n, k, batch] = self.sizes;
        let mut random = Random::new(42);
        [m * k, k * n].map(|matrix| {
            let mut bytes = vec![0; batch * matrix * self.operand.size()];
            for index in 0..batch * matrix {
                let value = if self.operand.is_float() {
                    random.unit()
                } else {
                    f64::from(random.integer(-127, 127))
                };
                element::write_f64(self.operand, &mut bytes, index, value);
            }
            bytes
        })
    }

    /// Those bytes as the problem's A and B.
    pub(crate) fn view<'a>(&self, [a, b]: [&'a [u8]; 2]) -> Result<Operands<'a>, Error> {
        let problem = self.problem();
        let place = |shape, layout| Placement { offset: 0, shape, layout };
        Ok(Operands::new(
            AnyMatrixRef::new(a, self.operand, place(problem.a_shape(), problem.a_layout))?,
            AnyMatrixRef::new(b, self.operand, place(problem.b_shape(), problem.b_layout))?,
        ))
    }
}
