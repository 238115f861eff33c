"""Finds the polynomials of src/codegen/math_tables.h.

    python bench/minimax.py > src/codegen/math_tables.h && make format

Each has the least largest error (Remez), in the weight that its use gives it. The first coefficients are rounded one by
one, and those that are left make up for it.
"""

import functools

import mpmath as mp

mp.mp.dps = 60
DIGITS = {"f32": 24, "f64": 53, "F32": 53}  # F32: for f32, but computed in f64


def rounded(x, precision):
    with mp.workprec(precision):
        return +mp.mpf(x)


def nodes(low, high, count):
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def value(coefficients, x):
    return mp.polyval(coefficients[::-1], x)


def extremes(function, low, high, count, weight, coefficients):
    """Where the error is largest between each two changes of its sign, on a grid that is denser at the ends."""
    grid = nodes(low, high, 24 * count)
    values = [weight(x) * (value(coefficients, x) - function(x)) for x in grid]
    picked = [0]
    for i in range(1, len(grid)):
        if mp.sign(values[i]) != mp.sign(values[picked[-1]]):
            picked.append(i)
        elif abs(values[i]) > abs(values[picked[-1]]):
            picked[-1] = i
    while len(picked) > count:
        picked.pop(0 if abs(values[picked[0]]) < abs(values[picked[-1]]) else -1)
    return [grid[i] for i in picked], max(abs(v) for v in values)


def remez(function, low, high, degree, weight, known):
    """Coefficients known[0..] and then those that make the largest weight * error least."""
    unknown = range(len(known), degree + 1)
    points = nodes(low, high, len(unknown) + 1)
    for _ in range(12):
        rows = [[x**k for k in unknown] + [(-1) ** i / weight(x)] for i, x in enumerate(points)]
        right = [function(x) - sum(c * x**k for k, c in enumerate(known)) for x in points]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix(right))
        coefficients = list(known) + list(solved)[:-1]
        found, largest = extremes(function, low, high, len(points), weight, coefficients)
        if len(found) < len(points) or largest < abs(solved[len(unknown)]) * 1.01:
            break
        points = found
    return coefficients, largest


def minimax(function, low, high, degree, weight, dtype):
    """The best of what rounding the first few coefficients before the others are found gives."""
    low, high = mp.mpf(low), mp.mpf(high)
    points = nodes(low, high, 500)
    exact = [(x, function(x), weight(x)) for x in points]
    known, results = [], []
    for k in range(min(degree, 4) + 1):
        coefficients, _ = remez(function, low, high, degree, weight, known)
        all_rounded = [rounded(c, DIGITS[dtype]) for c in coefficients]
        error = max(abs(w * (value(all_rounded, x) - y)) for x, y, w in exact)
        results.append((error, all_rounded))
        known = all_rounded[: k + 1]
    error, coefficients = min(results, key=lambda result: result[0])
    return coefficients, error


def tail(function, order):
    """What is left of a function's Taylor series at 0 from x^order on, divided by x^order."""
    series = mp.taylor(function, 0, order + 24)

    def rest(x):
        if abs(x) < mp.mpf(10) ** -2:
            return sum(c * x**k for k, c in enumerate(series[order:]))
        return (function(x) - sum(c * x**k for k, c in enumerate(series[:order]))) / x**order

    return rest


def in_square(function, order):
    """The same for an odd or even function, as a function of x squared."""
    rest = tail(function, order)
    return lambda z: rest(mp.sqrt(z))


def power(k):
    return lambda x: max(abs(x), mp.mpf(10) ** -9) ** k


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.01")
ABOVE_HALF_LN2 = HALF_LN2 * mp.mpf("1.001")  # a symmetric range would have 0 among the points, where errors count for 0
PI_4 = mp.pi / 4 * mp.mpf("1.01")
ROOT = mp.sqrt(2)
TAN_PI_8 = (ROOT - 1) * mp.mpf("1.001")
LOG_LOW, LOG_HIGH = 1 / ROOT - 1 - mp.mpf("1e-4"), ROOT - 1 + mp.mpf("1e-4")
LOG_Z = ((ROOT - 1) / (ROOT + 1)) ** 2 * mp.mpf("1.001")


def log_in_s(z):
    """(log((1 + s) / (1 - s)) - 2 s) / s^3, where z is s^2."""
    return sum(2 * z**k / (2 * k + 3) for k in range(60))


def erf_exponent(x):
    return -mp.log(mp.erfc(x)) / x - 1 if x else 2 / mp.sqrt(mp.pi) - 1


def erf_weight(x):
    return x * mp.erfc(x) / mp.erf(x) if x else mp.sqrt(mp.pi) / 2


def scaled_erfc(center):
    """(1 + 2x) exp(x^2) erfc(x) - 9/8, as a function of q = (x - center) / (x + center)."""

    def of_q(q):
        x = center * (1 + q) / (1 - q)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x) - mp.mpf(9) / 8

    return of_q


def q_of(x, center):
    return (mp.mpf(x) - center) / (mp.mpf(x) + center)


def short_log2(f):
    return mp.log1p(f) / mp.log(2) / f if f else 1 / mp.log(2)


def log_beyond_cubic(z):
    """(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5, where z is s^2."""
    return sum(2 * z**k / (2 * k + 5) for k in range(60))


@functools.cache
def scaled_erfinv(w):
    """erfinv(x) / x, where w is -log(1 - x^2)."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x if x else mp.sqrt(mp.pi) / 2


def erfinv_center(middle):
    return lambda u: scaled_erfinv(u + middle)


def erfinv_tail(middle):
    return lambda u: scaled_erfinv((u + middle) ** 2)


def one(_):
    return mp.mpf(1)


# name, what it is, and for each dtype: function, low, high, degree, weight of the error
TABLES = [
    (
        "Exp",
        "(exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2",
        {
            "f32": (tail(mp.exp, 2), -HALF_LN2, ABOVE_HALF_LN2, 4, power(1)),
            "f64": (tail(mp.exp, 2), -HALF_LN2, ABOVE_HALF_LN2, 10, power(1)),
        },
    ),
    (
        "Expm1",
        "the same to more digits than a sum with 1 keeps",
        {
            "f32": (tail(mp.exp, 2), -HALF_LN2, ABOVE_HALF_LN2, 5, power(1)),
            "f64": (tail(mp.exp, 2), -HALF_LN2, ABOVE_HALF_LN2, 10, power(1)),
        },
    ),
    (
        "Exp2",
        "(2^r - 1) / r, |r| <= 1/2",
        {
            "f32": (tail(lambda r: mp.mpf(2) ** r, 1), -0.501, 0.502, 5, power(1)),
            "f64": (tail(lambda r: mp.mpf(2) ** r, 1), -0.501, 0.502, 11, power(1)),
        },
    ),
    (
        "Log",
        "f32: (log(1 + f) - f + f^2 / 2) / f^3; f64: (2 atanh(s) - 2s) / s^3 in s^2, s = f / (2 + f)",
        {
            "f32": (tail(mp.log1p, 3), LOG_LOW, LOG_HIGH, 8, power(2)),
            "f64": (log_in_s, 0, LOG_Z, 6, power(1)),
        },
    ),
    (
        "Sin",
        "(sin(r) - r) / r^3 in r^2, |r| <= pi / 4",
        {
            "f32": (in_square(mp.sin, 3), 0, PI_4**2, 2, power(1)),
            "f64": (in_square(mp.sin, 3), 0, PI_4**2, 5, power(1)),
        },
    ),
    (
        "Cos",
        "(cos(r) - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4",
        {
            "f32": (in_square(mp.cos, 4), 0, PI_4**2, 2, power(2)),
            "f64": (in_square(mp.cos, 4), 0, PI_4**2, 5, power(2)),
        },
    ),
    (
        "Sinh",
        "(sinh(r) - r) / r^3 in r^2, |r| <= ln(2) / 2",
        {
            "f32": (in_square(mp.sinh, 3), 0, HALF_LN2**2, 2, power(1)),
            "f64": (in_square(mp.sinh, 3), 0, HALF_LN2**2, 4, power(1)),
        },
    ),
    (
        "Cosh",
        "(cosh(r) - 1) / r^2 in r^2, |r| <= ln(2) / 2",
        {
            "f32": (in_square(mp.cosh, 2), 0, HALF_LN2**2, 2, power(1)),
            "f64": (in_square(mp.cosh, 2), 0, HALF_LN2**2, 4, power(1)),
        },
    ),
    (
        "Asin",
        "(asin(x) - x) / x^3 in x^2, |x| <= 1/2",
        {
            "f32": (in_square(mp.asin, 3), 0, 0.25, 4, power(1)),
            "f64": (in_square(mp.asin, 3), 0, 0.25, 12, power(1)),
        },
    ),
    (
        "Atan",
        "(atan(x) - x) / x^3 in x^2, |x| <= tan(pi / 8)",
        {
            "f32": (in_square(mp.atan, 3), 0, TAN_PI_8**2, 4, power(1)),
            "f64": (in_square(mp.atan, 3), 0, TAN_PI_8**2, 11, power(1)),
        },
    ),
    (
        "Erf",
        "-log(erfc(x)) / x - 1, as far as erf(x) is below 1",
        {
            "f32": (erf_exponent, 0, 4, 8, erf_weight),
            "f64": (erf_exponent, 0, 6, 24, erf_weight),
        },
    ),
    (
        "Erfc",
        "(1 + 2x) exp(x^2) erfc(x) - 9/8 in (x - c) / (x + c), as far as erfc(x) is above 0; c is 3 for f32, 4 for f64",
        {
            "F32": (scaled_erfc(3), -1, q_of(11, 3), 11, one),
            "f64": (scaled_erfc(4), -1, q_of(27.3, 4), 22, one),
        },
    ),
    ("ShortLog2", "log2(1 + f) / f, good for f32", {"F32": (short_log2, LOG_LOW, LOG_HIGH, 13, one)}),
    ("ShortExp2", "2^r, |r| <= 1/2, good for f32", {"F32": (lambda r: mp.mpf(2) ** r, -0.501, 0.501, 7, one)}),
    (
        "LongLog",
        "(2 atanh(s) - 2s - 2/3 s^3) / s^5 in s^2",
        {"f64": (log_beyond_cubic, 0, LOG_Z, 6, power(2))},
    ),
    (
        "ErfinvCenter",
        "erfinv(x) / x in w - 2.5 (f32; w is -log(1 - x^2)) or w - 1 (f64)",
        {
            "F32": (erfinv_center(2.5), -2.5, 2.51, 10, one),
            "f64": (erfinv_center(1), -1, 5.251, 25, one),
        },
    ),
    (
        "ErfinvTail",
        "the same in sqrt(w) - 3.125 or sqrt(w) - 3.25",
        {
            "F32": (erfinv_tail(3.125), -0.9, 0.9, 11, one),
            "f64": (erfinv_tail(3.25), -0.76, 0.76, 22, one),
        },
    ),
    ("ErfinvEnd", "the same in sqrt(w) - 5", {"f64": (erfinv_tail(5), -1.01, 1.01, 20, one)}),
]


def shorter(text):
    mantissa, exponent = text.split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent.replace("+", "")


printed = {}  # names of tables, by their coefficients


def print_table(name, what, variants):
    print(f"// {what}.")
    names = {}
    for dtype, (function, low, high, degree, weight) in variants.items():
        coefficients, error = minimax(function, low, high, degree, weight, dtype)
        values = ", ".join(shorter(float(c).hex()) for c in coefficients)
        names[dtype] = printed.setdefault(values, f"k{name}{dtype.upper()}")
        if names[dtype] == f"k{name}{dtype.upper()}":
            bits = float(mp.log(error, 2))
            print(f"inline constexpr double {names[dtype]}[] = {{{values}}};  // off by 2^{bits:.1f}")
    if "f32" in variants:
        print(f"inline constexpr Polynomial k{name} = {{{names['f32']}, {names['f64']}}};")
    print(flush=True)


def print_parts(name, what, number, precisions):
    """A number as a sum of parts that have so many bits each."""
    parts = []
    for precision in precisions:
        parts.append(rounded(number - sum(parts), precision))
    values = ", ".join(shorter(float(p).hex()) for p in parts)
    print(f"inline constexpr double k{name}[] = {{{values}}};  // {what}")


def print_limbs(name, what, number, zeros, count):
    bits = int(mp.floor(number * mp.mpf(2) ** (32 * (count - zeros))))
    limbs = [bits >> 32 * (count - 1 - i) & 0xFFFFFFFF for i in range(count)]
    print(f"// {what}.\ninline constexpr uint32_t k{name}[] = {{")
    for i in range(0, count, 8):
        print("    " + " ".join(f"0x{limb:08x}," for limb in limbs[i : i + 8]))
    print("};")


PROLOGUE = """// Made by bench/minimax.py: the polynomials of codegen's math, and numbers in parts.
#pragma once

#include <cstdint>

#include "codegen/math_builder.h"

namespace tenon::codegen {
"""


def main():
    print(PROLOGUE)
    for table in TABLES:
        print_table(*table)
    print("// ---- numbers in parts: a product of a leading part with a small whole number is exact")
    print_parts("Ln2F32", "ln(2)", mp.log(2), [11, 24])
    print_parts("Ln2F64", "ln(2)", mp.log(2), [40, 53])
    print_parts("Log10Of2F32", "log10(2)", mp.log10(2), [11, 24])
    print_parts("Log10Of2F64", "log10(2)", mp.log10(2), [40, 53])
    print_parts("Log2eF32", "1 / ln(2)", 1 / mp.log(2), [24, 24])
    print_parts("Log2eF64", "1 / ln(2)", 1 / mp.log(2), [53, 53])
    print_parts("Log10eF32", "1 / ln(10)", 1 / mp.log(10), [24, 24])
    print_parts("Log10eF64", "1 / ln(10)", 1 / mp.log(10), [53, 53])
    print_parts("TwoThirds", "2/3", mp.mpf(2) / 3, [53, 53])
    print_parts("HalfPiF32", "pi / 2", mp.pi / 2, [24, 24, 24])
    print_parts("HalfPiF64", "pi / 2", mp.pi / 2, [53, 53, 53])
    print_parts("HalfPiShort", "pi / 2 for targets without fma", mp.pi / 2, [33, 33, 33, 53])
    print()
    with mp.workdps(500):
        print_limbs("TwoOverPi", "2 / pi, in 32 bits each; the third ends before the point", 2 / mp.pi, 3, 44)
    print("\n}  // namespace tenon::codegen")


if __name__ == "__main__":
    main()
