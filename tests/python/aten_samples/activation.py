"""Activations, and their backward overloads."""

import aten_calls
import torch
from core_aten_samples import F64, INF, NAN, call, f, i, unary

HALF = [call(f(9, dtype=torch.bfloat16)), call(f(2, 5, dtype=torch.float16))]
ALL = unary(others=[*HALF, call(f(9, dtype=F64))])
EDGES = torch.tensor([-6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 25.0, NAN])
DTYPES = (torch.float32, F64, torch.bfloat16)


def backward(*rest, **options):
    """Calls of (grad_output, self, *rest)."""
    pairs = [(f(3, 4, dtype=dtype), f(3, 4, dtype=dtype)) for dtype in DTYPES]
    pairs += [(f(11), EDGES), (f(), f()), (f(0, 2), f(0, 2))]
    return [call(g, x, *rest, **options) for g, x in pairs]


def elu_backward(*scales):
    return [call(g, *scales, True, y) for (g, y), _ in backward()] + [
        call(g, *scales, False, x) for (g, x), _ in backward()
    ]


def log_sigmoid_backward(g, x):
    return call(g, x, torch.ops.aten.log_sigmoid_forward(x)[1])


RANDOM_SLOPES = (0.25, 0.5)

SAMPLES = {
    "aten._prelu_kernel.default": [call(f(3, 4), f(1)), call(f(2, 3), f(2, 1)), call(EDGES, f(1))],
    "aten._prelu_kernel_backward.default": [call(f(3, 4), f(3, 4), f(3, 4)), call(f(3), f(3), f(3))],
    "aten.celu.default": [*ALL, call(f(9), 0.5)],
    "aten.elu_backward.default": elu_backward(1, 1, 1) + elu_backward(1.5, 2.0, 0.25),
    "aten.gelu_backward.default": backward() + backward(approximate="tanh"),
    "aten.glu.default": [call(f(3, 4)), call(f(4, 3), 0), call(f(2, 6, 3), 1), call(f(4, dtype=F64))],
    "aten.glu_backward.default": [call(f(3, 2), f(3, 4), -1), call(f(2, 3), f(4, 3), 0), call(f(2), f(4), 0)],
    "aten.hardshrink.default": [*ALL, call(EDGES), call(f(9), 1.0)],
    "aten.hardshrink_backward.default": backward(0.5) + backward(1.0),
    "aten.hardsigmoid.default": [*ALL, call(EDGES)],
    "aten.hardsigmoid_backward.default": backward(),
    "aten.hardswish.default": [*ALL, call(EDGES)],
    "aten.hardswish_backward.default": backward(),
    "aten.hardtanh_backward.default": backward(-1, 1) + backward(0.0, 6.0),
    "aten.leaky_relu_backward.default": backward(0.01, False) + backward(0.2, True),
    "aten.log_sigmoid.default": ALL,
    "aten.log_sigmoid_backward.default": [log_sigmoid_backward(g, x) for (g, x), _ in backward()],
    "aten.log_sigmoid_forward.default": [call(f(3, 4)), call(f()), call(EDGES), call(f(3, dtype=F64))],
    "aten.logit_backward.default": [
        call(f(9), f(9, low=0.1, high=0.9)),
        call(f(9), f(9, low=-0.5, high=1.5)),
        call(f(9), f(9, low=-0.5, high=1.5), 0.1),
        call(f(3, dtype=F64), f(3, low=0.1, high=0.9, dtype=F64), 1e-3),
    ],
    "aten.mish.default": ALL,
    "aten.mish_backward.default": backward(),
    "aten.prelu.default": [call(f(3, 4), f(4)), call(f(2, 3, 4), f(3)), call(f(5), f(1)), call(f(3, 4), f(1))],
    "aten.relu6.default": [*ALL, call(EDGES), call(i(20))],
    "aten.rrelu.default": [call(f(3, 4)), call(f(9), 0.1, 0.3), call(f(40, 50), *RANDOM_SLOPES, True)],
    "aten.rrelu_with_noise.default": [
        call(f(3, 4), torch.zeros(3, 4), *RANDOM_SLOPES, False),
        call(f(40, 50), torch.zeros(40, 50), *RANDOM_SLOPES, True),
    ],
    "aten.rrelu_with_noise_backward.default": [
        *backward(f(1), *RANDOM_SLOPES, False, False),
        call(f(3, 4), f(3, 4), f(3, 4), *RANDOM_SLOPES, True, False),
    ],
    "aten.rrelu_with_noise_functional.default": [
        call(f(3, 4), torch.zeros(3, 4), *RANDOM_SLOPES, False),
        call(f(40, 50), torch.zeros(40, 50), *RANDOM_SLOPES, True),
    ],
    "aten.selu.default": ALL,
    "aten.sigmoid_backward.default": backward(),
    "aten.silu.default": ALL,
    "aten.silu_backward.default": backward(),
    "aten.softplus.default": [*ALL, call(EDGES), call(f(9), 2, 5), call(f(9), 0.5, 1.5)],
    "aten.softplus_backward.default": backward(1, 20) + backward(2.0, 1.5),
    "aten.softshrink.default": [*ALL, call(EDGES), call(f(9), 1.0)],
    "aten.softshrink_backward.default": backward(0.5) + backward(1.0),
    "aten.tanh_backward.default": backward(),
    "aten.threshold.default": [*(call(*args, 0.5, 2.0) for args, _ in ALL), call(EDGES, 1, -INF), call(i(20), 2, 7)],
    "aten.threshold_backward.default": backward(0) + backward(0.5),
}


def is_leaky(x, slopes):
    """Where x is negative, the slopes are in a range, and not all the same."""
    negative = slopes[x <= 0]
    low, high = RANDOM_SLOPES
    return negative.min() >= low and negative.max() <= high and abs(negative.mean() - (low + high) / 2) < 0.02


def is_rrelu(out, x, lower=1 / 8, upper=1 / 3, training=False):
    assert torch.equal(out[x > 0], x[x > 0])
    return is_leaky(x, out / x) if training else torch.allclose(out, torch.nn.functional.rrelu(x, lower, upper))


def is_rrelu_with_noise(out, noise, x, old_noise, lower, upper, training):
    if not training:
        return is_rrelu(out, x, lower, upper) and torch.equal(noise, old_noise)
    return torch.allclose(out, x * noise) and bool((noise[x > 0] == 1).all()) and is_leaky(x, noise)


CHECKS = {
    "aten.rrelu.default": aten_calls.random(is_rrelu),
    "aten.rrelu_with_noise.default": aten_calls.random(is_rrelu_with_noise),
    "aten.rrelu_with_noise_functional.default": aten_calls.random(is_rrelu_with_noise),
}

STATIC = {
    "aten.glu.default": "the halves need an even size",
    "aten.glu_backward.default": "the halves need an even size",
}
