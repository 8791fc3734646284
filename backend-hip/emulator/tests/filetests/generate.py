#!/usr/bin/env python3
"""Writes the instruction tests in this directory.

Each expected value comes from the operation's definition in the public GFX940 ISA document, computed on Python integers and
exact rationals (softfloat.py); nothing here knows the emulator. llvm-mc-22 supplies the machine words.

Usage: python3 generate.py
"""
import functools
import os
import random
import subprocess
from fractions import Fraction as F
from softfloat import *

HERE = os.path.dirname(os.path.abspath(__file__))
R = random.Random(20)
M = {8: 0xFF, 16: 0xFFFF, 24: 0xFFFFFF, 32: 0xFFFFFFFF, 64: (1 << 64) - 1}
CASES = []  # (file, instruction text, inputs, outputs, archs)

def s(x, w):
    x &= (1 << w) - 1
    return x - (1 << w) if x >> (w - 1) else x

def ints(w, n=16):
    edge = [0, 1, 2, M[w], M[w] - 1, 1 << (w - 1), (1 << (w - 1)) - 1, 0x5555555555555555 & M[w]]
    v = edge + [R.getrandbits(w) >> R.randrange(w) for _ in range(n - len(edge))]
    R.shuffle(v)
    return v

def floats(w, n=16, finite=False, nan=False, top=12):
    e, m = FMT[w]
    bias = (1 << (e - 1)) - 1
    v = [0, 1 << (w - 1), bias << m, (bias << m) | 1 << (w - 1), (bias + 1) << m, 1, (1 << m) - 1, 1 << m]
    if not finite:
        v += [inf(w), inf(w, 1)]
    if nan:
        v += [inf(w) | 1 << (m - 1)]
    while len(v) < n:
        x = R.randrange(bias - top, bias + top) << m | R.getrandbits(m) | R.getrandbits(1) << (w - 1)
        if R.random() < 0.3:
            x &= ~((1 << (m - 3)) - 1)
        v.append(x)
    R.shuffle(v)
    return v

def lanes(reg, values, w):
    """16- and 32-bit values in one register, 64-bit values in two."""
    if w <= 32:
        return {reg: values}
    n = int(reg[1:])
    return {f"{reg[0]}{n}": [x & M[32] for x in values], f"{reg[0]}{n + 1}": [x >> 32 for x in values]}

def out(reg, values, w):
    if w <= 32:
        return {reg: [x if x == NAN else x & M[32] for x in values]}
    n = int(reg[1:])
    return {f"{reg[0]}{n}": [NAN if x == NAN else x & M[32] for x in values],
            f"{reg[0]}{n + 1}": [NAN if x == NAN else x >> 32 & M[32] for x in values]}

def pair(reg, w):
    n = int(reg[1:])
    return reg if w <= 32 else f"{reg[0]}[{n}:{n + 1}]"

REG = ["v2", "v4", "v6"]

def case(name, text, ins, outs, archs="both"):
    CASES.append((name, text, ins, outs, archs))

def vop(name, fn, widths, dw, gens, suffix="", archs="both", mods=""):
    """A vector operation lane by lane; the destination is v8."""
    cols = [g() for g in gens]
    ins = {}
    for r, c, w in zip(REG, cols, widths):
        ins.update(lanes(r, c, w))
    res = [fn(*row) for row in zip(*cols)]
    ops = ", ".join([pair("v8", dw)] + [pair(r, w) for r, w in zip(REG, widths)])
    case(name, f"{name}{suffix} {ops}{mods}", ins, out("v8", res, dw), archs)

I = lambda w: (lambda: ints(w))
FL = lambda w, **k: (lambda: floats(w, **k))
SH = lambda n: (lambda: [R.randrange(n) for _ in range(16)])
u = lambda w: (lambda f: (lambda *a: f(*[x & M[w] for x in a]) & M[w]))

# 32-bit integers -----------------------------------------------------------------------------------------------------
two = {
    "v_add_u32": lambda a, b: a + b, "v_sub_u32": lambda a, b: a - b, "v_subrev_u32": lambda a, b: b - a,
    "v_and_b32": lambda a, b: a & b, "v_or_b32": lambda a, b: a | b, "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b), "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31), "v_ashrrev_i32": lambda a, b: s(b, 32) >> (a & 31),
    "v_min_i32": lambda a, b: min(s(a, 32), s(b, 32)), "v_max_i32": lambda a, b: max(s(a, 32), s(b, 32)),
    "v_min_u32": min, "v_max_u32": max,
    "v_mul_i32_i24": lambda a, b: s(a, 24) * s(b, 24), "v_mul_hi_i32_i24": lambda a, b: s(a, 24) * s(b, 24) >> 32,
    "v_mul_u32_u24": lambda a, b: (a & M[24]) * (b & M[24]), "v_mul_hi_u32_u24": lambda a, b: (a & M[24]) * (b & M[24]) >> 32,
}
for n, f in two.items():
    vop(n, u(32)(f), [32, 32], 32, [I(32), I(32)], "_e32")
    vop(n, u(32)(f), [32, 32], 32, [I(32), I(32)], "_e64")
for n, f in {
    "v_mul_lo_u32": lambda a, b: a * b, "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_hi_i32": lambda a, b: s(a, 32) * s(b, 32) >> 32, "v_bcnt_u32_b32": lambda a, b: bin(a).count("1") + b,
    "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
    "v_cvt_pk_u16_u32": lambda a, b: min(a, 65535) | min(b, 65535) << 16,
    "v_cvt_pk_i16_i32": lambda a, b: (max(-32768, min(32767, s(a, 32))) & 65535) | (max(-32768, min(32767, s(b, 32))) & 65535) << 16,
    "v_add_i32": lambda a, b: a + b, "v_sub_i32": lambda a, b: a - b,
}.items():
    vop(n, u(32)(f), [32, 32], 32, [I(32), I(32)])
def bits(x, w): return [x >> i & 1 for i in range(w)]
def ffbh_i32(x):
    b = bits(x, 32)
    return next((i for i in range(32) if b[31 - i] != b[31]), M[32])
def med3(a, b, c): return sorted([a, b, c])[1]
def bfe(x, off, width, signed):
    off &= 31; width &= 31
    if width == 0: return 0
    v = (s(x, 32) if signed else x) >> off
    v &= (1 << width) - 1
    return s(v, width) if signed else v
for n, f in {
    "v_mov_b32": lambda a: a, "v_not_b32": lambda a: ~a, "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "v_ffbh_u32": lambda a: 32 - a.bit_length() if a else M[32], "v_ffbl_b32": lambda a: (a & -a).bit_length() - 1 if a else M[32],
    "v_ffbh_i32": ffbh_i32,
}.items():
    vop(n, u(32)(f), [32], 32, [I(32)], "_e32")
def perm(a, b, sel):
    data = (a << 32 | b)
    r = 0
    for i in range(4):
        k = sel >> 8 * i & 255
        if k >= 13: byte = 255
        elif k == 12: byte = 0
        elif k >= 8: byte = 255 if data >> (8 * (2 * (k - 8) + 2) - 1) & 1 else 0
        else: byte = data >> 8 * k & 255
        r |= byte << 8 * i
    return r
sad8 = lambda a, b: sum(abs((a >> i & 255) - (b >> i & 255)) for i in (0, 8, 16, 24))
three = {
    "v_mad_u32_u24": lambda a, b, c: (a & M[24]) * (b & M[24]) + c, "v_mad_i32_i24": lambda a, b, c: s(a, 24) * s(b, 24) + c,
    "v_bfe_u32": lambda a, b, c: bfe(a, b, c, False), "v_bfe_i32": lambda a, b, c: bfe(a, b, c, True),
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c, "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3), "v_perm_b32": perm,
    "v_min3_i32": lambda a, b, c: min(s(a, 32), s(b, 32), s(c, 32)), "v_max3_i32": lambda a, b, c: max(s(a, 32), s(b, 32), s(c, 32)),
    "v_med3_i32": lambda a, b, c: med3(s(a, 32), s(b, 32), s(c, 32)), "v_min3_u32": min, "v_max3_u32": max, "v_med3_u32": med3,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c, "v_add_lshl_u32": lambda a, b, c: ((a + b) & M[32]) << (c & 31),
    "v_add3_u32": lambda a, b, c: a + b + c, "v_lshl_or_b32": lambda a, b, c: (a << (b & 31)) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c, "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_sad_u8": lambda a, b, c: sad8(a, b) + c, "v_sad_hi_u8": lambda a, b, c: (sad8(a, b) << 16) + c,
    "v_sad_u16": lambda a, b, c: abs((a & 65535) - (b & 65535)) + abs((a >> 16) - (b >> 16)) + c,
    "v_sad_u32": lambda a, b, c: abs(a - b) + c,
    "v_msad_u8": lambda a, b, c: sum(abs((a >> i & 255) - (b >> i & 255)) for i in (0, 8, 16, 24) if b >> i & 255) + c,
    "v_lerp_u8": lambda a, b, c: sum(((a >> i & 255) + (b >> i & 255) + (c >> i & 1) >> 1) << i for i in (0, 8, 16, 24)),
}
for n, f in three.items():
    for _ in range(2):
        vop(n, u(32)(f), [32, 32, 32], 32, [I(32), I(32), I(32) if n != "v_perm_b32" or _ else (lambda: [R.randrange(16) | R.randrange(16) << 8 | R.randrange(16) << 16 | R.randrange(16) << 24 for _ in range(16)])])
for table in (0x00, 0xFF, 0x96, 0xE8, 0xCA, 0x55, 0x0A, 0xF1):
    def bitop3(a, b, c, t=table):
        r = 0
        for i in range(32):
            # The first source selects the half of the table, the last the bit within its pair.
            k = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)
            r |= (t >> k & 1) << i
        return r
    vop("v_bitop3_b32", bitop3, [32] * 3, 32, [I(32)] * 3, archs="gfx950", mods=f" bitop3:{table:#x}" if table else "")
# carries
for n, f in {"v_add_co_u32": lambda a, b: a + b, "v_sub_co_u32": lambda a, b: a - b, "v_subrev_co_u32": lambda a, b: b - a}.items():
    a, b = ints(32), ints(32)
    r = [f(x, y) for x, y in zip(a, b)]
    mask = sum(1 << l for l in range(64) if not 0 <= r[l % 16] <= M[32])
    case(n, f"{n}_e32 v8, vcc, v2, v4", {"v2": a, "v4": b}, {"v8": [x & M[32] for x in r], "vcc": mask})
for n, f in {"v_addc_co_u32": lambda a, b, c: a + b + c, "v_subb_co_u32": lambda a, b, c: a - b - c, "v_subbrev_co_u32": lambda a, b, c: b - a - c}.items():
    a, b, cin = ints(32), ints(32), R.getrandbits(64)
    r = [f(a[l % 16], b[l % 16], cin >> l & 1) for l in range(64)]
    mask = sum(1 << l for l in range(64) if not 0 <= r[l] <= M[32])
    case(n, f"{n}_e64 v8, s[20:21], v2, v4, s[10:11]", {"v2": a, "v4": b, "s10": cin & M[32], "s11": cin >> 32},
         {"v8": [x & M[32] for x in r], "s20": mask & M[32], "s21": mask >> 32})
sel = R.getrandbits(64)
a, b = ints(32), ints(32)
case("v_cndmask_b32", "v_cndmask_b32_e32 v8, v2, v4, vcc", {"v2": a, "v4": b, "vcc": sel}, {"v8": [(b if sel >> l & 1 else a)[l % 16] for l in range(64)]})
case("v_cndmask_b32", "v_cndmask_b32_e64 v8, v2, 7, s[10:11]", {"v2": a, "s10": sel & M[32], "s11": sel >> 32}, {"v8": [7 if sel >> l & 1 else a[l % 16] for l in range(64)]})
ex = R.getrandbits(64)
case("v_mov_b32", "v_mov_b32_e32 v8, v2", {"v2": a, "v8": b, "exec": ex}, {"v8": [(a if ex >> l & 1 else b)[l % 16] for l in range(64)]})
# 64-bit integers
for n, f in {"v_lshlrev_b64": lambda a, b: b << (a & 63), "v_lshrrev_b64": lambda a, b: b >> (a & 63), "v_ashrrev_i64": lambda a, b: s(b, 64) >> (a & 63)}.items():
    for _ in range(2):
        vop(n, lambda a, b, f=f: f(a, b) & M[64], [32, 64], 64, [I(32), I(64)])
vop("v_lshl_add_u64", lambda a, b, c: (a << b) + c & M[64], [64, 32, 64], 64, [I(64), SH(5), I(64)])
for n, f in {"v_mad_u64_u32": lambda a, b, c: a * b + c, "v_mad_i64_i32": lambda a, b, c: s(a, 32) * s(b, 32) + s(c, 64)}.items():
    a, b, c = ints(32), ints(32), ints(64)
    r = [f(x, y, z) for x, y, z in zip(a, b, c)]
    case(n, f"{n} v[8:9], s[20:21], v2, v4, v[6:7]", {"v2": a, "v4": b, **lanes("v6", c, 64)}, out("v8", [x & M[64] for x in r], 64))
vop("v_mov_b64", lambda a: a, [64], 64, [I(64)], "_e32")
# 16-bit integers: GFX9 zeroes the upper half
two16 = {
    "v_add_u16": lambda a, b: a + b, "v_sub_u16": lambda a, b: a - b, "v_subrev_u16": lambda a, b: b - a, "v_mul_lo_u16": lambda a, b: a * b,
    "v_lshlrev_b16": lambda a, b: b << (a & 15), "v_lshrrev_b16": lambda a, b: b >> (a & 15), "v_ashrrev_i16": lambda a, b: s(b, 16) >> (a & 15),
    "v_max_u16": max, "v_min_u16": min, "v_max_i16": lambda a, b: max(s(a, 16), s(b, 16)), "v_min_i16": lambda a, b: min(s(a, 16), s(b, 16)),
}
for n, f in two16.items():
    vop(n, u(16)(f), [32, 32], 32, [I(32), I(32)], "_e32")
for n, f in {"v_mad_u16": lambda a, b, c: a * b + c, "v_min3_i16": lambda a, b, c: min(s(a, 16), s(b, 16), s(c, 16)), "v_max3_u16": max, "v_med3_i16": lambda a, b, c: med3(s(a, 16), s(b, 16), s(c, 16))}.items():
    # VOP3 keeps the upper half of its destination, which is zero before.
    cols = [ints(32) for _ in range(3)]
    case(n, f"{n} v8, v2, v4, v6", {**dict(zip(REG, cols)), "v8": [0]}, {"v8": [u(16)(f)(*row) for row in zip(*cols)]})
pk = {
    "v_pk_add_u16": lambda a, b: a + b, "v_pk_sub_u16": lambda a, b: a - b, "v_pk_add_i16": lambda a, b: a + b, "v_pk_sub_i16": lambda a, b: a - b,
    "v_pk_mul_lo_u16": lambda a, b: a * b, "v_pk_lshlrev_b16": lambda a, b: b << (a & 15), "v_pk_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_pk_ashrrev_i16": lambda a, b: s(b, 16) >> (a & 15), "v_pk_max_i16": lambda a, b: max(s(a, 16), s(b, 16)), "v_pk_min_i16": lambda a, b: min(s(a, 16), s(b, 16)),
    "v_pk_max_u16": max, "v_pk_min_u16": min,
}
for n, f in pk.items():
    g = u(16)(f)
    vop(n, lambda a, b, g=g: g(a, b) | g(a >> 16, b >> 16) << 16, [32, 32], 32, [I(32), I(32)])
    vop(n, lambda a, b, g=g: g(a >> 16, b) | g(a, b >> 16) << 16, [32, 32], 32, [I(32), I(32)], mods=" op_sel:[1,0] op_sel_hi:[0,1]")
for n, f in {"v_pk_mad_u16": lambda a, b, c: a * b + c, "v_pk_mad_i16": lambda a, b, c: a * b + c}.items():
    g = u(16)(f)
    vop(n, lambda a, b, c, g=g: g(a, b, c) | g(a >> 16, b >> 16, c >> 16) << 16, [32] * 3, 32, [I(32)] * 3)
parts = lambda x, w, sg: [(s(x >> i, w) if sg else x >> i & (1 << w) - 1) for i in range(0, 32, w)]
for n, w, sg in (("v_dot2_i32_i16", 16, 1), ("v_dot2_u32_u16", 16, 0), ("v_dot4_i32_i8", 8, 1), ("v_dot4_u32_u8", 8, 0), ("v_dot8_i32_i4", 4, 1), ("v_dot8_u32_u4", 4, 0)):
    vop(n, lambda a, b, c, w=w, sg=sg: sum(x * y for x, y in zip(parts(a, w, sg), parts(b, w, sg))) + c & M[32], [32] * 3, 32, [I(32)] * 3)
# compares ------------------------------------------------------------------------------------------------------------
def compares(ty, w, ops, key, gen):
    for name, test in ops.items():
        for kind in ("cmp", "cmpx"):
            n = f"v_{kind}_{name}_{ty}"
            a, b = gen(), gen()
            b = [x if R.random() < 0.3 else y for x, y in zip(a, b)]
            mask = sum(1 << l for l in range(64) if test(key(a[l % 16], b[l % 16])))
            ins = {**lanes("v2", a, w), **lanes("v4", b, w)}
            case(n, f"{n}_e64 s[20:21], {pair('v2', w)}, {pair('v4', w)}", ins,
                 {"s20": mask & M[32], "s21": mask >> 32, **({"exec": mask} if kind == "cmpx" else {})})
            if kind == "cmp":
                case(n, f"{n}_e32 vcc, {pair('v2', w)}, {pair('v4', w)}", ins, {"vcc": mask})
iops = {"f": lambda c: 0, "lt": lambda c: c < 0, "eq": lambda c: c == 0, "le": lambda c: c <= 0, "gt": lambda c: c > 0, "ne": lambda c: c != 0, "ge": lambda c: c >= 0, "t": lambda c: 1}
for w in (16, 32, 64):
    g = (lambda w=w: ints(max(w, 32)))
    compares(f"i{w}", w, iops, lambda a, b, w=w: (s(a, w) > s(b, w)) - (s(a, w) < s(b, w)), g)
    compares(f"u{w}", w, iops, lambda a, b, w=w: ((a & M[w]) > (b & M[w])) - ((a & M[w]) < (b & M[w])), g)
lt, eq, gt = (lambda c: c == -1), (lambda c: c == 0), (lambda c: c == 1)
fops = {"f": lambda c: 0, "lt": lt, "eq": eq, "le": lambda c: c in (-1, 0), "gt": gt, "lg": lambda c: c in (-1, 1), "ge": lambda c: c in (0, 1),
        "o": lambda c: c is not None, "u": lambda c: c is None, "nge": lambda c: c not in (0, 1), "nlg": lambda c: c not in (-1, 1),
        "ngt": lambda c: c != 1, "nle": lambda c: c not in (-1, 0), "neq": lambda c: c != 0, "nlt": lambda c: c != -1, "tru": lambda c: 1}
for w in (16, 32, 64):
    compares(f"f{w}", w, fops, lambda a, b, w=w: cmp(a, b, w), lambda w=w: floats(w, nan=True))
# floats --------------------------------------------------------------------------------------------------------------
def flip(f): return lambda a, b, *r: f(b, a, *r)
def fmin(a, b, w):
    c = cmp(a, b, w)
    if c == 0: return a if a >> (w - 1) else b
    return a if c < 0 else b
def fmax(a, b, w):
    c = cmp(a, b, w)
    if c == 0: return b if a >> (w - 1) else a
    return a if c > 0 else b
for w in (16, 32):
    t = f"f{w}"
    for n, f in {"v_add_": add, "v_sub_": sub, "v_subrev_": flip(sub), "v_mul_": mul, "v_min_": fmin, "v_max_": fmax}.items():
        for suffix in ("_e32", "_e64"):
            vop(n + t, lambda a, b, f=f, w=w: f(a, b, w), [32, 32], 32, [FL(w), FL(w)], suffix)
for n, f in {"v_add_f64": add, "v_mul_f64": mul, "v_min_f64": fmin, "v_max_f64": fmax}.items():
    for _ in range(2):
        vop(n, lambda a, b, f=f: f(a, b, 64), [64, 64], 64, [FL(64), FL(64)])
for w in (16, 32, 64):
    for _ in range(2):
        cols = [floats(w, finite=True) for _ in range(3)]
        ins = {}
        for r, c in zip(REG, cols): ins.update(lanes(r, c, w))
        if w == 16: ins["v8"] = [0]
        case(f"v_fma_f{w}", f"v_fma_f{w} {pair('v8', w)}, {pair('v2', w)}, {pair('v4', w)}, {pair('v6', w)}", ins, out("v8", [fma(*r, w) for r in zip(*cols)], w))
for n, w in (("v_fmac_f32", 32), ("v_fmac_f64", 64)):
    a, b, c = (floats(w, finite=True) for _ in range(3))
    case(n, f"{n}_e32 {pair('v8', w)}, {pair('v2', w)}, {pair('v4', w)}", {**lanes("v2", a, w), **lanes("v4", b, w), **lanes("v8", c, w)}, out("v8", [fma(x, y, z, w) for x, y, z in zip(a, b, c)], w))
a, b = floats(32, finite=True), floats(32, finite=True)
case("v_fmamk_f32", "v_fmamk_f32 v8, v2, 0x40490fdb, v4", {"v2": a, "v4": b}, {"v8": [fma(x, 0x40490FDB, y, 32) for x, y in zip(a, b)]})
case("v_fmaak_f32", "v_fmaak_f32 v8, v2, v4, 0x40490fdb", {"v2": a, "v4": b}, {"v8": [fma(x, y, 0x40490FDB, 32) for x, y in zip(a, b)]})
for n, how in (("v_floor_", "floor"), ("v_ceil_", "ceil"), ("v_trunc_", "trunc"), ("v_rndne_", "even")):
    for w in (16, 32, 64):
        vop(f"{n}f{w}", lambda a, how=how, w=w: integral(a, w, how), [max(w, 32)], max(w, 32), [FL(w, top=20 if w > 16 else 10)], "_e32")
absv = lambda x: x & 0x7FFFFFFF
a, b = floats(32), floats(32)
case("v_add_f32", "v_add_f32_e64 v8, -v2, |v4|", {"v2": a, "v4": b}, {"v8": [add(neg(x, 32), absv(y), 32) for x, y in zip(a, b)]})
def clamp(x):
    if x == NAN or x == 1 << 31 or cmp(x, 0, 32) < 0: return NAN if x == NAN else 0
    return 0x3F800000 if cmp(x, 0x3F800000, 32) > 0 else x
a, b = floats(32, finite=True), floats(32, finite=True)
case("v_add_f32", "v_add_f32_e64 v8, v2, v4 clamp", {"v2": a, "v4": b}, {"v8": [clamp(add(x, y, 32)) for x, y in zip(a, b)]})
for n, f in (("v_pk_add_f16", add), ("v_pk_mul_f16", mul), ("v_pk_min_f16", fmin), ("v_pk_max_f16", fmax)):
    lo, hi, lo2, hi2 = (floats(16, finite=True) for _ in range(4))
    r = [f(p, q, 16) | f(x, y, 16) << 16 for p, q, x, y in zip(lo, lo2, hi, hi2)]
    case(n, f"{n} v8, v2, v4", {"v2": [x | y << 16 for x, y in zip(lo, hi)], "v4": [x | y << 16 for x, y in zip(lo2, hi2)]}, {"v8": r})
cols = [floats(16, finite=True) for _ in range(6)]
case("v_pk_fma_f16", "v_pk_fma_f16 v8, v2, v4, v6", {f"v{2 + 2 * i}": [x | y << 16 for x, y in zip(cols[i], cols[3 + i])] for i in range(3)},
     {"v8": [fma(a, b, c, 16) | fma(x, y, z, 16) << 16 for a, b, c, x, y, z in zip(*cols)]})
for n, f, k in (("v_pk_add_f32", add, 2), ("v_pk_mul_f32", mul, 2), ("v_pk_fma_f32", fma, 3)):
    lo = [floats(32, finite=True) for _ in range(k)]; hi = [floats(32, finite=True) for _ in range(k)]
    ins = {}
    for i in range(k): ins[REG[i]] = lo[i]; ins[f"v{int(REG[i][1:]) + 1}"] = hi[i]
    ops = ", ".join(pair(r, 64) for r in REG[:k])
    case(n, f"{n} v[8:9], {ops}", ins, {"v8": [f(*r, 32) for r in zip(*lo)], "v9": [f(*r, 32) for r in zip(*hi)]})
    case(n, f"{n} v[8:9], {ops} op_sel_hi:[{','.join(['0'] + ['1'] * (k - 1))}]", ins, {"v8": [f(*r, 32) for r in zip(*lo)], "v9": [f(*r, 32) for r in zip(lo[0], *hi[1:])]})
for n, f in (("v_min3_f32", lambda *v: fmin(fmin(v[0], v[1], 32), v[2], 32)), ("v_max3_f32", lambda *v: fmax(fmax(v[0], v[1], 32), v[2], 32))):
    vop(n, f, [32] * 3, 32, [FL(32)] * 3)
def med3f(a, b, c):
    return sorted([a, b, c], key=functools.cmp_to_key(lambda x, y: cmp(x, y, 32) or (y >> 31) - (x >> 31)))[1]
vop("v_med3_f32", med3f, [32] * 3, 32, [FL(32)] * 3)
# conversions
def to_int(x, w, lo, hi):
    v, sg = decode(x, w)
    if v == "nan": return 0
    if v == "inf": return lo if sg else hi
    t = v.numerator // v.denominator if v >= 0 else -((-v.numerator) // v.denominator)
    return max(lo, min(hi, t))
for w in (32, 64):
    vop(f"v_cvt_i32_f{w}", lambda a, w=w: to_int(a, w, -(1 << 31), (1 << 31) - 1) & M[32], [w], 32, [FL(w, nan=True, top=34)], "_e32")
    vop(f"v_cvt_u32_f{w}", lambda a, w=w: to_int(a, w, 0, M[32]), [w], 32, [FL(w, nan=True, top=34)], "_e32")
    vop(f"v_cvt_f{w}_i32", lambda a, w=w: encode(F(s(a, 32)), w), [32], w, [I(32)], "_e32")
    vop(f"v_cvt_f{w}_u32", lambda a, w=w: encode(F(a), w), [32], w, [I(32)], "_e32")
def convert(x, a, b):
    v, sg = decode(x, a)
    return inf(b, sg) if v == "inf" else encode(v, b, negative_zero=bool(sg))
vop("v_cvt_f64_f32", lambda x: convert(x, 32, 64), [32], 64, [FL(32)], "_e32")
vop("v_cvt_f32_f64", lambda x: convert(x, 64, 32), [64], 32, [FL(64, top=140)], "_e32")
vop("v_cvt_f32_f16", lambda x: convert(x, 16, 32), [32], 32, [FL(16)], "_e32")
vop("v_cvt_f16_f32", lambda x: convert(x, 32, 16), [32], 32, [FL(32, top=24)], "_e32")
for i in range(4):
    vop(f"v_cvt_f32_ubyte{i}", lambda x, i=i: encode(F(x >> 8 * i & 255), 32), [32], 32, [I(32)], "_e32")
vop("v_cvt_f16_u16", lambda x: encode(F(x & 65535), 16), [32], 32, [I(32)], "_e32")
vop("v_cvt_f16_i16", lambda x: encode(F(s(x, 16)), 16), [32], 32, [I(32)], "_e32")
def ldexp(x, e, w):
    v, sg = decode(x, w)
    return x if v == "inf" else encode(v * F(2) ** e, w, negative_zero=bool(sg))
vop("v_ldexp_f32", lambda a, b: ldexp(a, s(b, 32), 32), [32, 32], 32, [FL(32), lambda: [R.randrange(-160, 160) & M[32] for _ in range(16)]])
vop("v_ldexp_f64", lambda a, b: ldexp(a, s(b, 32), 64), [64, 32], 64, [FL(64), lambda: [R.randrange(-1100, 1100) & M[32] for _ in range(16)]])
def frexp_exp(x, w):
    v, _ = decode(x, w)
    return 0 if v in ("inf", "nan") or v == 0 else floor_log2(abs(v)) + 1
def frexp_mant(x, w):
    v, sg = decode(x, w)
    return x if v == "inf" or v == 0 else encode(v / F(2) ** frexp_exp(x, w), w)
for w in (32, 64):
    vop(f"v_frexp_exp_i32_f{w}", lambda x, w=w: frexp_exp(x, w) & M[32], [w], 32, [FL(w, finite=True)], "_e32")
    vop(f"v_frexp_mant_f{w}", lambda x, w=w: frexp_mant(x, w), [w], w, [FL(w, finite=True)], "_e32")
def classify(x, w):
    v, sg = decode(x, w)
    e, m = FMT[w]
    if v == "nan": return 1 if x >> (m - 1) & 1 else 0
    if v == "inf": return 2 if sg else 9
    if v == 0: return 5 if sg else 6
    sub_ = x >> m & (1 << e) - 1 == 0
    return (4 if sub_ else 3) if sg else (7 if sub_ else 8)
for w in (16, 32, 64):
    a, m = floats(w, nan=True), [R.getrandbits(10) for _ in range(16)]
    mask = sum(1 << l for l in range(64) if m[l % 16] >> classify(a[l % 16], w) & 1)
    case(f"v_cmp_class_f{w}", f"v_cmp_class_f{w}_e32 vcc, {pair('v2', w)}, v4", {**lanes("v2", a, w), "v4": m}, {"vcc": mask})
# 8-bit and 4-bit floats: exponent bits, mantissa bits, bias, and whether one of the two encodings is FNUZ
FP8 = {("gfx942", "fp8"): (4, 3, 8), ("gfx942", "bf8"): (5, 2, 16), ("gfx950", "fp8"): (4, 3, 7), ("gfx950", "bf8"): (5, 2, 15)}
def small_decode(x, e, m, bias):
    exp, man = x >> m & (1 << e) - 1, x & (1 << m) - 1
    v = F(man) * F(2) ** (1 - bias - m) if exp == 0 else F(man + (1 << m)) * F(2) ** (exp - bias - m)
    return -v if x >> (e + m) & 1 else v
def fp8_to_f32(x, arch, kind):
    e, m, bias = FP8[arch, kind]
    if arch == "gfx942":
        return NAN if x == 0x80 else encode(small_decode(x, e, m, bias), 32)
    if kind == "fp8" and x & 0x7F == 0x7F: return NAN
    if kind == "bf8" and x & 0x7C == 0x7C: return NAN if x & 3 else inf(32, x >> 7)
    return encode(small_decode(x, e, m, bias), 32, negative_zero=x >> 7)
def nearest(v, codes, e, m, bias):
    """the code of the nearest value, ties to the even code"""
    return min(codes, key=lambda x: (abs(small_decode(x, e, m, bias) - v), x & 1))
def f32_to_fp8(x, arch, kind):
    e, m, bias = FP8[arch, kind]
    v, sign = decode(x, 32)
    top = {("gfx942", "fp8"): 0x7F, ("gfx942", "bf8"): 0x7F, ("gfx950", "fp8"): 0x7E, ("gfx950", "bf8"): 0x7B}[arch, kind]
    code = nearest(abs(v), range(top + 1), e, m, bias)
    return code if not sign or (code == 0 and arch == "gfx942") else code | 0x80
for arch in ("gfx942", "gfx950"):
    for kind in ("fp8", "bf8"):
        every = list(range(256))
        R.shuffle(every)
        packed = [sum(every[4 * l + i] << 8 * i for i in range(4)) for l in range(64)]
        for i in range(4):
            case(f"v_cvt_f32_{kind}", f"v_cvt_f32_{kind}_sdwa v8, v2 src0_sel:BYTE_{i}", {"v2": packed}, {"v8": [fp8_to_f32(x >> 8 * i & 255, arch, kind) for x in packed]}, arch)
        for i in range(2):
            case(f"v_cvt_pk_f32_{kind}", f"v_cvt_pk_f32_{kind}_sdwa v[8:9], v2 src0_sel:WORD_{i}", {"v2": packed},
                 {f"v{8 + j}": [fp8_to_f32(x >> 16 * i + 8 * j & 255, arch, kind) for x in packed] for j in (0, 1)}, arch)
        tops = {"fp8": 6, "bf8": 13}[kind]
        a, b = ([(127 + R.randrange(-9 if kind == "fp8" else -18, tops)) << 23 | R.getrandbits(23) | R.getrandbits(1) << 31 for _ in range(64)] for _ in range(2))
        # Half of the values are ties or exact.
        a = [x & ~((1 << 19 if kind == "fp8" else 1 << 20) - 1) if l % 2 else x for l, x in enumerate(a)]
        r = [f32_to_fp8(x, arch, kind) | f32_to_fp8(y, arch, kind) << 8 for x, y in zip(a, b)]
        old = ints(32)
        case(f"v_cvt_pk_{kind}_f32", f"v_cvt_pk_{kind}_f32 v8, v2, v4", {"v2": a, "v4": b, "v8": old}, {"v8": [x | old[l % 16] & 0xFFFF0000 for l, x in enumerate(r)]}, arch)
        case(f"v_cvt_pk_{kind}_f32", f"v_cvt_pk_{kind}_f32 v8, v2, v4 op_sel:[0,0,1]", {"v2": a, "v4": b, "v8": old}, {"v8": [x << 16 | old[l % 16] & 65535 for l, x in enumerate(r)]}, arch)
def bf16(x):
    v, sign = decode(x, 32)
    if v == "inf": return x >> 16
    low, high = x & 65535, x >> 16
    return high + (1 if low > 0x8000 or (low == 0x8000 and high & 1) else 0)
a, b = floats(32), floats(32)
a = [x & 0xFFFF8000 if l % 2 else x for l, x in enumerate(a)]
case("v_cvt_pk_bf16_f32", "v_cvt_pk_bf16_f32 v8, v2, v4", {"v2": a, "v4": b}, {"v8": [bf16(x) | bf16(y) << 16 for x, y in zip(a, b)]}, "gfx950")
case("v_cvt_f32_bf16", "v_cvt_f32_bf16_e32 v8, v2", {"v2": b}, {"v8": [x << 16 & M[32] if x & 0x7FFF <= 0x7F80 else NAN for x in b]}, "gfx950")
scales = [(127 + R.randrange(-8, 8)) << 23 for _ in range(16)]
codes = [R.getrandbits(32) for _ in range(16)]
fp4 = lambda x: small_decode(x & 15, 2, 1, 1)
for byte in range(4):
    sel = {0: "", 1: " op_sel:[1,0,0]", 2: " op_sel:[0,1,0]", 3: " op_sel:[1,1,0]"}[byte]
    outs = {f"v{8 + j}": [encode(fp4(x >> 8 * byte + 4 * j) * decode(k, 32)[0], 32, negative_zero=bool(x >> 8 * byte + 4 * j + 3 & 1)) for x, k in zip(codes, scales)] for j in (0, 1)}
    case("v_cvt_scalef32_pk_f32_fp4", f"v_cvt_scalef32_pk_f32_fp4 v[8:9], v2, v4{sel}", {"v2": codes, "v4": scales}, outs, "gfx950")

# lanes
case("v_mbcnt_lo_u32_b32", "v_mbcnt_lo_u32_b32 v8, s10, v2", {"s10": 0xF0F0A5A5, "v2": [7]}, {"v8": [bin(0xF0F0A5A5 & (1 << min(l, 32)) - 1).count("1") + 7 for l in range(64)]})
case("v_mbcnt_hi_u32_b32", "v_mbcnt_hi_u32_b32 v8, s10, v2", {"s10": 0xF0F0A5A5, "v2": [7]}, {"v8": [bin(0xF0F0A5A5 & (1 << max(l - 32, 0)) - 1).count("1") + 7 for l in range(64)]})
L64 = [R.getrandbits(32) for _ in range(64)]
case("v_readlane_b32", "v_readlane_b32 s20, v2, 37", {"v2": L64}, {"s20": L64[37]})
case("v_readfirstlane_b32", "v_readfirstlane_b32 s20, v2", {"v2": L64, "exec": 0xFFFFFFFFFF000000}, {"s20": L64[24]})
case("v_writelane_b32", "v_writelane_b32 v2, s10, 5", {"v2": L64, "s10": 0x1234}, {"v2": [0x1234 if l == 5 else x for l, x in enumerate(L64)]})
def dpp(ctrl, src, text, bound=True, rows=15, banks=15):
    old = [l * 3 for l in range(64)]
    res = []
    for l in range(64):
        k = src(l)
        on = rows >> (l // 16) & 1 and banks >> (l % 16 // 4) & 1
        if not on: res.append(old[l])
        elif k is None: res.append(0 if bound else old[l])
        else: res.append(L64[k])
    case(f"dpp_{ctrl}", f"v_mov_b32_dpp v8, v2 {text} row_mask:{rows:#x} bank_mask:{banks:#x}{' bound_ctrl:1' if bound else ''}", {"v2": L64, "v8": old}, {"v8": res})
dpp("quad_perm", lambda l: l & ~3 | [3, 0, 2, 2][l & 3], "quad_perm:[3,0,2,2]")
for k in (1, 7, 15):
    dpp("row_shl", lambda l: l + k if l % 16 + k < 16 else None, f"row_shl:{k}", bound=k != 7)
    dpp("row_shr", lambda l: l - k if l % 16 >= k else None, f"row_shr:{k}", bound=k != 7)
    dpp("row_ror", lambda l: l & ~15 | (l - k) & 15, f"row_ror:{k}")
dpp("wave_shl", lambda l: l + 1 if l < 63 else None, "wave_shl:1")
dpp("wave_rol", lambda l: (l + 1) % 64, "wave_rol:1")
dpp("wave_shr", lambda l: l - 1 if l else None, "wave_shr:1", bound=False)
dpp("wave_ror", lambda l: (l - 1) % 64, "wave_ror:1")
dpp("row_mirror", lambda l: l & ~15 | 15 - l % 16, "row_mirror", rows=10)
dpp("row_half_mirror", lambda l: l & ~7 | 7 - l % 8, "row_half_mirror", banks=6)
dpp("row_bcast15", lambda l: l // 16 * 16 - 1 if l >= 16 else None, "row_bcast:15", bound=False, rows=10)
dpp("row_bcast31", lambda l: 31 if l >= 32 else None, "row_bcast:31", bound=False, rows=12)
dpp("row_newbcast", lambda l: l & ~15 | 5, "row_newbcast:5")
# SDWA
def sel_(x, name): return {"BYTE": lambda i: x >> 8 * i & 255, "WORD": lambda i: x >> 16 * i & 65535}[name[:4]](int(name[-1])) if name != "DWORD" else x
for d, dn, s0, s1 in (("DWORD", "PAD", "BYTE_1", "WORD_1"), ("WORD_1", "PRESERVE", "BYTE_3", "BYTE_0"), ("BYTE_2", "PAD", "DWORD", "WORD_0"), ("BYTE_1", "SEXT", "WORD_0", "DWORD"), ("WORD_0", "SEXT", "BYTE_2", "BYTE_2")):
    a, b, old = ints(32), ints(32), ints(32)
    w, sh = (32, 0) if d == "DWORD" else ((8, 8 * int(d[-1])) if d[0] == "B" else (16, 16 * int(d[-1])))
    res = []
    for x, y, o in zip(a, b, old):
        r = sel_(x, s0) + sel_(y, s1) & (1 << w) - 1
        field = r << sh
        if dn == "PRESERVE": field |= o & ~((1 << w) - 1 << sh)
        if dn == "SEXT" and r >> (w - 1): field |= ~((1 << w + sh) - 1)
        res.append(field & M[32])
    case("sdwa_v_add_u32", f"v_add_u32_sdwa v8, v2, v4 dst_sel:{d} dst_unused:UNUSED_{dn} src0_sel:{s0} src1_sel:{s1}", {"v2": a, "v4": b, "v8": old}, {"v8": res})
a, b = ints(32), ints(32)
case("sdwa_v_add_u32", "v_add_u32_sdwa v8, sext(v2), v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:DWORD", {"v2": a, "v4": b}, {"v8": [s(x >> 16, 8) + y & M[32] for x, y in zip(a, b)]})
# scalar --------------------------------------------------------------------------------------------------------------
salu = case
def two_regs(r, x, w): return {f"s{r}": x & M[32]} if w == 32 else {f"s{r}": x & M[32], f"s{r + 1}": x >> 32 & M[32]}
def name(r, w): return f"s{r}" if w == 32 else f"s[{r}:{r + 1}]"
ovf = lambda r: not -(1 << 31) <= r < 1 << 31
sops = {
    "s_add_u32": (32, lambda a, b, c: (a + b, a + b > M[32])), "s_sub_u32": (32, lambda a, b, c: (a - b, a < b)),
    "s_add_i32": (32, lambda a, b, c: (a + b, ovf(s(a, 32) + s(b, 32)))), "s_sub_i32": (32, lambda a, b, c: (a - b, ovf(s(a, 32) - s(b, 32)))),
    "s_addc_u32": (32, lambda a, b, c: (a + b + c, a + b + c > M[32])), "s_subb_u32": (32, lambda a, b, c: (a - b - c, a < b + c)),
    "s_min_i32": (32, lambda a, b, c: (min(s(a, 32), s(b, 32)), s(a, 32) < s(b, 32))), "s_max_i32": (32, lambda a, b, c: (max(s(a, 32), s(b, 32)), s(a, 32) > s(b, 32))),
    "s_min_u32": (32, lambda a, b, c: (min(a, b), a < b)), "s_max_u32": (32, lambda a, b, c: (max(a, b), a > b)),
    "s_cselect_b32": (32, lambda a, b, c: (a if c else b, c)), "s_cselect_b64": (64, lambda a, b, c: (a if c else b, c)),
    "s_mul_i32": (32, lambda a, b, c: (a * b, c)), "s_mul_hi_u32": (32, lambda a, b, c: (a * b >> 32, c)), "s_mul_hi_i32": (32, lambda a, b, c: (s(a, 32) * s(b, 32) >> 32, c)),
    "s_absdiff_i32": (32, lambda a, b, c: (abs(s(a, 32) - s(b, 32)), a != b)),
    "s_pack_ll_b32_b16": (32, lambda a, b, c: (a & 65535 | b << 16, c)), "s_pack_lh_b32_b16": (32, lambda a, b, c: (a & 65535 | b & 0xFFFF0000, c)), "s_pack_hh_b32_b16": (32, lambda a, b, c: (a >> 16 | b & 0xFFFF0000, c)),
}
for k in range(1, 5): sops[f"s_lshl{k}_add_u32"] = (32, lambda a, b, c, k=k: ((a << k) + b, (a << k) + b > M[32]))
for w in (32, 64):
    nz = lambda f, w=w: (lambda a, b, c: ((r := f(a, b) & M[w]), r != 0))
    for n, f in {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "andn2": lambda a, b: a & ~b, "orn2": lambda a, b: a | ~b, "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b)}.items():
        sops[f"s_{n}_b{w}"] = (w, nz(f))
for n, (w, f) in sops.items():
    for _ in range(2):
        a, b, c = R.choice(ints(w)), R.choice(ints(w)), R.getrandbits(1)
        r, scc = f(a, b, c)
        salu(n, f"{n} {name(20, w)}, {name(10, w)}, {name(12, w)}", {**two_regs(10, a, w), **two_regs(12, b, w), "scc": c}, {**two_regs(20, r, w), "scc": int(scc)})
for n, w, f in (("s_lshl_b32", 32, lambda a, b: a << (b & 31)), ("s_lshr_b32", 32, lambda a, b: a >> (b & 31)), ("s_ashr_i32", 32, lambda a, b: s(a, 32) >> (b & 31)),
                ("s_lshl_b64", 64, lambda a, b: a << (b & 63)), ("s_lshr_b64", 64, lambda a, b: a >> (b & 63)), ("s_ashr_i64", 64, lambda a, b: s(a, 64) >> (b & 63))):
    for _ in range(2):
        a, b = R.choice(ints(w)), R.getrandbits(32)
        r = f(a, b) & M[w]
        salu(n, f"{n} {name(20, w)}, {name(10, w)}, s12", {**two_regs(10, a, w), "s12": b}, {**two_regs(20, r, w), "scc": int(r != 0)})
for n, w, sg in (("s_bfe_u32", 32, 0), ("s_bfe_i32", 32, 1), ("s_bfe_u64", 64, 0), ("s_bfe_i64", 64, 1)):
    for off, width in ((3, 9), (0, 17), (20, 12), (7, 0)):
        a = R.getrandbits(w)
        v = a >> off & (1 << width) - 1
        r = (s(v, width) if sg and width else v) & M[w]
        salu(n, f"{n} {name(20, w)}, {name(10, w)}, s12", {**two_regs(10, a, w), "s12": width << 16 | off}, {**two_regs(20, r, w), "scc": int(r != 0)})
salu("s_bfm_b32", "s_bfm_b32 s20, s10, s12", {"s10": 9, "s12": 37}, {"s20": 0x1FF << 5})
salu("s_bfm_b64", "s_bfm_b64 s[20:21], s10, s12", {"s10": 40, "s12": 9}, two_regs(20, ((1 << 40) - 1) << 9, 64))
def rev(x, w): return int(f"{x:0{w}b}"[::-1], 2)
def wqm(x, w): return sum(15 << i for i in range(0, w, 4) if x >> i & 15)
def quadmask(x, w): return sum(1 << i // 4 for i in range(0, w, 4) if x >> i & 15)
def flbit_i(x, w):
    top = x >> (w - 1)
    return next((i for i in range(w) if x >> (w - 1 - i) & 1 != top), -1)
one = {}
for w in (32, 64):
    one.update({
        f"s_mov_b{w}": (w, w, lambda x: x, None), f"s_not_b{w}": (w, w, lambda x, w=w: ~x & M[w], "nz"), f"s_wqm_b{w}": (w, w, lambda x, w=w: wqm(x, w), "nz"),
        f"s_brev_b{w}": (w, w, lambda x, w=w: rev(x, w), None), f"s_bcnt0_i32_b{w}": (w, 32, lambda x, w=w: w - bin(x).count("1"), "nz"), f"s_bcnt1_i32_b{w}": (w, 32, lambda x: bin(x).count("1"), "nz"),
        f"s_ff0_i32_b{w}": (w, 32, lambda x, w=w: next((i for i in range(w) if not x >> i & 1), -1) & M[32], None),
        f"s_ff1_i32_b{w}": (w, 32, lambda x, w=w: next((i for i in range(w) if x >> i & 1), -1) & M[32], None),
        f"s_flbit_i32_b{w}": (w, 32, lambda x, w=w: (w - x.bit_length() if x else -1) & M[32], None),
        f"s_quadmask_b{w}": (w, w, lambda x, w=w: quadmask(x, w), "nz"),
    })
one.update({"s_flbit_i32": (32, 32, lambda x: flbit_i(x, 32) & M[32], None), "s_flbit_i32_i64": (64, 32, lambda x: flbit_i(x, 64) & M[32], None),
            "s_sext_i32_i8": (32, 32, lambda x: s(x, 8) & M[32], None), "s_sext_i32_i16": (32, 32, lambda x: s(x, 16) & M[32], None), "s_abs_i32": (32, 32, lambda x: abs(s(x, 32)) & M[32], "nz"),
            "s_bitreplicate_b64_b32": (32, 64, lambda x: sum((x >> i & 1) * 3 << 2 * i for i in range(32)), None)})
for n, (sw, dw, f, scc) in one.items():
    for x in (R.choice(ints(sw)), R.getrandbits(sw), 0):
        r = f(x)
        salu(n, f"{n} {name(20, dw)}, {name(10, sw)}", {**two_regs(10, x, sw), "scc": 1}, {**two_regs(20, r, dw), "scc": int(r != 0) if scc else 1})
for n, bit in (("s_bitset0_b32", 0), ("s_bitset1_b32", 1)):
    x = R.getrandbits(32)
    salu(n, f"{n} s20, s10", {"s20": x, "s10": 45}, {"s20": x & ~(1 << 13) | bit << 13})
for n, f in {"and": lambda a, e: a & e, "or": lambda a, e: a | e, "xor": lambda a, e: a ^ e, "andn2": lambda a, e: a & ~e, "orn2": lambda a, e: a | ~e, "nand": lambda a, e: ~(a & e), "nor": lambda a, e: ~(a | e), "xnor": lambda a, e: ~(a ^ e), "andn1": lambda a, e: ~a & e, "orn1": lambda a, e: ~a | e}.items():
    a, e = R.getrandbits(64), R.getrandbits(64) | 1
    r = f(a, e) & M[64]
    salu(f"s_{n}_saveexec_b64", f"s_{n}_saveexec_b64 s[20:21], s[10:11]", {**two_regs(10, a, 64), "exec": e}, {**two_regs(20, e, 64), "exec": r, "scc": int(r != 0)})
for n, f in {"andn1": lambda a, e: ~a & e, "andn2": lambda a, e: a & ~e}.items():
    a, e = R.getrandbits(64), R.getrandbits(64) | 1
    r = f(a, e) & M[64]
    salu(f"s_{n}_wrexec_b64", f"s_{n}_wrexec_b64 s[20:21], s[10:11]", {**two_regs(10, a, 64), "exec": e}, {**two_regs(20, r, 64), "exec": r, "scc": int(r != 0)})
for ty in ("i32", "u32"):
    for n, f in {"eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b}.items():
        cv = (lambda x: s(x, 32)) if ty == "i32" else (lambda x: x)
        for a, b in ((R.choice(ints(32)), R.choice(ints(32))), (5, 5)):
            salu(f"s_cmp_{n}_{ty}", f"s_cmp_{n}_{ty} s10, s12", {"s10": a, "s12": b}, {"scc": int(f(cv(a), cv(b)))})
        k = 0x8123
        imm = s(k, 16) if ty == "i32" else k
        for a in (imm & M[32], R.choice(ints(32))):
            salu(f"s_cmpk_{n}_{ty}", f"s_cmpk_{n}_{ty} s10, {k:#x}", {"s10": a}, {"scc": int(f(cv(a), imm))})
for n, f in {"eq": lambda a, b: a == b, "lg": lambda a, b: a != b}.items():
    a = R.getrandbits(64)
    for b in (a, a ^ 1 << 40):
        salu(f"s_cmp_{n}_u64", f"s_cmp_{n}_u64 s[10:11], s[12:13]", {**two_regs(10, a, 64), **two_regs(12, b, 64)}, {"scc": int(f(a, b))})
for bit in (0, 1):
    for at in (3, 17):
        salu(f"s_bitcmp{bit}_b32", f"s_bitcmp{bit}_b32 s10, s12", {"s10": 0x8, "s12": at}, {"scc": int((0x8 >> at & 1) == bit)})
        salu(f"s_bitcmp{bit}_b64", f"s_bitcmp{bit}_b64 s[10:11], s12", {"s10": 0, "s11": 0x8, "s12": at + 32}, {"scc": int((0x8 >> at & 1) == bit)})
salu("s_movk_i32", "s_movk_i32 s20, 0xfff0", {}, {"s20": 0xFFFFFFF0})
salu("s_cmovk_i32", "s_cmovk_i32 s20, 0x12", {"s20": 7, "scc": 1}, {"s20": 0x12})
salu("s_cmovk_i32", "s_cmovk_i32 s20, 0x12", {"s20": 7, "scc": 0}, {"s20": 7})
salu("s_cmov_b32", "s_cmov_b32 s20, s10", {"s20": 7, "s10": 9, "scc": 0}, {"s20": 7})
salu("s_cmov_b64", "s_cmov_b64 s[20:21], s[10:11]", {"s20": 7, "s21": 8, "s10": 9, "s11": 10, "scc": 1}, {"s20": 9, "s21": 10})
salu("s_addk_i32", "s_addk_i32 s20, 0x8000", {"s20": 0x80000000}, {"s20": 0x7FFF8000, "scc": 1})
salu("s_mulk_i32", "s_mulk_i32 s20, 0xfffe", {"s20": 21}, {"s20": -42 & M[32]})

def words(cases):
    enc = {}
    for arch in ("gfx942", "gfx950"):
        todo = [c for c in cases if c[4] in ("both", arch)]
        src = "\n".join(c[1] for c in todo)
        p = subprocess.run(["llvm-mc-22", "-triple=amdgcn", f"-mcpu={arch}", "-show-encoding"], input=src, capture_output=True, text=True)
        if p.stderr: raise SystemExit(p.stderr[:2000])
        lines = [l for l in p.stdout.split("\n") if "encoding:" in l]
        assert len(lines) == len(todo), (len(lines), len(todo))
        for c, l in zip(todo, lines):
            b = bytes(int(x, 16) for x in l.split("[")[-1].split("]")[0].split(","))
            text = " ".join(l.split(";")[0].split())
            w = " ".join(f"{int.from_bytes(b[i:i + 4], 'little'):08x}" for i in range(0, len(b), 4))
            assert enc.setdefault(id(c), (w, text)) == (w, text)
    return enc

def fmt(reg, values):
    digits = 16 if reg in ("vcc", "exec") else 1 if reg == "scc" else 8
    values = values if isinstance(values, list) else [values]
    return " ".join(x if x == NAN else f"{x:0{digits}x}" for x in values)

def main():
    enc = words(CASES)
    files = {}
    for c in CASES:
        n, _, ins, outs, archs = c
        w, text = enc[id(c)]
        block = [f"inst {w} ; {text}"]
        if archs != "both": block.append(f"arch {archs}")
        block += [f"in {r} = {fmt(r, v)}" for r, v in ins.items()]
        block += [f"out {r} = {fmt(r, v)}" for r, v in outs.items()]
        files.setdefault(n, []).append("\n".join(block))
    for f in os.listdir(HERE):
        if f.endswith(".test"): os.remove(os.path.join(HERE, f))
    for n, blocks in files.items():
        with open(os.path.join(HERE, n + ".test"), "w") as f:
            f.write("\n\n".join(blocks) + "\n")
    print(len(files), "files,", len(CASES), "cases")

main()
