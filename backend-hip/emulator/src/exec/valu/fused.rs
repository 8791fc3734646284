//! Fused multiply-add over the lanes of a wave, with the host's instruction where it has one.

use crate::exec::wave::Lanes;

#[inline(always)]
fn lanes(a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    let mut result = [0u32; 64];
    for lane in 0..64 {
        let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        result[lane] = x.mul_add(y, z).to_bits();
    }
    result
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn lanes_avx2(a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    lanes(a, b, c)
}

/// `a · b + c` in single precision, rounded once to nearest even.
pub(super) fn multiply_add(a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the two features that the function is compiled for.
        return unsafe { lanes_avx2(a, b, c) };
    }
    lanes(a, b, c)
}
