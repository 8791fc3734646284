use lapidary_core::{ElementType, KernelChoice, Layout, Problem};

use super::*;
use crate::preshuffle::ACopy;

fn facts(target: Target) -> DeviceFacts {
    DeviceFacts { target, compute_units: 304, name: "a device".into() }
}

fn decided(problem: &Problem) -> Decision {
    let asked = Asked::Core(KernelChoice::Auto);
    decide(problem, &facts(Target::Gfx942), asked).expect("a decision")
}

fn config(decision: &Decision) -> PreshuffleConfig {
    match &decision.product {
        Product::Preshuffle(product) => product.config,
        other => panic!("{other:?}"),
    }
}

fn halves(m: usize, n: usize, k: usize) -> Problem {
    Problem::new(m, n, k).elements(ElementType::F16, ElementType::F16)
}

#[test]
fn aligned_rows_are_read_in_place_and_c_is_stored_by_the_kernel() {
    let decision = decided(&halves(5120, 5120, 512));
    assert_eq!((decision.a, decision.store), (AWay::InPlace, StoreWay::Kernel));
    assert_eq!(config(&decision).copy, ACopy::Synchronous);
    assert_eq!((config(&decision).c_vector, decision.sums_bytes), (8, 0));
}

#[test]
fn unaligned_rows_are_copied_by_elements_for_few_columns_and_by_a_pass_for_many() {
    let few = decided(&halves(640, 512, 511));
    assert_eq!((few.a, config(&few).copy), (AWay::InPlace, ACopy::Guarded));
    let many = decided(&halves(640, 4096, 511));
    assert!(matches!(many.a, AWay::Packed(_)));
    assert_ne!(config(&many).copy, ACopy::Guarded);
    // One row has no stride to be unaligned.
    let one = decided(&halves(1, 512, 511));
    assert_eq!(one.a, AWay::InPlace);
    assert_ne!(config(&one).copy, ACopy::Guarded);
}

#[test]
fn what_is_not_in_rows_takes_a_pass() {
    let mut problem = halves(640, 512, 256);
    problem.a_layout = Layout::col_major(640, 256);
    problem.c_layout = Layout::col_major(640, 512);
    let decision = decided(&problem);
    match (decision.a, decision.store) {
        (AWay::Packed(pack), StoreWay::Pass(store)) => {
            assert!(pack.lanes_along_m && store.lanes_along_m);
            assert_eq!((store.sums, store.output), (Sums::F32, ElementType::F16));
        }
        other => panic!("{other:?}"),
    }
    assert!(config(&decision).split_k && !config(&decision).epilogue.bias);
    assert_eq!(decision.summary.dispatches.len(), 4);
    let Product::Preshuffle(product) = decision.product else { panic!("a product") };
    assert_eq!(decision.sums_bytes, (640 * 512 * 4 * product.splits) as u64);

    let mut backwards = halves(640, 512, 256);
    backwards.a_layout.row_stride = -256;
    assert!(matches!(decided(&backwards).a, AWay::Packed(_)));
    let mut far = halves(640, 512, 256);
    far.a_layout.row_stride = 1 << 24;
    assert!(matches!(decided(&far).a, AWay::Packed(_)), "a tile's rows span 2^31 bytes");
    let mut far = halves(640, 512, 256);
    far.c_layout.row_stride = 1 << 24;
    assert!(matches!(decided(&far).store, StoreWay::Pass(_)));
}

#[test]
fn integers_reach_eight_bits_through_the_pass_with_their_shift() {
    let problem = Problem::new(64, 64, 64).elements(ElementType::I8, ElementType::I8);
    let StoreWay::Pass(store) = decided(&problem).store else { panic!("a pass") };
    assert_eq!(store.sums, Sums::I32 { shift: 0 });
    let mut problem = Problem::new(64, 64, 64).factors(ElementType::I8, ElementType::I4);
    problem.c = ElementType::F32;
    problem.c_layout = Layout::col_major(64, 64);
    let StoreWay::Pass(store) = decided(&problem).store else { panic!("a pass") };
    assert_eq!(store.sums, Sums::I32 { shift: 4 });
}

#[test]
fn nothing_of_the_factors_is_left_without_a_product() {
    let problem = halves(8, 8, 8).alpha(0.0).beta(2.0).row_scale(true);
    let decision = decided(&problem);
    let StoreWay::Pass(store) = decision.store else { panic!("a pass") };
    assert_eq!((decision.product, store.sums), (Product::None, Sums::None));
    assert!(store.epilogue.beta && !store.epilogue.row_scale && !store.epilogue.alpha);
    assert_eq!(decided(&halves(0, 8, 8)).summary.kernel, "nothing");
}

#[test]
fn a_matrix_that_serves_the_batch_is_packed_once() {
    let mut problem = halves(64, 64, 64).batch(5);
    assert_eq!(decided(&problem).b.expect("a layout").batch, 5);
    problem.b_layout.batch_stride = 0;
    assert_eq!(decided(&problem).b.expect("a layout").batch, 1);
}

#[test]
fn addresses_narrow_the_accesses_and_nothing_else() {
    let Product::Preshuffle(product) = decided(&halves(5120, 5120, 512)).product else {
        panic!("a product")
    };
    assert_eq!(product.at_addresses(4096, 4096).expect("it fits"), product.config);
    let narrowed = product.at_addresses(4098, 4096 + 8).expect("it fits");
    assert_eq!((narrowed.copy, narrowed.c_vector), (ACopy::Guarded, 4));
    assert_eq!(product.at_addresses(4096, 4098).expect("it fits").c_vector, 1);
    assert_eq!(narrowed.tile[2], product.config.tile[2], "B's layout stays");
}
