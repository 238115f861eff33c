"""Core overloads over complex numbers, which the registry leaves to PyTorch: Tenon has no complex dtype. The ops of the
table express them all the same, with a complex tensor as a real one that has a last dimension of 2.

TABLE has a function for each, by the name that PyTorch gives it. It takes what the overload takes, with a Value for
each tensor, and adds nodes to their graph.
"""

import math

from tenon import ops


def to(x, dtype):
    return ops.cast(x, dtype=dtype)


def roots(x, rows, columns, period):
    """The real and the imaginary part of exp(2 pi i * row * column / period)."""
    row, column = ops.iota(x.graph, size=rows), ops.iota(x.graph, size=columns)
    turns = to(ops.unsqueeze(row, dim=1) * column % period, "f64") / period
    angle = turns * (2 * math.pi)
    return to(ops.cos(angle), x.dtype), to(ops.sin(angle), x.dtype)


def along(dim, x, matrix):
    """Multiplies by a matrix along a dimension."""
    return ops.movedim(ops.movedim(x, source=dim, destination=-1) @ matrix, source=-1, destination=dim)


def transform(parts, dim, sign):
    real, imaginary = parts
    size = real.shape[dim]
    cos, sin = roots(real, size, size, size)
    sin = sin * sign
    return (
        along(dim, real, cos) - along(dim, imaginary, sin),
        along(dim, real, sin) + along(dim, imaginary, cos),
    )


def normalized(x, sizes, normalization):
    if normalization == 0:
        return x
    count = ops.full(x.graph, value=math.prod(sizes), shape=[], dtype=x.dtype)
    return x * ops.rsqrt(count) if normalization == 1 else x / count


def fft_r2c(x, dim, normalization, onesided):
    *others, last = dim
    size = x.shape[last]
    cos, sin = roots(x, size, size // 2 + 1 if onesided else size, size)
    parts = along(last, x, cos), along(last, x, -sin)
    for other in others:
        parts = transform(parts, other, -1)
    return normalized(ops.stack(parts, dim=-1), [x.shape[d] for d in dim], normalization)


def fft_c2r(x, dim, normalization, last_dim_size):
    """The other half of the last dimension is the conjugate: each of its elements counts twice, but for the middle."""
    *others, last = dim
    parts = [ops.select(x, dim=-1, index=part) for part in (0, 1)]
    for other in others:
        parts = transform(parts, other, 1)
    real, imaginary = parts
    half = real.shape[last]
    cos, sin = roots(x, half, last_dim_size, last_dim_size)
    row = ops.unsqueeze(ops.iota(x.graph, size=half), dim=1)
    weight = ops.where(row * 2 % last_dim_size == 0, 1.0, ops.full(x.graph, value=2, shape=[], dtype=x.dtype))
    out = along(last, real, cos * weight) - along(last, imaginary, sin * weight)
    return normalized(out, [out.shape[d] for d in dim], normalization)


TABLE = {
    "aten._fft_c2r.default": fft_c2r,
    "aten._fft_r2c.default": fft_r2c,
}
