//! Defects of naga, wgpu and drivers that this crate goes round, as data.
//!
//! Each has a test of its name in `tests/workarounds.rs` that fails once the defect is gone, so that
//! an update says which detours can be removed. Versions are those the defects were seen in.

/// A defect, and the way round it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Workaround {
    /// A name for it, and its test's.
    pub name: &'static str,
    /// Whose defect it is, and in which version.
    pub of: &'static str,
    /// What goes wrong.
    pub defect: &'static str,
    /// What this crate does instead.
    pub instead: &'static str,
    /// The file that does it.
    pub file: &'static str,
}

/// Loop iterations a thread may have on a software device; see
/// [`llvmpipe_ends_long_loops`](WORKAROUNDS). The margin is for the loops of the store.
pub const SOFTWARE_LOOP_ITERATIONS: usize = 65_000;

/// Products of matrices that a strip of a cooperative kernel may have on a software device, which takes a
/// second to compile so many, and minutes for the thousand of a block for a GPU (llvmpipe of Mesa 26.1).
pub const SOFTWARE_MATRIX_PRODUCTS: usize = 32;

/// Every defect that is gone round.
pub const WORKAROUNDS: [Workaround; 8] = [
    Workaround {
        name: "coop_store_panics_on_an_inline_argument",
        of: "naga 30.0.2, SPIR-V writer",
        defect: "coopStore and coopStoreT with an index or a pitch that is an expression of its own \
                 pass validation, and the writer panics",
        instead: "both are names of their own before the store",
        file: "src/emit/cooperative.rs",
    },
    Workaround {
        name: "globals_shadow_the_roles_of_cooperative_matrices",
        of: "naga 30.0.2, WGSL front end",
        defect: "with a declaration named A, B or C the role in coop_mat16x16<f32, C> is taken for it",
        instead: "no declaration has these names: operands are a_data, b_data, c_data",
        file: "src/emit/header.rs",
    },
    Workaround {
        name: "enabling_subgroups_is_refused",
        of: "naga 30.0.2, WGSL front end",
        defect: "`enable subgroups;`, which the language asks for, is refused, and subgroup \
                 operations work without it",
        instead: "modules with subgroup operations do not enable them",
        file: "src/emit/skinny.rs",
    },
    Workaround {
        name: "words_cannot_be_bitcast_to_f16",
        of: "naga 30.0.2, WGSL front end",
        defect: "bitcast<vec2<f16>>(u32) and bitcast<vec4<f16>>(vec2<u32>) are refused",
        instead: "unpack2x16float to f32, and back to f16, which drivers turn into nothing",
        file: "src/emit/cooperative.rs",
    },
    Workaround {
        name: "hlsl_has_no_cooperative_matrices",
        of: "naga 30.0.2, HLSL writer",
        defect: "cooperative matrices are refused",
        instead: "a device on DirectX 12 lists no configurations, and gets the vector kernel",
        file: "src/decide/automatic.rs",
    },
    Workaround {
        name: "workgroup_memory_is_not_checked",
        of: "wgpu 30.0.2",
        defect: "a pipeline may have more workgroup memory than the device was opened with",
        instead: "a plan counts its tiles and shrinks or refuses them",
        file: "src/decide/choose.rs",
    },
    Workaround {
        name: "llvmpipe_ends_long_loops",
        of: "Mesa 22.3, llvmpipe",
        defect: "all loops of a thread end after 65,535 iterations in all, without a word: the rest \
                 of K would be missing from the sums",
        instead: "kernels with more iterations are refused on software devices, and the backend \
                  takes one whose loops are written out",
        file: "src/decide/choose.rs",
    },
    Workaround {
        name: "nvidia_makes_a_max_of_a_select",
        of: "NVIDIA 580.159.04, Vulkan driver",
        defect: "select(x, 0, x < 0) is compiled to a max, which turns NaN into 0",
        instead: "relu compares the bits as an integer",
        file: "shaders/activation/relu.wgsl",
    },
];
