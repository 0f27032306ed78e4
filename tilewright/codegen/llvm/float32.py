"""Math functions in float32 that run on all lanes at once: no branches, so LLVM vectorises loops over them too.

Each function states its largest error in units in the last place (ulp) of the exact result, as the tests find it over
all magnitudes. NaN and infinities give the same results as in C. The coefficients are minimax fits over the reduced
range, rounded to float32 one by one with the rest fitted anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .lanes import Lanes, fma, polynomial, select

_LN2_HI, _LN2_LO = 0.693359375, -2.12194440e-4  # the sum is ln 2; the first has 10 bits, so n * _LN2_HI is exact
_LOG2E = math.log2(math.e)
_SMALLEST = 1.17549435e-38  # the smallest normal number
_ROOT_HALF = 0x3F3504F3  # the bits of sqrt(1/2)


def held(x: Lanes, low: float, high: float) -> Lanes:
    """x between two numbers; NaN stays NaN."""
    above = select(x < low, low, x)
    return select(above > high, high, above)


def _exp_reduced(r: Lanes) -> Lanes:
    """e**r for |r| of at most ln(2) / 2."""
    tail = polynomial(r, 0.5, 0.16666666, 0.041666463, 0.008333571, 0.0013935097, 0.00019739558)
    return fma(tail, r * r, r) + 1.0


def exp(x: Lanes) -> Lanes:
    """e**x: at most 1.0 ulp."""
    x = held(x, -105.0, 90.0)
    n, k = x.nearest(_LOG2E)
    r = fma(n, -_LN2_LO, fma(n, -_LN2_HI, x))
    return _exp_reduced(r).scaled(k)


def exp2(x: Lanes) -> Lanes:
    """2**x: at most 0.9 ulp."""
    x = held(x, -151.0, 129.0)
    n, k = x.nearest()
    r = x - n
    p = polynomial(r, 0.6931472, 0.2402265, 0.05550405, 0.009618087, 0.0013337962, 0.00015452137, 1.4324819e-05)
    return fma(p, r, 1.0).scaled(k)


def exp10(x: Lanes) -> Lanes:
    """10**x: at most 1.3 ulp."""
    x = held(x, -46.0, 39.0)
    n, k = x.nearest(math.log2(10))
    high, low = 0.30102539, 4.6050390e-06  # log10(2)
    r = fma(n, -low, fma(n, -high, x))
    return _exp_reduced(r * math.log(10)).scaled(k)


def _split(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, m) with x = 2**e * m and m between sqrt(1/2) and sqrt(2), for x > 0."""
    small = x < _SMALLEST
    bits = select(small, x * 2.0**23, x).bits("int32") - _ROOT_HALF
    e = (bits >> 23).cast("float32") - select(small, x.like(23.0), 0.0)
    m = ((bits & 0x7FFFFF) + _ROOT_HALF).bits("float32")
    return e, m


def _log_tail(f: Lanes) -> Lanes:
    """log(1 + f) - f for 1 + f between sqrt(1/2) and sqrt(2)."""
    p = polynomial(
        f, 0.33333313, -0.2500001, 0.20002072, -0.16667989, 0.14220358, -0.12406234, 0.11883549, -0.116700985,
        0.06749269,
    )  # fmt: skip
    square = f * f
    return fma(square * f, p, square * -0.5)


def _log_edges(x: Lanes, result: Lanes) -> Lanes:
    """Insert the logarithm of 0, infinity, negative numbers and NaN for such x."""
    result = select(x.equals(math.inf), math.inf, result)
    result = select(x.equals(0.0), -math.inf, result)
    return select(x.compare("ult", 0.0), math.nan, result)


def log(x: Lanes) -> Lanes:
    """The natural logarithm: at most 0.9 ulp."""
    e, m = _split(x)
    f = m - 1.0
    low = fma(e, _LN2_LO, _log_tail(f))
    return _log_edges(x, fma(e, _LN2_HI, f + low))


def log1p(x: Lanes) -> Lanes:
    """log(1 + x), exact for small x: at most 1.5 ulp."""
    u = x + 1.0
    lost = select(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    e, m = _split(u)
    k = select(e > 126.0, 126.0, e).nearest()[1]  # 2**-k is a normal number; there, nothing was lost
    shrink = ((127 - k) << 23).bits("float32")
    f = (m - 1.0) + lost * shrink
    result = fma(e, _LN2_HI, f + fma(e, _LN2_LO, _log_tail(f)))
    return _log_edges(u, select(x.equals(0.0), x, result))


def _log_in_base(x: Lanes, unit: float, high: float, low: float, base: tuple[float, float]) -> Lanes:
    """log(x) * unit with unit = high + low; `base`: log(2) * unit in two parts."""
    e, m = _split(x)
    f = m - 1.0
    main = f * high
    rest = fma(f, low, fma(_log_tail(f), unit, fma(f, high, -main)))
    return _log_edges(x, fma(e, base[0], fma(e, base[1], rest) + main))


def log2(x: Lanes) -> Lanes:
    """The logarithm to base 2: at most 1.1 ulp."""
    return _log_in_base(x, _LOG2E, 1.4426950, 1.9259629e-08, (1.0, 0.0))


def log10(x: Lanes) -> Lanes:
    """The logarithm to base 10: at most 1.1 ulp."""
    unit = 1 / math.log(10)
    return _log_in_base(x, unit, 0.43429449, -1.0103050e-08, (0.30102539, 4.6050390e-06))


def tanh(x: Lanes) -> Lanes:
    """The hyperbolic tangent: at most 1.5 ulp."""
    y = x * x
    p = polynomial(y, -0.33333316, 0.13332546, -0.05384785, 0.021052472, -0.0062459926)
    near = fma(p * y, x, x)
    far = 1.0 - 2.0 / (exp(x.magnitude() * 2.0) + 1.0)
    return select(x.magnitude() < 0.55, near, far.with_sign_of(x))


def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e**-x), with full accuracy on both sides: at most 2.9 ulp."""
    t = exp(-x.magnitude())
    whole = 1.0 / (t + 1.0)
    return select(x < 0.0, t * whole, whole)


def erf(x: Lanes) -> Lanes:
    """The error function: at most 1.1 ulp."""
    y = x * x
    p = polynomial(y, 0.12837917, -0.3761263, 0.11283626, -0.026855728, 0.0051923767, -0.00080491515, 7.992584e-05)
    near = fma(p, x, x)
    t = held(x.magnitude(), 0.0, 4.0)
    q = polynomial(t, 0.12863708, 0.63519806, 0.106158964, -0.023694444, 0.0036102587, -0.00031483083, 1.0429695e-05)
    far = 1.0 - exp(-fma(q, t, t))
    return select(x.magnitude() < 0.92, near, far.with_sign_of(x))


def rsqrt(x: Lanes) -> Lanes:
    """1 / sqrt(x), two roundings: at most 1.5 ulp."""
    return 1.0 / x.root()


def power(x: Lanes, y: Lanes) -> Lanes:
    """x**y, in float64 on the way: at most 0.6 ulp."""
    ax = x.magnitude()
    log = _log2_wide(ax)
    t = held(y.cast("float64") * log, -200.0, 200.0)
    n, k = t.nearest()
    r = (t - n) * math.log(2)
    p = polynomial(r, *(1 / math.factorial(k) for k in range(10)))
    scale = ((k + 1023) << 52).bits("float64")
    size = (p * scale).cast("float32")
    return _power_edges(x, y, size)


def _log2_wide(x: Lanes) -> Lanes:
    """log2(x) in float64 for x >= 0."""
    e, m = _split(x)
    m = m.cast("float64")
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = polynomial(square, *(2 / (math.log(2) * (2 * k + 1)) for k in range(8)))
    result = fma(series, s, e.cast("float64"))
    result = select(x.equals(0.0), -math.inf, result)
    return select(x.compare("ueq", math.inf), x.cast("float64"), result)  # infinity and NaN stay


def _power_edges(x: Lanes, y: Lanes, size: Lanes) -> Lanes:
    """The sign of x**y, and its value if x or y is special, from the power of |x|."""
    whole = y.rounded().equals(y)
    half = y * 0.5
    odd = whole & half.compare("une", half.rounded())
    result = select(odd, size.with_sign_of(x), size)
    undefined = (x < 0.0) & ~whole & x.compare("une", -math.inf)
    result = select(undefined, math.nan, result)
    flat = x.magnitude().equals(1.0) & y.magnitude().equals(math.inf)
    return select(y.equals(0.0) | x.equals(1.0) | flat, 1.0, result)


def _reduced_angle(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return (k, r) with `x = k * pi / 2 + r` and `|r| <= pi / 4`, for `|x| <= ANGLE`."""
    n, k = x.nearest(2 / math.pi)
    r = fma(n, -1.5707964, x)
    r = fma(n, 4.3711388e-08, r)
    r = fma(n, 1.7151245e-15, r)
    return k, r


ANGLE = 105615.0
"""The largest angle that the vector functions reduce; beyond, lanes go through the C library."""


def _sine_near(r: Lanes) -> Lanes:
    y = r * r
    p = polynomial(y, -0.16666667, 0.00833338, -0.00019853498, 2.8372472e-06)
    return fma(p * y, r, r)


def _cosine_near(r: Lanes) -> Lanes:
    y = r * r
    p = polynomial(y, 0.041666646, -0.0013887301, 2.4430668e-05)
    return fma(y * y, p, fma(y, -0.5, 1.0))


def _quadrant(k: Lanes, r: Lanes) -> Lanes:
    odd = (k & 1).equals(1)
    made = select(odd, _cosine_near(r), _sine_near(r))
    return select((k & 2).equals(2), -made, made)


def sin(x: Lanes) -> Lanes:
    """The sine: at most 1.6 ulp."""
    k, r = _reduced_angle(x)
    return select(x.equals(0.0), x, _quadrant(k, r))


def cos(x: Lanes) -> Lanes:
    """The cosine: at most 1.6 ulp."""
    k, r = _reduced_angle(x)
    return _quadrant(k + 1, r)


def tan(x: Lanes) -> Lanes:
    """The tangent, as the quotient of the two: at most 3.7 ulp."""
    k, r = _reduced_angle(x)
    s, c = _sine_near(r), _cosine_near(r)
    odd = (k & 1).equals(1)
    made = select(odd, -c, s) / select(odd, s, c)
    return select(x.equals(0.0), x, made)


UNARY: dict[str, Callable[[Lanes], Lanes]] = {
    "exp": exp,
    "exp2": exp2,
    "exp10": exp10,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "rsqrt": rsqrt,
}
BINARY: dict[str, Callable[[Lanes, Lanes], Lanes]] = {"pow": power}
ANGLES: dict[str, Callable[[Lanes], Lanes]] = {"sin": sin, "cos": cos, "tan": tan}
"""Right for |x| of at most `ANGLE`."""
