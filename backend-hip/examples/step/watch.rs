//! What to measure with rocprofv3 on a ROCm machine.

use lapidary_hip::Target;

/// The architectures a counter is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// CDNA and RDNA.
    All,
    /// CDNA of every generation.
    Cdna,
    /// CDNA3 and CDNA4.
    Cdna34,
    /// RDNA of every generation, and CDNA before the third.
    RdnaAndOlderCdna,
    /// RDNA of every generation.
    Rdna,
    /// All of CDNA, and RDNA3.
    CdnaAndRdna3,
}

impl On {
    /// Whether the emulated architectures have it.
    fn includes(self, target: Target) -> bool {
        match self {
            Self::All | Self::Cdna | Self::CdnaAndRdna3 => true,
            Self::Cdna34 => matches!(target, Target::Gfx942 | Target::Gfx950),
            Self::RdnaAndOlderCdna | Self::Rdna => false,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Cdna => "CDNA",
            Self::Cdna34 => "CDNA3, CDNA4",
            Self::RdnaAndOlderCdna => "RDNA, CDNA, CDNA2",
            Self::Rdna => "RDNA",
            Self::CdnaAndRdna3 => "CDNA, RDNA3",
        }
    }
}

/// A counter, and what it should show.
struct Counter {
    name: &'static str,
    on: On,
    expect: &'static str,
}

/// The counters of each step.
const COUNTERS: [&[Counter]; 7] = [
    // Step 1.
    &[Counter {
        name: "TCP_TCC_READ_REQ_sum",
        on: On::Cdna,
        expect: "reads that L1 asks of L2: the baseline for every later step",
    }],
    // Step 2.
    &[
        Counter {
            name: "TCP_TCC_READ_REQ_sum",
            on: On::Cdna,
            expect: "falls, by up to the tile's 16",
        },
        Counter {
            name: "LDSBankConflict",
            on: On::All,
            expect: "stays near 0: a wave reads one word of A's tile and neighbours of B's",
        },
    ],
    // Step 3.
    &[
        Counter {
            name: "SQ_INSTS_VALU",
            on: On::Cdna34,
            expect: "rises a wave: 64 multiply-adds for 16 values read instead of 1 for 2",
        },
        Counter {
            name: "VALUInsts",
            on: On::RdnaAndOlderCdna,
            expect: "the same under its older name",
        },
        Counter {
            name: "SQ_INSTS_LDS",
            on: On::All,
            expect: "falls a multiply-add: 16 values for 64 instead of 128",
        },
        Counter {
            name: "SQ_WAIT_INST_LDS",
            on: On::CdnaAndRdna3,
            expect: "cycles waiting for LDS; here the bank conflicts below show",
        },
    ],
    // Step 4.
    &[
        Counter {
            name: "SQ_WAIT_INST_LDS",
            on: On::CdnaAndRdna3,
            expect: "falls where the next strip's loads run under the arithmetic",
        },
        Counter {
            name: "TCP_TCC_READ_REQ_sum",
            on: On::Cdna,
            expect: "stays: the same strips are read, only earlier",
        },
        Counter {
            name: "MeanOccupancyPerCU",
            on: On::All,
            expect: "must not fall: two pairs of tiles take 32 KiB of LDS, so fewer workgroups fit",
        },
    ],
    // Step 5.
    &[
        Counter {
            name: "SQ_INST_CYCLES_VMEM_RD",
            on: On::Cdna,
            expect: "falls: fewer instructions for the same bytes; B still loads one by one",
        },
        Counter {
            name: "SQ_INST_CYCLES_VMEM",
            on: On::Rdna,
            expect: "the same, with stores in it",
        },
        Counter {
            name: "TCP_TOTAL_CACHE_ACCESSES",
            on: On::Cdna,
            expect: "accesses of L1: about the same, lines do not change",
        },
    ],
    // Step 6.
    &[
        Counter {
            name: "SQ_WAVES_sum MeanOccupancyPerCU",
            on: On::All,
            expect: "resident waves: follow the occupancy above",
        },
        Counter {
            name: "SQ_LEVEL_WAVES",
            on: On::All,
            expect: "the same where the two above are not there",
        },
        Counter {
            name: "SQ_WAIT_INST_LDS",
            on: On::CdnaAndRdna3,
            expect: "falls when more waves are resident",
        },
    ],
    // Step 7.
    &[
        Counter {
            name: "SQ_INSTS_VALU SQ_INSTS_MFMA",
            on: On::Cdna34,
            expect: "with a matrix policy the vector unit's multiply-adds become a few MFMA",
        },
        Counter {
            name: "SQ_INSTS_LDS",
            on: On::All,
            expect: "falls with direct loads: no LDS writes, the loads fill LDS themselves",
        },
        Counter {
            name: "MeanOccupancyPerCU",
            on: On::All,
            expect: "follows registers and LDS above, as do LDS_Block_Size's rounded 512 bytes",
        },
    ],
];

/// Commands and counters of a step.
pub(crate) fn print(step: u8, target: Target) {
    let counters = COUNTERS.get(usize::from(step).wrapping_sub(1)).copied().unwrap_or_default();
    let program = program();
    println!("\nOn a ROCm machine, with {target} or another");
    println!("  rocprofv3 --kernel-trace --output-format csv -- {program}");
    println!("    time is End_Timestamp - Start_Timestamp in nanoseconds; Scratch_Size must be 0");
    println!("    {}", registers_in_traces(target));
    for counter in counters {
        if counter.on.includes(target) {
            println!("  rocprofv3 --pmc {} --output-format csv -- {program}", counter.name);
        }
    }
    for Counter { name, on, expect } in counters {
        println!("  {name} ({}): {expect}", on.text());
    }
}

/// How this program was called, as a command line for a profiler.
fn program() -> String {
    let mut words = std::env::args();
    let path = words.next().unwrap_or_default();
    let name = path.rsplit(['/', '\\']).next().unwrap_or(&path);
    format!("target/release/examples/{name}")
}

/// What a trace's register columns mean.
fn registers_in_traces(target: Target) -> &'static str {
    match target {
        Target::Gfx950 => {
            "VGPR_Count is half of what is granted up to ROCm 7.2; the registers above are the code object's"
        }
        _ => "VGPR_Count + Accum_VGPR_Count is what is granted, each alone is not what it says",
    }
}
