"""Finds the polynomials of src/codegen/math_tables.h: `python bench/minimax.py > src/codegen/math_tables.h`.

Each has the least largest error (Remez), in the weight that its use gives it. The first coefficients are rounded one by
one, and those that are left make up for it.
"""

import mpmath as mp

mp.mp.dps = 60
DIGITS = {"f32": 24, "f64": 53}
REFITTED = 2  # coefficients whose rounding matters


def rounded(x, precision):
    with mp.workprec(precision):
        return +mp.mpf(x)


def nodes(low, high, count):
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def value(coefficients, x):
    return mp.polyval(coefficients[::-1], x)


def extremes(error, low, high, count):
    """The largest |error| between each two changes of its sign, on a grid that is denser at the ends."""
    grid = nodes(low, high, 24 * count)
    values = [error(x) for x in grid]
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
        found, largest = extremes(
            lambda x: weight(x) * (value(coefficients, x) - function(x)), low, high, len(points)
        )
        if len(found) < len(points) or largest < abs(solved[len(unknown)]) * 1.01:
            break
        points = found
    return coefficients, largest


def minimax(function, low, high, degree, weight, dtype):
    low, high = mp.mpf(low), mp.mpf(high)
    known = []
    for k in range(min(REFITTED, degree) + 1):
        coefficients, _ = remez(function, low, high, degree, weight, known)
        known.append(rounded(coefficients[k], DIGITS[dtype]))
    known += [rounded(c, DIGITS[dtype]) for c in coefficients[len(known) :]]
    return known, max(abs(weight(x) * (value(known, x) - function(x))) for x in nodes(low, high, 500))


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
    """(1 + 2x) exp(x^2) erfc(x), as a function of q = (x - center) / (x + center)."""

    def of_q(q):
        x = center * (1 + q) / (1 - q)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    return of_q


def q_of(x, center):
    return (mp.mpf(x) - center) / (mp.mpf(x) + center)


def one(_):
    return mp.mpf(1)


# name, what it is, and for each dtype: function, low, high, degree, weight of the error
TABLES = [
    (
        "Exp",
        "(exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2",
        {
            "f32": (tail(mp.exp, 2), -HALF_LN2, HALF_LN2, 4, power(1)),
            "f64": (tail(mp.exp, 2), -HALF_LN2, HALF_LN2, 10, power(1)),
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
            "f32": (in_square(mp.sinh, 3), 0, HALF_LN2**2, 1, power(1)),
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
        "-log(erfc(x)) / x - 1, as far as erf(x) is below 1; f64 in x - 2",
        {
            "f32": (erf_exponent, 0, 4, 8, erf_weight),
            "f64": (lambda u: erf_exponent(u + 2), -2, 4, 24, lambda u: erf_weight(u + 2)),
        },
    ),
    (
        "Erfc",
        "(1 + 2x) exp(x^2) erfc(x) in (x - c) / (x + c), as far as erfc(x) is above 0; c is 3 for f32, 4 for f64",
        {
            "f32": (scaled_erfc(3), -1, q_of(10.1, 3), 10, one),
            "f64": (scaled_erfc(4), -1, q_of(27.3, 4), 22, one),
        },
    ),
]


def shorter(text):
    mantissa, exponent = text.split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent.replace("+", "")


def print_table(name, what, variants):
    print(f"// {what}.")
    for dtype, (function, low, high, degree, weight) in variants.items():
        coefficients, error = minimax(function, low, high, degree, weight, dtype)
        print(f"inline constexpr double k{name}{dtype.upper()}[] = {{  // off by 2^{float(mp.log(error, 2)):.1f}")
        for c in coefficients:
            print(f"    {shorter(float(c).hex())},")
        print("};")
    both = ", ".join(f"k{name}{dtype.upper()}" for dtype in variants)
    print(f"inline constexpr Polynomial k{name} = {{{both}}};\n", flush=True)


if __name__ == "__main__":
    import sys
    for table in TABLES:
        if len(sys.argv) < 2 or table[0] in sys.argv[1:]:
            print_table(*table)
