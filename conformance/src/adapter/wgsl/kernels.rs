//! The kernels that the WGSL backend has, as a list.

use lapidary_core::policy::{
    KernelConfig, Multiply, ScalarFma, SingleBuffer, SoftwareDoubleBuffer,
};
use lapidary_core::{ElementType, KernelChoice};
use lapidary_wgsl::{DeviceLimits, decide};

use crate::adapter::Types;

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
    all.extend(blocks.iter().map(|block| KernelChoice::Policy(block.config)));
    if operand == ElementType::F16 && !types.groups {
        let units = [false, true].map(|f16_sums| decide::matrix_blocks(limits, f16_sums));
        all.extend(units.into_iter().flatten().map(KernelChoice::Policy));
    }
    // Few enough that workgroups get parts of several blocks, and blocks parts of several ones.
    let shared = match operand.accumulator() {
        ElementType::I32 if weights == ElementType::I4 => vec![decide::integer_blocks()[1]],
        ElementType::I32 => vec![decide::integer_blocks()[1], decide::dot4_blocks()[1]],
        _ => vec![decide::float_blocks()[4]],
    };
    all.extend(
        shared.iter().map(|row| KernelChoice::StreamK { config: row.config, workgroups: 5 }),
    );
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

/// Names of the kernels of a device with these elements and limits, as plans report them.
pub(super) fn names(elements: &[ElementType], limits: &DeviceLimits) -> Vec<String> {
    let mut names: Vec<String> = [ElementType::F32, ElementType::F16, ElementType::I8]
        .into_iter()
        .filter(|operand| elements.contains(operand))
        .flat_map(|operand| kernels_for(Types::of(operand, operand, operand.accumulator()), limits))
        .filter(|kernel| !matches!(kernel, KernelChoice::Auto | KernelChoice::Skinny))
        .map(KernelChoice::name)
        .collect();
    names.extend(["epilogue_only", "skinny along*", "skinny across*"].map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// The type that products are summed in, if narrower than the accumulator of their types.
pub(super) fn sum_type(kernel: &KernelChoice) -> Option<ElementType> {
    let KernelChoice::Policy(config) = kernel else { return None };
    let compute = config.compute;
    let narrow =
        compute.multiply == Multiply::CooperativeMatrix && compute.accumulator == ElementType::F16;
    narrow.then_some(ElementType::F16)
}

/// Whether K may be cut into pieces, and operands copied first, as a caller asks.
pub(super) fn has_ways(kernel: &KernelChoice) -> bool {
    match kernel {
        KernelChoice::Skinny => true,
        KernelChoice::Policy(config) => {
            let multiply = config.compute.multiply;
            multiply.is_vector() || multiply == Multiply::CooperativeMatrix
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the policies only matrix units with f16 for their sums have narrower sums than the rest.
    #[test]
    fn only_matrix_units_sum_in_f16() {
        for mut config in decide::cooperative_blocks().iter().map(|block| block.config) {
            config.compute.accumulator = ElementType::F32;
            assert_eq!(sum_type(&KernelChoice::Policy(config)), None);
            config.compute.accumulator = ElementType::F16;
            assert_eq!(sum_type(&KernelChoice::Policy(config)), Some(ElementType::F16));
        }
        let others = decide::float_blocks().map(|block| KernelChoice::Policy(block.config));
        assert!(
            others
                .into_iter()
                .chain([KernelChoice::Auto])
                .all(|kernel| sum_type(&kernel).is_none())
        );
    }
}
