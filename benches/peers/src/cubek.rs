//! CubeK's matrix products, on CubeCL's wgpu runtime.
//!
//! Every strategy that its own benchmarks name is a contender; blueprints are inferred, as a user
//! without a tuned one has them. Operands are row-major and dense, sums are f32, C has the type of A
//! and B.

use std::time::Duration;

use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::std::tensor::TensorHandle;
use cubek_matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek_matmul::launch::launch_ref;
use cubek_matmul::multi_level::Strategy as Levels;
use cubek_matmul::multi_level::routines::TileSizeSelection;
use cubek_matmul::multi_level::routines::batch::double_buffering::DoubleBufferingArgs;
use cubek_matmul::multi_level::routines::batch::double_unit::DoubleUnitSelectionArgs;
use cubek_matmul::multi_level::routines::batch::ordered_double_buffering::OrderedSelectionArgs;
use cubek_matmul::multi_level::routines::batch::simple::SimpleArgs;
use cubek_matmul::multi_level::routines::batch::simple_unit::SimpleUnitSelectionArgs;
use cubek_matmul::multi_level::routines::gemm::GemmStrategy;
use cubek_matmul::routine::BlueprintStrategy::Inferred;
use cubek_matmul::strategy::Strategy;
use cubek_matmul::tiled::Strategy as Tiled;
use cubek_std::InputBinding;
use lapidary_bench::operands::matrix;
use lapidary_bench::shape::Shape;
use lapidary_core::random::Random;
use lapidary_core::{
    AnyMatrixRef, ElementType, Error, Matrix, Operands, Placement, Problem, oracle,
};

/// Elements of C that are compared with the oracle.
const SAMPLE: usize = 64;

/// Bytes that the operands of all sets exceed together, and most sets that are kept; as for the
/// kernels of the WGSL backend.
const CACHE: f64 = 256e6;
const MOST_SETS: usize = 8;

/// Why a strategy has no figure.
#[derive(Debug, thiserror::Error)]
pub enum CubekError {
    /// The library has no kernel for this here.
    #[error("it refuses: {0}")]
    Refused(String),
    /// The device failed, or gave no time.
    #[error("the device failed: {0}")]
    Device(String),
    /// A result that is off by more than its bound.
    #[error("{wrong} of {checked} sampled elements of C are wrong")]
    Wrong {
        /// Elements out of bounds.
        wrong: usize,
        /// Elements compared.
        checked: usize,
    },
    /// The operands or the oracle.
    #[error(transparent)]
    Operands(#[from] Error),
}

/// The strategies for elements of this type, by CubeK's names.
pub fn strategies(input: ElementType) -> Vec<(&'static str, Strategy)> {
    let unit = |tile_size| Levels::SimpleUnit(Inferred(SimpleUnitSelectionArgs { tile_size }));
    let double = |tile_size| Levels::DoubleUnit(Inferred(DoubleUnitSelectionArgs { tile_size }));
    let gemm = Levels::Gemm(Inferred(GemmStrategy { target_num_planes: None }));
    let mut all = vec![
        ("auto", Strategy::Auto),
        ("simple_unit_max", unit(TileSizeSelection::MaxTileSize).into()),
        ("simple_unit_min", unit(TileSizeSelection::MinTileSize).into()),
        ("double_unit_max", double(TileSizeSelection::MaxTileSize).into()),
        ("gemm", gemm.into()),
    ];
    if input == ElementType::F32 {
        return all;
    }
    let rows = |multi_rows| SimpleArgs { multi_rows, ..SimpleArgs::default() };
    let doubled = |specialized| DoubleBufferingArgs { specialized, ..Default::default() };
    let ordered = OrderedSelectionArgs {
        row_count: Some(8),
        rows_per_plane: Some(2),
        partition_k: Some(2),
        ..OrderedSelectionArgs::default()
    };
    all.extend::<[(&'static str, Strategy); 10]>([
        ("simple_cyclic_cmma", Levels::SimpleCyclicCmma(Inferred(rows(false))).into()),
        ("simple_cyclic_cmma_multirows", Levels::SimpleCyclicCmma(Inferred(rows(true))).into()),
        ("simple_strided_cmma_multirows", Levels::SimpleStridedCmma(Inferred(rows(true))).into()),
        ("simple_tilewise_cmma_multirows", Levels::SimpleTilewiseCmma(Inferred(rows(true))).into()),
        ("double_cyclic_cmma", Levels::DoubleCyclicCmma(Inferred(doubled(false))).into()),
        ("double_tilewise_cmma", Levels::DoubleTilewiseCmma(Inferred(doubled(false))).into()),
        (
            "double_tilewise_cmma_specialized",
            Levels::DoubleTilewiseCmma(Inferred(doubled(true))).into(),
        ),
        ("ordered_double_cmma", Levels::OrderedDoubleCmma(Inferred(ordered)).into()),
        ("specialized_cyclic_cmma", Levels::SpecializedCyclicCmma(Inferred(().into())).into()),
        ("tiled_cmma", Tiled::Cmma(Default::default()).into()),
    ]);
    all
}

/// Operands of one product on CubeCL's device, several sets of them.
pub struct CubekArena {
    client: Client,
    problem: Problem,
    elements: MatmulElems,
    host: [Matrix; 2],
    sets: Vec<[TensorHandle; 3]>,
}

impl CubekArena {
    /// Random operands, uniform from −1 to 1.
    ///
    /// # Errors
    /// [`CubekError::Refused`] for elements other than f32 and f16, [`CubekError::Operands`] where they
    /// do not fit.
    pub fn new(shape: &Shape) -> Result<Self, CubekError> {
        let element = match shape.input {
            ElementType::F32 => f32::elem_type_native(),
            ElementType::F16 => half::f16::elem_type_native(),
            other => return Err(CubekError::Refused(format!("{other} is not compared"))),
        };
        let problem = Problem::new(shape.m, shape.n, shape.k)
            .batch(shape.batch)
            .elements(shape.input, shape.input);
        let client = cubecl::Device::Wgpu(Default::default()).client();
        let mut random = Random::new(5);
        let a = matrix(problem.a, problem.a_shape(), &mut random)?;
        let b = matrix(problem.b, problem.b_shape(), &mut random)?;
        let tensor = |matrix: &Matrix| {
            let shape = matrix.shape();
            let handle = client.create_from_slice(matrix.bytes());
            TensorHandle::new_contiguous([shape.batch, shape.rows, shape.cols], handle, element)
        };
        let c = Matrix::zeros(problem.c, problem.c_shape())?;
        let sets = (0..shape.sets(CACHE, MOST_SETS))
            .map(|_| [tensor(&a), tensor(&b), tensor(&c)])
            .collect();
        let global = MatmulGlobalElems { lhs: element, rhs: element, out: element };
        let elements = MatmulElems::from_globals(&global);
        Ok(Self { client, problem, elements, host: [a, b], sets })
    }

    /// Enqueues `runs` products, on all sets of operands in turn.
    fn launch(&self, strategy: &Strategy, runs: usize) -> Result<(), CubekError> {
        for (_, [a, b, c]) in (0..runs).zip(self.sets.iter().cycle()) {
            launch_ref(
                strategy,
                &self.client,
                InputBinding::Normal(a.clone().binding(), a.dtype),
                InputBinding::Normal(b.clone().binding(), b.dtype),
                c.clone().binding(),
                &mut self.elements.clone(),
            )
            .map_err(|error| CubekError::Refused(format!("{error:?}")))?;
        }
        Ok(())
    }

    /// Multiplies once and compares a sample of C with the oracle.
    ///
    /// # Errors
    /// [`CubekError`] where the strategy does not suit or its result is wrong.
    pub fn check(&self, strategy: &Strategy) -> Result<(), CubekError> {
        self.launch(strategy, 1)?;
        let Some([_, _, c]) = self.sets.first() else {
            return Ok(());
        };
        let bytes = self
            .client
            .read_one(c.handle.clone())
            .map_err(|error| CubekError::Device(format!("{error:?}")))?;
        let problem = &self.problem;
        let place = Placement { offset: 0, shape: problem.c_shape(), layout: problem.c_layout };
        let found = AnyMatrixRef::new(&bytes, problem.c, place)?;
        let positions = oracle::sample_positions(problem, [64, 64], SAMPLE, 1);
        let operands = Operands::new(self.host[0].as_ref(), self.host[1].as_ref());
        let comparison = oracle::reference_at(problem, &operands, &positions)?.compare(&found);
        let wrong = comparison.mismatches + comparison.unjudged;
        if wrong == 0 {
            return Ok(());
        }
        Err(CubekError::Wrong { wrong, checked: comparison.checked })
    }

    /// The device's time for `runs` products one after the other, between two of its timestamps.
    ///
    /// # Errors
    /// [`CubekError`] where the strategy does not suit or there is no time.
    pub fn time(&self, strategy: &Strategy, runs: usize) -> Result<Duration, CubekError> {
        let (launched, profile) = self
            .client
            .profile(|| self.launch(strategy, runs), "matmul")
            .map_err(|error| CubekError::Device(format!("{error:?}")))?;
        launched?;
        pollster::block_on(profile.resolve())
            .map(|ticks| ticks.duration())
            .ok_or_else(|| CubekError::Device("the profile holds no time".into()))
    }

    /// The device's name, and how shaders reach it.
    pub fn name(&self) -> String {
        self.client.name().to_owned()
    }
}
