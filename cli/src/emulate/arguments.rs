//! What `lapidary emulate` takes.

use clap::Args;
use lapidary_cdna::exec::Order;

use super::error::SyntaxError;
use super::value::Argument;

/// Run a kernel of a CDNA3 or CDNA4 code object on the CPU, and report what hardware would not.
///
/// FILE is an ELF code object for gfx942 or gfx950, from any compiler (clang needs
/// --no-gpu-bundle-output). Checks find missing waits, races, divergent barriers, results read
/// inside their wait states, out-of-bounds, uninitialised and misaligned accesses, and endless
/// loops. Outputs are written whether or not there are reports.
///
/// Exit code: 0 if the kernel ran and nothing was reported, 1 if a check reported something, 2 if the
/// input is at fault.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Arguments {
    /// The code object
    #[arg(value_name = "FILE.co")]
    pub(super) file: String,

    /// The kernel; needed where the code object has several
    #[arg(long, value_name = "NAME")]
    pub(super) kernel: Option<String>,

    /// The grid, in workgroups (not in work-items): X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = extent)]
    pub(super) grid: Triple,

    /// A workgroup, in work-items: X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = extent)]
    pub(super) block: Triple,

    /// Bytes of dynamic LDS, beyond what the kernel states itself
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(super) lds: u32,

    /// In which order waves and workgroups run: round-robin, reverse or random:SEED
    #[arg(long, default_value = "round-robin", value_parser = order)]
    pub(super) order: Order,

    /// Run only these workgroups of the grid: ids X,Y,Z separated by slashes, as 0,0,0/3,1,0
    #[arg(long, value_name = "LIST", value_parser = workgroups)]
    pub(super) workgroups: Option<Sample>,

    /// The next argument of the kernel, see below
    #[arg(long = "arg", value_name = "KIND:VALUE", value_parser = Argument::parse)]
    pub(super) args: Vec<Argument>,

    /// Instructions that one wave may execute before its loop counts as endless
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    pub(super) budget: u64,

    /// Host threads; 1 also runs workgroups strictly in their order [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,

    /// Turn the checks off, but for bounds, read-only buffers and endless runs
    #[arg(long)]
    pub(super) unchecked: bool,

    /// Print the report as one JSON object, with every executed instruction
    #[arg(long)]
    pub(super) json: bool,
}

const AFTER: &str = "\
Arguments, one --arg each, in the order of the kernel's:
  i8:N i16:N i32:N i64:N u8:N u16:N u32:N u64:N   an integer
  f16:X bf16:X f32:X f64:X                        a floating-point number
  bytes:FILE       a structure passed by value: the file's bytes
  in:FILE          a buffer with the file's bytes; a store into it is reported
  inout:FILE       the same, writable, and written back to the file
  out:FILE:BYTES   an uninitialised buffer of so many bytes, written to the file
Files are raw and little-endian. A buffer is exactly as large as its file, with gigabytes of
unmapped addresses on both sides; u64:0 is the null pointer. Bytes of an out buffer that nothing
wrote are zero.

Example:
  lapidary emulate add.co --kernel vector_add --grid 4 --block 256 \\
      --arg in:a.bin --arg in:b.bin --arg out:c.bin:4000 --arg i32:1000";

/// Counts or ids in x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Triple(pub(super) [u32; 3]);

/// Workgroups named one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample(pub(super) Vec<[u32; 3]>);

/// One to three numbers; those left out are `rest`.
fn triple(text: &str, rest: u32) -> Result<[u32; 3], SyntaxError> {
    let wrong = || SyntaxError::Triple { text: text.to_owned() };
    let mut numbers = [rest; 3];
    let mut parts = text.split(',');
    for (slot, part) in numbers.iter_mut().zip(&mut parts) {
        *slot = part.trim().parse().map_err(|_| wrong())?;
    }
    if parts.next().is_some() { Err(wrong()) } else { Ok(numbers) }
}

fn extent(text: &str) -> Result<Triple, SyntaxError> {
    let extent = triple(text, 1)?;
    if extent.contains(&0) { Err(SyntaxError::EmptyExtent) } else { Ok(Triple(extent)) }
}

fn workgroups(text: &str) -> Result<Sample, SyntaxError> {
    let mut ids = text.split('/').map(|id| triple(id, 0)).collect::<Result<Vec<_>, _>>()?;
    let named = ids.clone();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SyntaxError::Repeated { id: pair[0] }),
        None => Ok(Sample(named)),
    }
}

fn order(text: &str) -> Result<Order, SyntaxError> {
    match text {
        "round-robin" => Ok(Order::RoundRobin),
        "reverse" => Ok(Order::Reverse),
        _ => text
            .strip_prefix("random:")
            .and_then(|seed| seed.parse().ok())
            .map(Order::Random)
            .ok_or_else(|| SyntaxError::Order { text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_and_ids() {
        assert_eq!(extent("5"), Ok(Triple([5, 1, 1])));
        assert_eq!(extent("5,6,7"), Ok(Triple([5, 6, 7])));
        for text in ["", "5,", "5,6,7,8", "-1", "x", "4294967296"] {
            assert_eq!(extent(text), Err(SyntaxError::Triple { text: text.to_owned() }));
        }
        assert_eq!(extent("5,0"), Err(SyntaxError::EmptyExtent));
        assert_eq!(workgroups("3/0,1,0"), Ok(Sample(vec![[3, 0, 0], [0, 1, 0]])));
        assert_eq!(workgroups("3/0/3,0"), Err(SyntaxError::Repeated { id: [3, 0, 0] }));
    }

    #[test]
    fn orders() {
        assert_eq!(order("round-robin"), Ok(Order::RoundRobin));
        assert_eq!(order("reverse"), Ok(Order::Reverse));
        assert_eq!(order("random:17"), Ok(Order::Random(17)));
        for text in ["random", "random:", "random:-1", "forward"] {
            assert_eq!(order(text), Err(SyntaxError::Order { text: text.to_owned() }));
        }
    }
}
