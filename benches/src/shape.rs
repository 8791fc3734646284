//! The shapes that are timed, by class.

use lapidary_core::ElementType;

/// M, N, K and batch of a product, with its element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "the numbers of a product")]
pub struct Shape {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Matrices.
    pub batch: usize,
    /// Element type of A.
    pub input: ElementType,
    /// Element type of B: A's, or an integer type whose weights have scales.
    pub weights: ElementType,
    /// Elements along K of a column of weights that share a scale; a whole column where there is none.
    pub group: Option<usize>,
    /// Element type of C.
    pub output: ElementType,
}

impl Shape {
    /// One product of `input` elements; C has the type of the sums.
    #[must_use]
    pub fn new(m: usize, n: usize, k: usize, input: ElementType) -> Self {
        let output = input.accumulator();
        Self { m, n, k, batch: 1, input, weights: input, group: None, output }
    }

    /// One product of square matrices.
    #[must_use]
    pub fn cube(n: usize, input: ElementType) -> Self {
        Self::new(n, n, n, input)
    }

    /// The same with integer weights for B, and with a scale for each `group` of them along K or for
    /// each column.
    #[must_use]
    pub fn weights(mut self, weights: ElementType, group: Option<usize>) -> Self {
        (self.weights, self.group) = (weights, group);
        self
    }

    /// So many of them.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Operations: a multiplication and an addition for each of M·N·K·batch products.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64 * self.batch as f64
    }

    /// Bytes of A, B and C, each touched once.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        let bits = |element: ElementType| element.bits() as f64;
        let elements =
            m * k * bits(self.input) + k * n * bits(self.weights) + m * n * bits(self.output);
        self.batch as f64 * elements / 8.0
    }

    /// Sets of operands to take in turn, so that all of them exceed a cache of `cache` bytes: 1 to
    /// `most`.
    #[must_use]
    pub fn sets(&self, cache: f64, most: usize) -> usize {
        ((cache / self.bytes().max(1.0)).ceil() as usize + 1).clamp(1, most.max(1))
    }

    /// `MxNxK`, with a batch in front where there is one.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { m, n, k, batch, .. } = *self;
        if batch == 1 { format!("{m}x{n}x{k}") } else { format!("{batch}x{m}x{n}x{k}") }
    }

    /// The element types: `f32`, `f16-f32` where C's is another, `f16.i8-f32` where B's is, and
    /// `f16.i4+g32-f32` where 32 weights share a scale.
    #[must_use]
    pub fn dtype(&self) -> String {
        let mut name = self.input.to_string();
        if self.weights != self.input {
            name.push_str(&format!(".{}", self.weights));
        }
        if let Some(length) = self.group {
            name.push_str(&format!("+g{length}"));
        }
        if self.output != self.input {
            name.push_str(&format!("-{}", self.output));
        }
        name
    }
}

/// How much there is to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the three ways a benchmark is run")]
pub enum Extent {
    /// Each benchmark once on small matrices, as a test.
    Smoke,
    /// A minute or two, on a device that may be a program on the CPU.
    Quick,
    /// Every shape.
    Full,
}

/// The shapes for the WGSL backend: large and small cubes, edges, skinny, deep, tall and batched.
///
/// A software device is given the quick ones whatever the extent: the others would take hours.
#[must_use]
pub fn device_shapes(extent: Extent, software: bool) -> Vec<Shape> {
    use ElementType::{F16, F32, I8};
    match (extent, software) {
        (Extent::Smoke, _) => vec![Shape::cube(33, F32), Shape::new(1, 48, 40, F16)],
        (Extent::Quick, _) | (Extent::Full, true) => vec![
            Shape::cube(128, F32),
            Shape::new(105, 96, 130, F32),
            Shape::new(1, 512, 512, F32),
            Shape::cube(128, F16),
            Shape::cube(128, I8),
            Shape::cube(32, F32).batch(8),
        ],
        (Extent::Full, false) => {
            let mut shapes = Vec::new();
            for input in [F32, F16] {
                shapes.extend([1024, 2048, 4096, 8192].map(|n| Shape::cube(n, input)));
            }
            shapes.extend([
                Shape::cube(1000, F32),
                Shape::new(4095, 4097, 4099, F32),
                Shape::new(105, 384, 1536, F32),
                Shape::new(64, 64, 262_144, F32),
                Shape::new(262_144, 64, 64, F32),
                Shape::cube(64, F32).batch(512),
            ]);
            for input in [F32, F16] {
                shapes.extend([1, 16, 64].map(|m| Shape::new(m, 4096, 4096, input)));
            }
            shapes.push(Shape::cube(4096, I8));
            shapes
        }
    }
}

/// The shapes that are compared with other GPU libraries; on a software device the quick ones.
#[must_use]
pub fn versus_shapes(extent: Extent, software: bool) -> Vec<Shape> {
    use ElementType::{BF16, F16, F32, I4, I8};
    match (extent, software) {
        (Extent::Smoke, _) => vec![Shape::cube(33, F32), Shape::new(1, 48, 40, F16)],
        (Extent::Quick, _) | (Extent::Full, true) => {
            vec![
                Shape::cube(128, F32),
                Shape::new(16, 256, 256, F32),
                Shape::cube(128, F16),
                Shape::cube(128, F16).weights(I8, None),
                Shape::cube(128, F16).weights(I4, Some(32)),
            ]
        }
        (Extent::Full, false) => {
            let mut shapes = Vec::new();
            for input in [F32, F16] {
                shapes.extend([4096, 8192, 2048, 1024, 1000].map(|n| Shape::cube(n, input)));
                shapes.extend([
                    Shape::new(4095, 4097, 4099, input),
                    Shape::new(105, 384, 1536, input),
                ]);
                shapes.extend([1, 16, 64].map(|m| Shape::new(m, 4096, 4096, input)));
                shapes.extend([
                    Shape::new(64, 64, 262_144, input),
                    Shape::new(262_144, 64, 64, input),
                    Shape::cube(64, input).batch(512),
                ]);
            }
            let stored_as_f16 = [Shape::cube(4096, F16), Shape::new(262_144, 64, 64, F16)];
            shapes.extend(stored_as_f16.map(|shape| Shape { output: F16, ..shape }));
            shapes.extend([Shape::cube(4096, BF16), Shape::cube(4096, I8)]);
            for (weights, group) in [(I8, None), (I4, None), (I4, Some(32))] {
                shapes.extend(
                    [1, 16, 64, 4096]
                        .map(|m| Shape::new(m, 4096, 4096, F16).weights(weights, group)),
                );
            }
            shapes.push(Shape::new(1536, 1536, 8192, F32));
            shapes
        }
    }
}

/// The shapes for the CPU backend and its peers.
#[must_use]
pub fn host_shapes(extent: Extent) -> Vec<Shape> {
    use ElementType::{BF16, F8E4M3, F16, F32, F64, I8};
    let (sizes, narrow): (&[usize], &[usize]) = match extent {
        Extent::Smoke => (&[17], &[17]),
        Extent::Quick => (&[256], &[256]),
        Extent::Full => (&[256, 512, 1024, 2048], &[256, 1024]),
    };
    let wide = [F32, F64].into_iter().flat_map(|e| sizes.iter().map(move |&n| Shape::cube(n, e)));
    let narrow = [F16, BF16, I8, F8E4M3]
        .into_iter()
        .flat_map(|e| narrow.iter().map(move |&n| Shape::cube(n, e)));
    wide.chain(narrow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_bytes_are_counted() {
        let shape = Shape::new(2, 3, 4, ElementType::F16).batch(5);
        assert_eq!(shape.flops(), 240.0);
        // (8 + 12) halves and 6 floats a matrix.
        assert_eq!(shape.bytes(), 5.0 * (20.0 * 2.0 + 6.0 * 4.0));
        assert_eq!((shape.name(), shape.dtype()), ("5x2x3x4".into(), "f16-f32".into()));
        let plain = Shape::cube(8, ElementType::F32);
        assert_eq!((plain.name(), plain.dtype()), ("8x8x8".into(), "f32".into()));
    }

    #[test]
    fn sets_exceed_the_cache() {
        let shape = Shape::cube(256, ElementType::F32);
        let sets = shape.sets(1e8, 1000);
        assert!(sets as f64 * shape.bytes() > 1e8);
        assert_eq!(shape.sets(1e12, 16), 16);
        assert_eq!(shape.sets(0.0, 16), 1);
        assert_eq!(Shape::new(0, 0, 0, ElementType::F32).sets(0.0, 16), 1);
    }

    #[test]
    fn shapes_are_distinct() {
        for extent in [Extent::Smoke, Extent::Quick, Extent::Full] {
            for software in [true, false] {
                for all in [device_shapes(extent, software), versus_shapes(extent, software)] {
                    for (index, shape) in all.iter().enumerate() {
                        assert!(!all[..index].contains(shape), "{}", shape.name());
                    }
                }
            }
        }
    }
}
