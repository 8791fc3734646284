//! What a launch can count.

/// Workgroups along y and z of a launch: HIP's limit.
pub(crate) const MAX_WORKGROUPS: u32 = 65536;

/// A count past what kernels, or a launch, can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {requested}, the limit is {limit}")]
#[allow(clippy::exhaustive_structs, reason = "a count and its limit")]
pub struct TooMany {
    /// What is counted.
    pub what: &'static str,
    /// How many there would be.
    pub requested: u128,
    /// The most there may be.
    pub limit: u128,
}

/// `value` in the kernels' 32 bits, at most `limit`.
pub(crate) fn count(what: &'static str, value: usize, limit: u32) -> Result<u32, TooMany> {
    u32::try_from(value).ok().filter(|&value| value <= limit).ok_or(TooMany {
        what,
        requested: value as u128,
        limit: limit.into(),
    })
}

/// Workgroups of `threads` threads along x for `items` threads: a launch counts threads in 32 bits.
pub(crate) fn workgroups(what: &'static str, items: u128, threads: u32) -> Result<u32, TooMany> {
    let groups = items.div_ceil(threads.into());
    let requested = groups * u128::from(threads);
    u32::try_from(groups).ok().filter(|_| requested <= u32::MAX.into()).ok_or(TooMany {
        what,
        requested,
        limit: u32::MAX.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_reached_and_not_passed() {
        assert_eq!(count("K", u32::MAX as usize, u32::MAX), Ok(u32::MAX));
        assert_eq!(
            count("M", 1 << 31, i32::MAX as u32),
            Err(TooMany { what: "M", requested: 1 << 31, limit: (1 << 31) - 1 })
        );
        let most = (1 << 24) - 1;
        assert_eq!(workgroups("threads", most * 256, 256), Ok(most as u32));
        // One thread more is a workgroup more, and its last thread is thread 2³².
        assert_eq!(
            workgroups("threads", most * 256 + 1, 256),
            Err(TooMany { what: "threads", requested: 1 << 32, limit: (1 << 32) - 1 })
        );
    }
}
