// One configuration of the preshuffle kernel: every choice is a macro set by the host, named here
// as a constant, with what follows from it. `backend-hip/src/preshuffle/config.rs` refuses what the
// assertions below refuse, with the numbers.
#pragma once

// ---- choices ----------------------------------------------------------------------------------
constexpr int A_TYPE = CFG_A_TYPE;          // element type of A
constexpr int B_TYPE = CFG_B_TYPE;          // element type of B
constexpr int OUT_TYPE = CFG_OUT_TYPE;      // element type of C: f32, f16, bf16, or i32
constexpr bool BLOCK_SCALED = CFG_BLOCK_SCALED;  // one e8m0 scale per 32 elements along K (MX)
constexpr int TILE_M = CFG_TILE_M;          // rows of C a workgroup computes
constexpr int TILE_N = CFG_TILE_N;          // columns of C a workgroup computes
constexpr int TILE_K = CFG_TILE_K;          // length of a strip along K, in elements
constexpr int LDS_STAGE = CFG_LDS_STAGE;    // strips of A in LDS: 1, or 2 to fill one while one is read
constexpr int A_COPY = CFG_A_COPY;          // how A reaches LDS
constexpr bool SCHEDULE = CFG_SCHEDULE;     // whether the loop's instruction order is prescribed
constexpr int XCD_GROUP = CFG_XCD_GROUP;    // 0, or rows of tiles an XCD walks together
constexpr bool SPLIT_K = CFG_SPLIT_K;       // raw sums of a range of K go to a workspace
constexpr bool HAS_ROW_SCALE = CFG_ROW_SCALE;
constexpr bool HAS_COL_SCALE = CFG_COL_SCALE;
constexpr bool HAS_ALPHA = CFG_ALPHA;       // alpha ≠ 1, or a per-tensor scale
constexpr bool HAS_BETA = CFG_BETA;
constexpr bool HAS_BIAS = CFG_BIAS;
constexpr int ACTIVATION = CFG_ACTIVATION;
constexpr bool C_SHUFFLE = CFG_C_SHUFFLE;   // C through LDS for full-line stores
constexpr int C_VECTOR = CFG_C_VECTOR;      // elements a store may write: 1, 4, or 8 (16-bit types)

constexpr int COPY_SYNC = 0;     // global → registers → LDS, 16 bytes a lane
constexpr int COPY_DIRECT = 1;   // global → LDS, past the registers
constexpr int COPY_GUARDED = 2;  // as COPY_SYNC from shifted dwords: any base address and row stride

#if defined(__gfx950__)
constexpr bool CDNA4 = true;
constexpr int DIRECT_BYTES = 16;  // bytes a lane of one direct-to-LDS load
constexpr int LDS_BYTES = 160 * 1024;
#elif defined(__gfx942__)
constexpr bool CDNA4 = false;
constexpr int DIRECT_BYTES = 4;
constexpr int LDS_BYTES = 64 * 1024;
#elif defined(__HIP_DEVICE_COMPILE__) || defined(__AMDGCN__)
#error "the preshuffle kernel needs the matrix cores of gfx942 or gfx950"
#else
constexpr bool CDNA4 = false;
constexpr int DIRECT_BYTES = 4;
constexpr int LDS_BYTES = 64 * 1024;
#endif

// ---- the workgroup ----------------------------------------------------------------------------
// Four waves side by side along N; each computes TILE_M × TILE_N/4 in 16×16 blocks.
constexpr int WAVES = 4;
constexpr int THREADS = WAVES * WAVE;
constexpr int M_REPEAT = TILE_M / 16;
constexpr int WAVE_N = TILE_N / WAVES;
constexpr int N_REPEAT = WAVE_N / 16;

// ---- one step along K -------------------------------------------------------------------------
// A lane's share of a row of A, or of a column of B, moves in 16-byte chunks: the four lane groups
// of a wave hold the four chunks of a 64-byte block. One K step is the fewest blocks that fill the
// arch's fastest instruction for the operand types:
//
//   operands           gfx942                    gfx950
//   fp8                2 × 16x16x32     64 k     1 × 16x16x128 f8f6f4   128 k
//   i8                 2 × 16x16x32     64 k     1 × 16x16x64            64 k
//   f16, bf16          2 × 16x16x16     32 k     1 × 16x16x32            32 k
//   f32                4 × 16x16x4      16 k     4 × 16x16x4             16 k
//   i8 × i4            4 × 16x16x32    128 k     2 × 16x16x64           128 k
//   MX fp8 and fp4     -                         1 × 16x16x128 scaled   128 k
constexpr int A_BITS = bits_of(A_TYPE), B_BITS = bits_of(B_TYPE);
constexpr bool IS_FP8 = (A_TYPE == T_E4M3 || A_TYPE == T_E5M2) && A_BITS == B_BITS;
constexpr bool IS_W4A8 = A_TYPE == T_I8 && B_TYPE == T_I4;
constexpr int K_STEP = (BLOCK_SCALED || IS_W4A8 || (IS_FP8 && CDNA4)) ? 128 : 64 * 8 / A_BITS;
constexpr int A_CHUNKS = K_STEP * A_BITS / (64 * 8);  // 16-byte chunks of A a lane, a step
constexpr int B_CHUNKS = K_STEP * B_BITS / (64 * 8);
constexpr int K_STEPS = TILE_K / K_STEP;
constexpr int GROUPS = K_STEPS * M_REPEAT;  // fragments of A a lane reads from a strip

constexpr bool INTEGER = A_TYPE == T_I8;

// Instructions per fragment pair.
constexpr int MMAS = IS_W4A8                          ? (CDNA4 ? 2 : 4)
                     : A_TYPE == T_F32                ? 4
                     : BLOCK_SCALED || CDNA4          ? 1
                                                      : 2;
// A chain of dependent instructions leaves the matrix core waiting half the time: the latency is two
// issue intervals. A wave's only accumulator is split over two sums, added at the end.
constexpr int CHAINS = M_REPEAT * N_REPEAT >= 2 ? 1 : 2;

// ---- A's strip in LDS -------------------------------------------------------------------------
constexpr int ROW_BYTES = TILE_K * A_BITS / 8;
constexpr int ROW_CHUNKS = ROW_BYTES / 16;
constexpr int STRIP_BYTES = TILE_M * ROW_BYTES;
constexpr int A_LOADS = STRIP_BYTES / (16 * THREADS);  // 16-byte chunks a thread copies
constexpr int DIRECT_LOADS = STRIP_BYTES / (DIRECT_BYTES * THREADS);

// ---- B ----------------------------------------------------------------------------------------
constexpr int BLOCK_BYTES = 1024;                        // 16 columns × 64 bytes of K
constexpr int B_BLOCKS = K_STEPS * B_CHUNKS;             // blocks a strip has along K
constexpr int B_STRIP_BYTES = B_BLOCKS * BLOCK_BYTES;    // of one group of 16 columns
constexpr int B_LOADS = B_BLOCKS * N_REPEAT;

// ---- C ----------------------------------------------------------------------------------------
constexpr int OUT_BYTES = bits_of(OUT_TYPE) / 8;
constexpr int SHUFFLE_BYTES = C_SHUFFLE ? 16 * TILE_N * OUT_BYTES : 0;
constexpr int SHARED_BYTES = max_of(LDS_STAGE * STRIP_BYTES, SHUFFLE_BYTES);

static_assert(TILE_M % 16 == 0 && TILE_M > 0, "TILE_M must be a multiple of 16: an MFMA has 16 rows");
static_assert(TILE_N % 64 == 0 && TILE_N > 0,
              "TILE_N must be a multiple of 64: four waves of 16 columns");
static_assert(TILE_K % K_STEP == 0 && TILE_K > 0,
              "TILE_K must be a multiple of K_STEP: a strip is consumed in whole steps");
static_assert((ROW_CHUNKS & (ROW_CHUNKS - 1)) == 0,
              "a strip's row must be a power of two of chunks: the swizzle permutes them by XOR");
static_assert(STRIP_BYTES % (16 * THREADS) == 0,
              "TILE_M × TILE_K must fill whole 16-byte loads of 256 threads");
static_assert(LDS_STAGE == 1 || LDS_STAGE == 2, "LDS_STAGE must be 1 or 2");
static_assert(SHARED_BYTES <= LDS_BYTES, "the strips of A and the shuffle of C must fit LDS");
static_assert(!BLOCK_SCALED || CDNA4, "block scales need the scaled MFMA of gfx950");
static_assert(!BLOCK_SCALED || N_REPEAT == 1 || N_REPEAT == 2 || N_REPEAT % 4 == 0,
              "B's packed scales hold four groups of 16 columns a word");
static_assert(!INTEGER || OUT_TYPE == T_I32 || OUT_TYPE == T_F32 || OUT_TYPE == T_F16 ||
                  OUT_TYPE == T_BF16, "integers give i32, or a float type after scaling");
static_assert(INTEGER || OUT_TYPE != T_I32, "float operands give a float type");
