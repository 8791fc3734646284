"""Exact rounding of rationals to IEEE formats, and back."""
from fractions import Fraction as F
FMT = {16: (5, 10), 32: (8, 23), 64: (11, 52)}

def decode(bits, width):
    """('nan'|'inf', sign) or (Fraction, sign)"""
    e, m = FMT[width]
    sign = bits >> (width - 1)
    exp = bits >> m & ((1 << e) - 1)
    man = bits & ((1 << m) - 1)
    if exp == (1 << e) - 1:
        return ("nan" if man else "inf", sign)
    bias = (1 << (e - 1)) - 1
    v = F(man, 1) * F(2) ** (1 - bias - m) if exp == 0 else F(man + (1 << m), 1) * F(2) ** (exp - bias - m)
    return (-v if sign else v, sign)

def floor_log2(v):
    n, d = v.numerator, v.denominator
    k = n.bit_length() - d.bit_length()
    while F(2) ** k > v: k -= 1
    while F(2) ** (k + 1) <= v: k += 1
    return k

def encode(v, width, negative_zero=False):
    """round to nearest even"""
    e, m = FMT[width]
    bias = (1 << (e - 1)) - 1
    sign = 1 if v < 0 or (v == 0 and negative_zero) else 0
    s = sign << (width - 1)
    v = abs(v)
    if v == 0: return s
    k = max(floor_log2(v), 1 - bias)
    q = v / F(2) ** (k - m)
    n = q.numerator // q.denominator
    r = q - n
    if r > F(1, 2) or (r == F(1, 2) and n & 1): n += 1
    if n >= 1 << (m + 1):
        n >>= 1; k += 1
    if k > bias: return s | ((1 << e) - 1) << m
    if n < 1 << m: return s | n
    return s | (k + bias) << m | (n - (1 << m))

def inf(width, sign=0):
    e, m = FMT[width]
    return sign << (width - 1) | ((1 << e) - 1) << m
NAN = "nan"

def add(a, b, w):
    x, sx = decode(a, w); y, sy = decode(b, w)
    if x == "nan" or y == "nan": return NAN
    if x == "inf" and y == "inf": return inf(w, sx) if sx == sy else NAN
    if x == "inf": return inf(w, sx)
    if y == "inf": return inf(w, sy)
    return encode(x + y, w, negative_zero=sx and sy)
def neg(a, w): return a ^ 1 << (w - 1)
def sub(a, b, w): return add(a, neg(b, w), w)
def mul(a, b, w):
    x, sx = decode(a, w); y, sy = decode(b, w)
    if x == "nan" or y == "nan": return NAN
    s = sx ^ sy
    if x == "inf" or y == "inf":
        return NAN if x == 0 or y == 0 else inf(w, s)
    return encode(x * y, w, negative_zero=bool(s))
def fma(a, b, c, w):
    x, sx = decode(a, w); y, sy = decode(b, w); z, sz = decode(c, w)
    if "nan" in (x, y, z): return NAN
    s = sx ^ sy
    if x == "inf" or y == "inf":
        if x == 0 or y == 0: return NAN
        if z == "inf" and sz != s: return NAN
        return inf(w, s)
    if z == "inf": return inf(w, sz)
    p = x * y
    return encode(p + z, w, negative_zero=(p == 0 and bool(s) or p < 0) and bool(sz) if p + z == 0 and z == 0 and p == 0 else False)
def cmp(a, b, w):
    """-1, 0, 1, or None when unordered"""
    x, sx = decode(a, w); y, sy = decode(b, w)
    if x == "nan" or y == "nan": return None
    big = F(2) ** 2000
    v = lambda t, s: (-big if s else big) if t == "inf" else t
    x, y = v(x, sx), v(y, sy)
    return (x > y) - (x < y)
def integral(a, w, how):
    x, s = decode(a, w)
    if x in ("nan", "inf"): return NAN if x == "nan" else a
    n = x.numerator // x.denominator
    if how == "floor": r = n
    elif how == "ceil": r = -((-x.numerator) // x.denominator)
    elif how == "trunc": r = -((-x.numerator) // x.denominator) if x < 0 else n
    else:
        d = x - n
        r = n + (1 if d > F(1, 2) or (d == F(1, 2) and n & 1) else 0)
    return encode(F(r), w, negative_zero=bool(s))
