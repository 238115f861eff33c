"""Random numbers: judged by what is known of their distributions."""

import functools
import math

import torch
from aten_calls import is_normal, is_permutation, is_uniform, random
from core_aten_samples import BOOL, F32, F64, I32, I64, b, call, f, i

GENERATOR = torch.Generator().manual_seed(5)
X = torch.zeros(40, 50)
SIZES = [call([40, 50]), call([2000], dtype=F64), call([0, 2])]
LIKE = [call(X), call(X.double()), call(X, dtype=F64), call(torch.zeros(0, 2))]


def drawn_by(calls):
    return [call(*args, generator=GENERATOR, **kwargs) for args, kwargs in calls]


SAMPLES = {
    "aten.alpha_dropout.default": [call(f(40, 50), 0.25, True), call(f(3, 4), 0.5, False), call(f(3, 4), 0.0, True)],
    "aten.bernoulli.Tensor": [
        call(X, torch.tensor(0.25)),
        call(X, torch.full([50], 0.7)),
        call(i(40, 50), torch.tensor(0.3)),
    ],
    "aten.bernoulli.default": [
        call(torch.full([40, 50], 0.25)),
        call(torch.full([2000], 0.7, dtype=F64)),
        call(torch.ones(3)),
    ],
    "aten.bernoulli.p": [call(X, 0.25), call(i(40, 50), 0.3)],
    "aten.bernoulli_.float": [call(X), call(X, 0.25), call(torch.zeros(2000, dtype=BOOL), 0.7)],
    "aten.cauchy.default": [call(X), call(X, 2.0, 0.5), call(torch.zeros(0))],
    "aten.dropout.default": [
        call(f(40, 50), 0.25, True),
        call(f(3, 4), 0.5, False),
        call(f(3, 4), 0.0, True),
        call(f(3), 1.0, True),
    ],
    "aten.exponential.default": [call(X), call(X.double(), 2.5), call(torch.zeros(0))],
    "aten.feature_alpha_dropout.default": [call(f(40, 50, 2), 0.25, True), call(f(3, 4), 0.5, False)],
    "aten.feature_dropout.default": [
        call(f(40, 50, 2), 0.25, True),
        call(f(3, 4), 0.5, False),
        call(f(3, 4), 1.0, True),
    ],
    "aten.geometric.default": [call(X, 0.25), call(torch.zeros(2000, dtype=I64), 0.5)],
    "aten.log_normal.default": [call(X, 0.5, 0.25), call(X.double())],
    "aten.multinomial.default": [
        call(torch.tensor([[0.2, 0.0, 0.8], [3.0, 1.0, 0.0]]), 1000, True),
        call(torch.tensor([[0.5, 0.0, 0.25, 0.25]] * 20), 2),
        call(torch.rand(20, generator=GENERATOR), 20),
        call(torch.rand(4, 20, generator=GENERATOR, dtype=F64), 5),
    ],
    "aten.native_dropout_backward.default": [call(f(3, 4), b(3, 4), 2.0), call(f(9, dtype=F64), b(9), 1.25)],
    "aten.normal.Tensor_Tensor": [call(X, torch.ones(50)), call(X.double() + 3, torch.full([1], 0.5, dtype=F64))],
    "aten.normal.Tensor_float": [call(X), call(X + 3, 0.5)],
    "aten.normal.float_Tensor": [call(0.0, X + 1), call(3.0, X + 0.5)],
    "aten.normal.float_float": [call(0.0, 1.0, [40, 50]), call(3, 0.5, [2000], dtype=F64)],
    "aten.normal_.default": [call(X), call(X, 3.0, 0.5), call(X.double(), 1.0)],
    "aten.normal_functional.default": [call(X), call(X, 3.0, 0.5), call(X.double(), 1.0)],
    "aten.rand.generator": drawn_by(SIZES),
    "aten.rand_like.default": LIKE,
    "aten.rand_like.generator": drawn_by(LIKE),
    "aten.randint.default": [call(7, [2000]), call(3, [40, 50], dtype=F32)],
    "aten.randint.generator": drawn_by([call(7, [2000]), call(3, [40, 50], dtype=I32)]),
    "aten.randint.low": [call(-3, 7, [2000]), call(2, 5, [40, 50], dtype=F32)],
    "aten.randint.low_generator": drawn_by([call(-3, 7, [2000]), call(2, 5, [40, 50], dtype=I32)]),
    "aten.randint_like.default": [call(X, 7), call(X, 3, dtype=I64)],
    "aten.randint_like.generator": drawn_by([call(X, 7), call(X, 3, dtype=I64)]),
    "aten.randint_like.low_dtype": [call(X, -3, 7), call(X, 2, 5, dtype=I64)],
    "aten.randint_like.low_generator_dtype": drawn_by([call(X, -3, 7), call(X, 2, 5, dtype=I64)]),
    "aten.randn.generator": drawn_by(SIZES),
    "aten.randn_like.default": LIKE,
    "aten.randn_like.generator": drawn_by(LIKE),
    "aten.random.default": [call(torch.zeros(2000, dtype=I32)), call(X), call(torch.zeros(2000, dtype=BOOL))],
    "aten.random.from": [call(X, 3, 9), call(torch.zeros(2000, dtype=I64), -4, 4)],
    "aten.random.to": [call(X, 9), call(torch.zeros(2000, dtype=I64), 4)],
    "aten.randperm.generator": drawn_by([call(20), call(50, dtype=I32), call(1)]),
    "aten.uniform.default": [call(X), call(X, -2.0, 6.0), call(X.double(), 1.0, 2.0)],
}


def has_moments(mean, deviation, x):
    """Of a few thousand numbers, within five standard errors."""
    return x.numel() == 0 or (
        abs(x.double().mean() - mean) < 5 * deviation / math.sqrt(x.numel())
        and abs(x.double().std() - deviation) < 0.15 * deviation
    )


def is_scaled_normal(x, like, mean=0.0, std=1.0, **_):
    return has_moments(mean, std, x)


def is_normal_of(x, mean, std=1.0, *_, **__):
    z = (x - mean) / std
    return has_moments(0, 1, z)


def is_between(low, high, x):
    return x.min() >= low and x.max() < high and has_moments((low + high) / 2, (high - low) / math.sqrt(12), x)


def are_integers(x, low, high):
    count = high - low
    return set(x.flatten().tolist()) == set(range(low, high)) and has_moments(
        (low + high - 1) / 2, math.sqrt((count * count - 1) / 12), x
    )


def is_bernoulli(x, p):
    p = float(p) if not isinstance(p, torch.Tensor) else float(p.flatten()[0])
    return set(x.unique().tolist()) <= {0, 1} and abs(x.double().mean() - p) < 0.05


def is_any_integer(x, like, **_):
    if x.dtype == BOOL:
        return is_bernoulli(x, 0.5)
    end = 2.0 ** (31 if x.dtype == I32 else 24)
    return is_between(0, end, x)


def is_exponential(x, like, lambd=1.0, **_):
    return x.numel() == 0 or (x.min() >= 0 and has_moments(1 / lambd, 1 / lambd, x))


def is_geometric(x, like, p, **_):
    return x.min() >= 1 and has_moments(1 / p, math.sqrt(1 - p) / p, x)


def is_cauchy(x, like, median=0.0, sigma=1.0, **_):
    quartiles = torch.quantile(x, torch.tensor([0.25, 0.5, 0.75])) if x.numel() else None
    expected = torch.tensor([median - sigma, median, median + sigma])
    return quartiles is None or torch.allclose(quartiles, expected, atol=0.15 * sigma)


def is_log_normal(x, like, mean=1.0, std=2.0, **_):
    return has_moments(mean, std, x.log())


def is_dropped(per_feature, out, x, p, train):
    """Some are zero, the others scaled."""
    if not train or p == 0:
        return torch.equal(out, x)
    if p == 1:
        return not out.any()
    kept = out != 0
    if per_feature:
        assert torch.equal(kept, kept[..., :1].expand_as(kept))
    return torch.allclose(out, x * kept / (1 - p)) and abs(kept.float().mean() - (1 - p)) < 0.05


def is_alpha_dropped(out, x, p, train):
    """Where x is kept, an affine function of it; elsewhere one number."""
    if not train or p == 0:
        return torch.equal(out, x)
    lowest = -1.7580993408473766
    a = 1 / math.sqrt((lowest * lowest * p + 1) * (1 - p))
    shift = -a * lowest * p
    kept = torch.isclose(out, a * x + shift, atol=1e-5)
    dropped = torch.isclose(out, torch.tensor(a * lowest + shift))
    return bool((kept | dropped).all()) and abs(kept.float().mean() - (1 - p)) < 0.05


def are_choices(x, weights, count, replacement=False, **_):
    rows = zip(x.reshape(-1, count), weights.reshape(-1, weights.shape[-1]), strict=True)
    return all(is_choice(row, weight / weight.sum(), replacement) for row, weight in rows)


def is_choice(row, share, replacement):
    assert not (share[row] == 0).any()
    if not replacement:
        return len(set(row.tolist())) == len(row)
    return torch.allclose(torch.bincount(row, minlength=len(share)) / len(row), share.float(), atol=0.05)


def like(is_plausible):
    return lambda x, like, **_: is_plausible(x, None)


CHECKS = {
    "aten.alpha_dropout.default": is_alpha_dropped,
    "aten.bernoulli.Tensor": lambda x, like, p, **_: is_bernoulli(x, p),
    "aten.bernoulli.default": lambda x, p, **_: is_bernoulli(x, p),
    "aten.bernoulli.p": lambda x, like, p, **_: is_bernoulli(x, p),
    "aten.bernoulli_.float": lambda x, like, p=0.5, **_: is_bernoulli(x, p),
    "aten.cauchy.default": is_cauchy,
    "aten.dropout.default": functools.partial(is_dropped, False),
    "aten.exponential.default": is_exponential,
    "aten.feature_alpha_dropout.default": is_alpha_dropped,
    "aten.feature_dropout.default": functools.partial(is_dropped, True),
    "aten.geometric.default": is_geometric,
    "aten.log_normal.default": is_log_normal,
    "aten.multinomial.default": are_choices,
    "aten.normal.Tensor_Tensor": is_normal_of,
    "aten.normal.Tensor_float": is_normal_of,
    "aten.normal.float_Tensor": is_normal_of,
    "aten.normal.float_float": is_normal_of,
    "aten.normal_.default": is_scaled_normal,
    "aten.normal_functional.default": is_scaled_normal,
    "aten.rand.generator": is_uniform,
    "aten.rand_like.default": like(is_uniform),
    "aten.rand_like.generator": like(is_uniform),
    "aten.randint.default": lambda x, high, size, **_: are_integers(x, 0, high),
    "aten.randint.generator": lambda x, high, size, **_: are_integers(x, 0, high),
    "aten.randint.low": lambda x, low, high, size, **_: are_integers(x, low, high),
    "aten.randint.low_generator": lambda x, low, high, size, **_: are_integers(x, low, high),
    "aten.randint_like.default": lambda x, like, high, **_: are_integers(x, 0, high),
    "aten.randint_like.generator": lambda x, like, high, **_: are_integers(x, 0, high),
    "aten.randint_like.low_dtype": lambda x, like, low, high, **_: are_integers(x, low, high),
    "aten.randint_like.low_generator_dtype": lambda x, like, low, high, **_: are_integers(x, low, high),
    "aten.randn.generator": is_normal,
    "aten.randn_like.default": like(is_normal),
    "aten.randn_like.generator": like(is_normal),
    "aten.random.default": is_any_integer,
    "aten.random.from": lambda x, like, low, high, **_: are_integers(x, low, high),
    "aten.random.to": lambda x, like, high, **_: are_integers(x, 0, high),
    "aten.randperm.generator": is_permutation,
    "aten.uniform.default": lambda x, like, low=0.0, high=1.0, **_: is_between(low, high, x),
}
CHECKS = {name: random(is_plausible) for name, is_plausible in CHECKS.items()}
