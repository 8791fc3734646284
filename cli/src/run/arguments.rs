//! What `lapidary run` takes.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use lapidary_core::{Activation, ElementType};

use crate::hip::Emulate;

/// Multiply two matrices: C = activation(alpha · A · B + beta · C + bias).
///
/// A and B are .npy files, arrays of .npz files (FILE.npz:NAME) or tensors of safetensors files
/// (FILE.safetensors:NAME), with elements of f64, f32, f16, bf16 or i8. An array of three dimensions
/// is a batch of matrices; a single matrix is used for every member of the other's batch. Arrays in
/// Fortran order are used in place.
///
/// C has the element type of A and B, or i32 for i8, or f32 with --quantize. Without --output a corner of it is printed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The left matrix, M×K
    pub(super) a: String,

    /// The right matrix, K×N
    pub(super) b: String,

    /// Write C to this .npy or .safetensors file (FILE.safetensors:NAME names the tensor)
    #[arg(short, long, value_name = "C")]
    pub(super) output: Option<String>,

    /// Use A transposed: the file holds K×M
    #[arg(long)]
    pub(super) trans_a: bool,

    /// Use B transposed: the file holds N×K
    #[arg(long)]
    pub(super) trans_b: bool,

    /// Add this vector of N values to every row
    #[arg(long, value_name = "V")]
    pub(super) bias: Option<String>,

    /// Apply this function last
    #[arg(long, default_value = "none", hide_default_value = true, value_parser = activation())]
    pub(super) activation: Activation,

    /// Factor of the product
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub(super) alpha: f64,

    /// Factor of the matrix that --c-in names
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(super) beta: f64,

    /// The matrix that beta scales, M×N
    #[arg(long, value_name = "C")]
    pub(super) c_in: Option<String>,

    /// What computes; auto takes a GPU if there is one that has the element type
    #[arg(long, value_enum, default_value_t)]
    pub(super) backend: BackendChoice,

    /// Use the kernel of this step of the course, 1 to 7 (WGSL and HIP backends)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub(super) step: Option<u8>,

    /// Run the HIP backend's kernels on the emulator of this architecture, with every check on
    #[arg(long, value_name = "ARCH", value_enum)]
    pub(super) emulate: Option<Emulate>,

    /// Round A by rows and B by columns to this type, with a scale for each that is applied to C
    #[arg(long, value_name = "TYPE", value_enum)]
    pub(super) quantize: Option<Quantize>,

    /// Convert the inputs to this element type first
    #[arg(long, value_parser = element(&["f64", "f32", "f16", "bf16"]))]
    pub(super) dtype: Option<ElementType>,

    /// Give C this element type
    #[arg(long, value_parser = element(&["f64", "f32", "f16", "bf16", "i8", "i32"]))]
    pub(super) out_dtype: Option<ElementType>,

    /// Let sums of i8 products wrap modulo 2³² where K is so long that they may
    #[arg(long)]
    pub(super) wrapping: bool,

    /// Let products of f16 be summed in f16 where the device has a faster kernel for that; the bound of the
    /// error grows by 2¹³, and sums past 65,504 become infinite
    #[arg(long)]
    pub(super) f16_sums: bool,

    /// Use this device: an index or part of a name of `lapidary devices`, or pci:ADDRESS, of the WGSL
    /// backend (the default is LAPIDARY_ADAPTER, then the best); a number of the HIP backend
    #[arg(long, value_name = "DEVICE")]
    pub(super) device: Option<String>,

    /// Share the product between these devices of the WGSL backend, each its columns of C: indices of
    /// `lapidary devices` with commas between them, or all
    #[arg(long, value_name = "LIST", value_parser = Shared::parse, conflicts_with = "device")]
    pub(super) devices: Option<Shared>,

    /// Hold at most this much memory of a WGSL device at once, in bytes or as 512M or 4G, and stream the
    /// product through it; by default products are streamed where the device refuses to hold them
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(super) memory: Option<u64>,

    /// Compare C with a float64 product and fail if an element is off by more than its error bound
    #[arg(long)]
    pub(super) check: bool,

    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  lapidary run a.npy b.npy -o c.npy
  lapidary run x.npy model.safetensors:ffn.weight --trans-b --bias model.safetensors:ffn.bias \\
      --activation gelu-erf -o y.npy --check
  lapidary run a.npz:left a.npz:right --backend wgsl --step 5 --dtype f32
  lapidary run x.npy model.safetensors:ffn.weight --trans-b --backend hip --emulate gfx942 \\
      --quantize fp8 --out-dtype bf16 --check";

/// What computes the product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum BackendChoice {
    /// A GPU if there is one that has the element type, else the CPU
    #[default]
    Auto,
    /// The CPU; every element type
    Cpu,
    /// A GPU through Vulkan, Metal or Direct3D 12; every element type but f64
    Wgsl,
    /// An AMD GPU through ROCm, or with --emulate none; every element type but f64
    Hip,
}

/// What `--quantize` rounds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Quantize {
    /// e4m3, in the flavour of the HIP device, FNUZ on gfx942, else OCP
    Fp8,
    /// 8-bit integers
    I8,
}

/// Devices that share a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// All that share with profit.
    All,
    /// These.
    Some(Vec<usize>),
}

impl Shared {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let indices = text.split(',').map(|index| index.trim().parse());
        let indices: Result<Vec<usize>, _> = indices.collect();
        indices
            .map(Self::Some)
            .map_err(|_| "expected all, or numbers with commas between them".to_owned())
    }
}

/// Reads a size in bytes, in units of 2¹⁰ (K), 2²⁰ (M) or 2³⁰ (G) if one is given.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(['K', 'k', 'M', 'm', 'G', 'g']) {
        None => (text, 0),
        Some(digits) => match text.as_bytes().last() {
            Some(b'K' | b'k') => (digits, 10),
            Some(b'M' | b'm') => (digits, 20),
            _ => (digits, 30),
        },
    };
    let number = digits.parse::<u64>().ok();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "expected a number of bytes above 0, as 500000, 64K, 512M or 4G".to_owned())
}

fn activation() -> impl TypedValueParser<Value = Activation> {
    PossibleValuesParser::new(Activation::ALL.map(Activation::name)).map(|name| {
        Activation::ALL.into_iter().find(|known| known.name() == name).unwrap_or_default()
    })
}

/// Reads the name of one of these element types.
pub(crate) fn element(
    names: &'static [&'static str],
) -> impl TypedValueParser<Value = ElementType> {
    PossibleValuesParser::new(names).try_map(|name| {
        ElementType::ALL
            .into_iter()
            .find(|known| known.name() == name)
            .ok_or_else(|| format!("unknown element type {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lists_are_read_or_refused() {
        for (text, expected) in
            [("1", 1), ("500000", 500_000), ("64K", 1 << 16), ("512M", 1 << 29), ("4g", 4 << 30)]
        {
            assert_eq!(bytes(text), Ok(expected));
        }
        for text in ["", "0", "0G", "G", "-1", "1.5G", "4T", "99999999999999999999", "17179869184G"]
        {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(Shared::parse("all"), Ok(Shared::All));
        assert_eq!(Shared::parse("0, 2,0"), Ok(Shared::Some(vec![0, 2, 0])));
        for text in ["", "0,", "every", "-1"] {
            assert!(Shared::parse(text).is_err(), "{text}");
        }
    }
}
