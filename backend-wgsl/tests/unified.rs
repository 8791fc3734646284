//! Memory that host and device share: the same results without copies in between.

mod common;

use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{Activation, AnyMatrixMut, Backend, ElementType, Error, Gemm, Problem, Tensor};
use lapidary_wgsl::{Wgsl, WgslOptions, wgpu};

#[test]
fn products_in_shared_memory_have_the_bits_of_copied_ones() {
    let Some(shared) = common::device() else { return };
    let mut options = WgslOptions::default();
    options.features.remove(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
    let Some(copied) = common::own(&options) else { return };
    assert!(!copied.limits().unified);
    if !shared.limits().unified {
        println!("skipped: the device has memory of its own");
        return;
    }
    use ElementType as E;
    for (operand, output, [m, n, k]) in [
        (E::F32, E::F32, [67, 45, 33]),
        (E::BF16, E::BF16, [21, 35, 40]),
        (E::I8, E::I8, [13, 17, 50]),
        (E::F32, E::F16, [1, 1, 1]),
    ] {
        for (beta, c) in [
            (0.0, Arrangement::Padded),
            (0.7, Arrangement::ReversedRows),
            (0.7, Arrangement::ColMajor),
        ] {
            let problem = Problem::new(m, n, k)
                .elements(operand, output)
                .beta(beta)
                .bias(true)
                .activation(Activation::Relu)
                .batch(2);
            let case = Case::new(problem, Values::Uniform, 6).arranged(
                Arrangement::Padded,
                Arrangement::ColMajor,
                c,
            );
            let run = |device: &Wgsl| {
                let mut bytes = case.c.bytes().to_vec();
                let c = AnyMatrixMut::from_bytes(&mut bytes, output, case.c.placement());
                let mut operands = case.operands();
                operands.c = None;
                Gemm::<Wgsl>::run_into(device, &case.problem, &operands, c.expect("a view"))
                    .expect("runs");
                common::assert_canaries(&case.c, &bytes, || format!("{operand} {output}"));
                bytes
            };
            let bytes = run(shared);
            assert!(bytes != case.c.bytes());
            assert_eq!(bytes, run(&copied), "{operand} {output} beta {beta}");
        }
    }
}

#[test]
fn a_tensor_is_made_of_its_elements() {
    let Some(device) = common::device() else { return };
    for len in [0, 1, 3, 5, 1000] {
        let bytes: Vec<u8> = (0..2 * len).map(|i| (i * 7 + 3) as u8).collect();
        let tensor = device.tensor(ElementType::BF16, &bytes).expect("allocates");
        assert_eq!((tensor.element(), tensor.len()), (ElementType::BF16, len));
        assert_eq!(common::download(device, &tensor), bytes);
        // As any other: parts are replaced, neighbours stay.
        if len > 2 {
            device.upload(&tensor, 1, &[9, 8]).expect("uploads");
            let mut expected = bytes;
            expected[2..4].copy_from_slice(&[9, 8]);
            assert_eq!(common::download(device, &tensor), expected);
        }
    }
    match device.tensor(ElementType::F32, &[0; 6]) {
        Err(Error::PartialElement { bytes: 6, element: ElementType::F32 }) => {}
        other => panic!("{other:?}"),
    }
    match device.tensor(ElementType::F4E2M1, &[0; 6]) {
        Err(Error::ElementTypeUnavailable { element: ElementType::F4E2M1, .. }) => {}
        other => panic!("{other:?}"),
    }
    block_on(device.sync()).expect("alive");
}

/// Two i4 share a byte, the one with the even index in its low half.
#[test]
fn a_tensor_of_i4_has_two_elements_a_byte() {
    let Some(device) = common::device() else { return };
    let bytes = [0x10, 0x32, 0x54, 0x76, 0x98, 0xba];
    let tensor = device.tensor(ElementType::I4, &bytes).expect("allocates");
    assert_eq!((tensor.element(), tensor.len()), (ElementType::I4, 12));
    assert_eq!(common::download(device, &tensor), bytes);
    // From the third byte on, which is inside a word: the others stay.
    device.upload(&tensor, 4, &[0xfe, 0xdc]).expect("uploads");
    assert_eq!(common::download(device, &tensor), [0x10, 0x32, 0xfe, 0xdc, 0x98, 0xba]);
    match device.upload(&tensor, 3, &[0]) {
        Err(Error::PackedView { element: ElementType::I4, value: 3, .. }) => {}
        other => panic!("{other:?}"),
    }
}
