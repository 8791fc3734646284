//! The WGSL backend's adapter.

use lapidary_core::policy::{
    KernelConfig, Multiply, ScalarFma, SingleBuffer, SoftwareDoubleBuffer,
};
use lapidary_core::testing::Case;
use lapidary_core::{Backend, DeviceInfo, ElementType, Error, KernelChoice};
use lapidary_wgsl::decide::{self, CopyOrder, Pass};
use lapidary_wgsl::{DeviceLimits, ShaderRewrite, Wgsl, WgslOptions};

use super::cpu::all_types;
use super::{
    Adapter, Executed, Expectation, Job, Order, Promises, Refusal, Types, execute_on, has_vectors,
};
use crate::spec::{Route, Spec};

/// Rows or columns that the skinny kernel computes at most.
const SKINNY: usize = 16;

/// Every kernel for these types on a device with these limits, the backend's own choice first.
pub(crate) fn kernels_for(types: Types, limits: &DeviceLimits) -> Vec<KernelChoice> {
    let [operand, weights, _] = types.elements;
    let mut all = vec![KernelChoice::Auto];
    all.extend(KernelChoice::all_steps(operand));
    all.push(KernelChoice::Skinny);
    if operand == ElementType::F32 && weights == operand {
        all.extend(wide_policies());
    }
    let mut blocks = match operand.accumulator() {
        ElementType::I32 if weights == ElementType::I4 => decide::integer_blocks().to_vec(),
        ElementType::I32 => [decide::integer_blocks(), decide::dot4_blocks()].concat(),
        _ => decide::float_blocks().to_vec(),
    };
    // They take a software device seconds to compile: all of them are met by one type, and one by
    // each of the others.
    let met_by_all = operand == weights && matches!(operand, ElementType::F32 | ElementType::I8);
    if limits.software && !met_by_all {
        blocks.truncate(1);
    }
    if limits.cooperative && operand == ElementType::F16 && !types.groups {
        blocks.extend(decide::cooperative_blocks());
    }
    all.extend(blocks.iter().map(|block| KernelChoice::Policy(block.config)));
    // Few enough that workgroups get parts of several blocks, and blocks parts of several ones.
    if types.elements == [ElementType::F32; 3] {
        let config = decide::float_blocks()[4].config;
        all.push(KernelChoice::StreamK { config, workgroups: 5 });
    }
    all
}

/// Pairs of policies with loads of several elements, besides step 7's own.
fn wide_policies() -> [KernelChoice; 2] {
    [
        KernelChoice::Policy(KernelConfig::of::<SingleBuffer<64, 64, 16, 4>, ScalarFma<4, 4>>()),
        KernelChoice::Policy(KernelConfig::of::<
            SoftwareDoubleBuffer<64, 64, 16, 2>,
            ScalarFma<4, 4>,
        >()),
    ]
}

/// A device for WGSL, and the same adapter with the workgroups of every dispatch reversed.
#[derive(Clone, Debug)]
pub struct WgslAdapter {
    device: Wgsl,
    reversed: Option<Wgsl>,
}

impl WgslAdapter {
    /// Opens the device that `options` choose, twice: once as it is, once with reversed workgroups.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn open(options: &WgslOptions) -> Result<Self, Error> {
        let device = Wgsl::with_options(options)?;
        let reversed = Wgsl::with_options(&options.clone().rewrite(ShaderRewrite::new(reverse)))?;
        Ok(Self { device, reversed: Some(reversed) })
    }

    /// A device whose shaders `rewrite` changes.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn with_rewrite(options: &WgslOptions, rewrite: ShaderRewrite) -> Result<Self, Error> {
        let device = Wgsl::with_options(&options.clone().rewrite(rewrite))?;
        Ok(Self { device, reversed: None })
    }

    /// Whether the device is a program on the CPU.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.device.limits().software
    }
}

/// The module with workgroup i doing what workgroup count − 1 − i would do, along every axis.
fn reverse(source: &str) -> String {
    if source.contains("@builtin(workgroup_id) wg: vec3<u32>,\n    @builtin(num_workgroups)") {
        // The passes over words of C: every thread finds its word from its workgroup's number.
        return source.replacen(
            "    let word = (wg.y * groups.x + wg.x)",
            "    let word = ((groups.y - 1u - wg.y) * groups.x + groups.x - 1u - wg.x)",
            1,
        );
    }
    if source.contains("@builtin(global_invocation_id) id: vec3<u32>") {
        return source.replacen(
            "fn main(@builtin(global_invocation_id) id: vec3<u32>) {",
            "fn main(@builtin(workgroup_id) wg_: vec3<u32>, \
                 @builtin(local_invocation_id) lid_: vec3<u32>, \
                 @builtin(num_workgroups) groups_: vec3<u32>) {\n    \
                 let id = (groups_ - 1u - wg_) * vec3<u32>(BN, BM, 1u) + lid_;",
            1,
        );
    }
    let Some(start) = source.find("@builtin(workgroup_id) wg: vec3<u32>,") else {
        return source.to_owned();
    };
    let Some(body) = source[start..].find(") {\n") else {
        return source.to_owned();
    };
    let (head, tail) = source.split_at(start + body + ") {\n".len());
    let head = head.replacen(
        "@builtin(workgroup_id) wg: vec3<u32>,",
        "@builtin(workgroup_id) wg_: vec3<u32>,\n    @builtin(num_workgroups) groups_: vec3<u32>,",
        1,
    );
    format!("{head}    let wg = groups_ - 1u - wg_;\n{tail}")
}

impl Adapter for WgslAdapter {
    fn name(&self) -> &str {
        "wgsl"
    }

    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn promises(&self) -> Promises {
        // WGSL promises nothing about NaN and infinity, and lets f16 conversions flush subnormals.
        Promises { non_finite: false, subnormals: false, f16: false, ..Promises::all() }
    }

    fn types(&self) -> Vec<Types> {
        let known = self.info().elements;
        let has = |types: &Types| types.elements[..2].iter().all(|element| known.contains(element));
        // f64 and the narrow floats, and with them block scales, are not among the elements.
        all_types().into_iter().filter(has).collect()
    }

    fn kernels(&self, types: Types) -> Vec<KernelChoice> {
        kernels_for(types, self.device.limits())
    }

    fn kernel_names(&self) -> Vec<String> {
        let mut names: Vec<String> = [ElementType::F32, ElementType::F16, ElementType::I8]
            .into_iter()
            .filter(|operand| self.info().elements.contains(operand))
            .flat_map(|operand| self.kernels(Types::of(operand, operand, operand.accumulator())))
            .filter(|kernel| !matches!(kernel, KernelChoice::Auto | KernelChoice::Skinny))
            .map(KernelChoice::name)
            .collect();
        names.extend(["epilogue_only", "skinny along*", "skinny across*"].map(str::to_owned));
        names.sort();
        names.dedup();
        names
    }

    fn pass_names(&self) -> Vec<&'static str> {
        let cooperative = self.device.limits().cooperative;
        let exists = |pass: &Pass| cooperative || *pass != Pass::Copy(CopyOrder::AlongK);
        Pass::ALL.into_iter().filter(exists).map(Pass::name).collect()
    }

    fn has_ways(&self, kernel: &KernelChoice) -> bool {
        match kernel {
            KernelChoice::Skinny => true,
            KernelChoice::Policy(config) => {
                let multiply = config.compute.multiply;
                multiply.is_vector() || multiply == Multiply::CooperativeMatrix
            }
            _ => false,
        }
    }

    fn expect(&self, kernel: &KernelChoice, case: &Case, _: Route) -> Expectation {
        let problem = &case.problem;
        if problem.block_scales {
            return Expectation::Refused(Refusal::Scales);
        }
        let groups = problem.b_group.is_some();
        let types = Types { groups, ..Types::of(problem.a, problem.b, problem.c) };
        if !self.types().contains(&types) {
            return Expectation::Refused(Refusal::ElementType);
        }
        if *kernel == KernelChoice::Skinny
            && problem.m.min(problem.n) > SKINNY
            && problem.reads_factors()
        {
            return Expectation::Refused(Refusal::KernelUnsuitable);
        }
        // Vectors of A start at multiples of the width, in a row whose elements are neighbours.
        let width = match kernel {
            KernelChoice::Vectorized { width } => *width,
            KernelChoice::Policy(config) if !self.has_ways(kernel) => config.tile.load_width,
            _ => 1,
        };
        // Buffers are whole vectors, so the last one is never cut off.
        let reads = problem.reads_factors() && !problem.is_empty();
        if width > 1 && reads && !has_vectors(case, width) {
            return Expectation::Refused(Refusal::Loads);
        }
        // The pass from sums to C reads them, both scales and the bias, whether there is one or not.
        let scaled = problem.row_scale && problem.col_scale;
        let few = self.device.limits().storage_bindings < 5;
        if scaled && few && problem.reads_factors() && !problem.is_empty() {
            return Expectation::Refused(Refusal::LimitExceeded);
        }
        Expectation::Runs
    }

    fn program(&self, kernel: &KernelChoice, spec: &Spec) -> String {
        // Types that share words are stored by a second pass, which the epilogue is part of.
        let fused = spec.types[2].size() == 4;
        let epilogue =
            if fused { spec.epilogue_name().replace("alpha+", "") } else { String::new() };
        let [a, b, _] = spec.types;
        let way = spec.way_name();
        format!("{} {a} {b} {:?} {epilogue}{way}", kernel.name(), spec.b_group)
    }

    fn orders(&self) -> Vec<Order> {
        self.reversed.iter().map(|_| Order::Reversed).collect()
    }

    fn reach(&self) -> f64 {
        if self.is_software() { 3e7 } else { 1e9 }
    }

    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        match (&self.reversed, job.order) {
            (Some(reversed), Order::Reversed) => execute_on(reversed, job),
            _ => execute_on(&self.device, job),
        }
    }
}
