"""Writes what digamma and trigamma are at points that are hard for them, to 64 bits, with mpmath:

    python tests/codegen/gamma_points.py > tests/codegen/gamma_points.txt

One point a line: x, digamma(x), trigamma(x). The points are the neighbours of zeros and poles, those zeros of digamma
that are closest to a double, all exponents, and the range where both functions are used.
"""

import math
import random

import mpmath as mp

mp.mp.prec = 320
RANDOM = random.Random(4)


def as_float(x):
    return float(mp.mpf(x)) if abs(x) >= 2**-149 else 0.0


def rounded_to_f32(x):
    with mp.workprec(24):
        return float(+mp.mpf(x))


def neighbours(x, steps):
    return [step_by(x, step) for step in steps]


def step_by(x, steps):
    for _ in range(abs(steps)):
        x = math.nextafter(x, math.copysign(math.inf, steps))
    return x


def zero_above(pole):
    """digamma's zero in (pole, pole + 1), where pole is -1, -2, ...; for 0 the positive one."""
    if pole == 0:
        return mp.findroot(mp.digamma, mp.mpf("1.4616"))
    start = mp.mpf(pole) + mp.atan(mp.pi / mp.digamma(mp.mpf(1.6) - pole)) / mp.pi
    zero = mp.findroot(mp.digamma, start)
    assert pole < zero < pole + 1, (pole, zero)
    return zero


def closeness(zero):
    """How far the nearest double is away, times the slope: the result there."""
    return abs(mp.mpf(as_float(zero)) - zero)


def near_zeros():
    poles = [-n for n in range(41)]
    poles += sorted((-n for n in range(41, 3000)), key=lambda pole: closeness(zero_above(pole)))[:60]
    poles += [-RANDOM.randrange(2**bits, 2 ** (bits + 1)) for bits in range(12, 49) for _ in range(3)]
    for zero in map(zero_above, poles):
        yield from neighbours(as_float(zero), [-2, -1, 0, 1, 2])
        ulp = math.ulp(rounded_to_f32(zero)) * 2**29
        if zero > -1e6:
            yield from (rounded_to_f32(zero) + step * ulp for step in (-1, 0, 1))
        yield as_float(zero + RANDOM.choice((-1, 1)) * mp.mpf(2) ** -RANDOM.uniform(2, 40))


def near_poles():
    for pole in [0.0, *(-float(n) for n in range(1, 20)), -100.0, -1e5, -(2.0**40), -(2.0**52) + 1]:
        yield from neighbours(pole, [-2, -1, 1, 2] if pole else [])
        yield from (pole + sign * 2.0**-power for sign in (-1, 1) for power in (2, 5, 6, 7, 12, 20))
        yield pole - 0.5


def everywhere():
    yield from (sign * RANDOM.uniform(1, 2) * 2.0**power for power in range(-1074, 1024, 9) for sign in (-1, 1))
    yield from (rounded_to_f32(RANDOM.uniform(1, 2) * 2.0**power) for power in range(-126, 127, 3))
    yield from (RANDOM.uniform(-12, 0) for _ in range(300))
    yield from (RANDOM.uniform(0, 20) for _ in range(300))
    yield from (rounded_to_f32(RANDOM.uniform(-12, 20)) for _ in range(300))
    yield from (n / 2 for n in range(1, 40))


def is_pole(x):
    return x <= 0 and x == math.floor(x)


def trigamma(x):
    """mpmath's own steps up from a negative x one by one."""
    return mp.psi(1, x) if x > 0 else (mp.pi / mp.sinpi(x)) ** 2 - mp.psi(1, 1 - x)


def hex_of(x):
    """With 64 bits."""
    with mp.workprec(64):
        sign, digits, exponent, _ = (+x)._mpf_
    return f"{'-' if sign else ''}0x{int(digits):x}p{exponent}"


def main():
    for x in sorted({x for part in (near_zeros, near_poles, everywhere) for x in part() if not is_pole(x)}):
        exact = mp.mpf(x)
        print(x.hex(), hex_of(mp.digamma(exact)), hex_of(trigamma(exact)))


if __name__ == "__main__":
    main()
