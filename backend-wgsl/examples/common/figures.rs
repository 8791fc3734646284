//! Numbers for people.

/// A number with three significant digits, without an exponent where it is of a readable size.
pub(crate) fn figure(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    // Digits after the point that leave three significant ones.
    let digits = (2 - magnitude.log10().floor() as i32).max(0) as usize;
    format!("{value:.digits$}")
}
