"""Random PyTorch functions: views, writes in place, complex numbers, constants, random numbers, empty and 0-d tensors.

    program = RandomProgram(seed)
    program(*program.inputs())      # tensors

A program is a list of steps over a growing list of tensors. Each step was tried in eager mode when the program was
made, so every program runs, and its gradients exist. Steps whose results could flip by rounding (a comparison, a
conversion to integers) see numbers of one decimal.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Step = Callable[[list[torch.Tensor]], Any]

FLOATS = [torch.float32, torch.float32, torch.float32, torch.float64]
SHAPES = [(3, 4), (3, 4), (4,), (2, 3, 4), (4, 4), (), (1, 4), (3, 1), (0, 4), (2, 0), (5,), (1,), (2, 2, 2, 3)]


@dataclass
class Choice:
    """A step and how many tensors it adds."""

    step: Step
    adds: int


class RandomProgram:
    def __init__(self, seed: int, length: int = 10) -> None:
        self.seed = seed
        self._random = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self._inputs = [self._input(generator) for _ in range(self._random.randint(1, 3))]
        self._steps: list[Step] = []
        self._results: list[int] = []
        self.text: list[str] = []
        self._make(length)

    def inputs(self) -> list[torch.Tensor]:
        """Fresh ones with the same values. Those of a floating dtype want a gradient."""
        return [value.clone().requires_grad_(value.is_floating_point() or value.is_complex()) for value in self._inputs]

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pool = [value * 1 for value in inputs]  # a leaf cannot be written in place
        for step in self._steps:
            added = step(pool)
            pool.extend(added if isinstance(added, (tuple, list)) else [added])
        return tuple(pool[index] for index in self._results)

    # -- making one --

    def _input(self, generator: torch.Generator) -> torch.Tensor:
        shape = self._random.choice(SHAPES)
        if self._random.random() < 0.15:
            return torch.randint(-3, 4, shape, generator=generator)
        if self._random.random() < 0.15:
            return torch.randn(shape, dtype=torch.complex64, generator=generator)
        return torch.randn(shape, dtype=self._random.choice(FLOATS), generator=generator)

    def _make(self, length: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(20 * length):
                if len(self._steps) == length:
                    break
                self._try(self._random.choice(KINDS))
        if not self._results:
            self._results = [self._size() - 1]

    def _try(self, kind: Callable[..., tuple[str, Step] | None]) -> None:
        pool = self._pool()
        made = kind(self._random, pool)
        if made is None:
            return
        name, step = made
        self._steps.append(step)
        before = self._results
        self._results = self._chosen_results(len(before))
        if self._runs():
            self.text.append(name)
        else:
            self._steps.pop()
            self._results = before

    def _chosen_results(self, _: int) -> list[int]:
        size = self._size()
        if size is None:
            return []
        count = self._random.randint(1, 3)
        return sorted({size - 1, *(self._random.randrange(size) for _ in range(count))})

    def _size(self) -> int | None:
        try:
            return len(self._pool())
        except Exception:
            return None

    def _pool(self) -> list[torch.Tensor]:
        pool = [value * 1 for value in self.inputs()]
        for step in self._steps:
            added = step(pool)
            pool.extend(added if isinstance(added, (tuple, list)) else [added])
        return pool

    def _runs(self) -> bool:
        try:
            results = self(*(inputs := self.inputs()))
            gradients_of(results, inputs)
        except Exception:
            return False
        return all(_is_small(value) for value in results) and sum(value.numel() for value in results) < 100_000


def _is_small(value: torch.Tensor) -> bool:
    """So that errors of rounding stay errors of rounding."""
    if not isinstance(value, torch.Tensor):
        return False
    known = value.detach().to(torch.complex128) if value.is_complex() else value.detach().double()
    return bool((known.abs() < 1e4).all())


def gradients_of(results: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Of a sum over all results that have any."""
    total: Any = 0
    for index, value in enumerate(results):
        if value.requires_grad:
            value = value.real.sum() + value.imag.sum() if value.is_complex() else value.sum()
            total = total + value.double() * (index + 1)
    wanted = [value for value in inputs if value.requires_grad]
    if not isinstance(total, torch.Tensor) or not wanted:
        return []
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


# ---- kinds of steps: from a pool of tensors to a step, or None where none of them fits -------------------------------


def _pick(rng: random.Random, pool: list[torch.Tensor], wanted: Callable[[torch.Tensor], bool]) -> int | None:
    fitting = [index for index, value in enumerate(pool) if wanted(value)]
    return rng.choice(fitting) if fitting else None


def _anything(_: torch.Tensor) -> bool:
    return True


def _is_real(value: torch.Tensor) -> bool:
    return value.is_floating_point()


def _is_number(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _coarse(value: torch.Tensor) -> torch.Tensor:
    """Rounded, so that every backend compares the same numbers."""
    return torch.round(value.detach() * 10 + 0.25) / 10 if value.is_floating_point() else value


UNARY = [torch.sin, torch.tanh, torch.sigmoid, torch.neg, torch.square, lambda x: x * 0.5 + 1, torch.exp, torch.cos]
REAL = [
    F.relu,
    F.gelu,
    torch.abs,
    F.silu,
    torch.erf,
    lambda x: x.clamp(-1, 1),
    F.softplus,
    lambda x: torch.sqrt(x.abs() + 1),
]


def unary(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a = _pick(rng, pool, _is_number)
    if a is None:
        return None
    function = rng.choice(UNARY + (REAL if _is_real(pool[a]) else []))
    return f"unary {a}", lambda values: function(values[a] * 0.5)


def binary(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a, b = _pick(rng, pool, _anything), _pick(rng, pool, _anything)
    function = rng.choice(
        [torch.add, torch.mul, torch.sub, torch.minimum, torch.maximum, lambda x, y: x / (y * y.conj() + 1)]
    )
    return f"binary {a} {b}", lambda values: function(values[a], values[b])


def product(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a, b = (
        _pick(rng, pool, lambda x: _is_number(x) and x.dim() > 0),
        _pick(rng, pool, lambda x: _is_number(x) and x.dim() > 0),
    )
    if a is None or b is None:
        return None
    transposed = rng.random() < 0.7
    return (
        f"matmul {a} {b}",
        lambda values: values[a] @ (values[b].mT if transposed and values[b].dim() > 1 else values[b]),
    )


def reduction(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a = _pick(rng, pool, _is_number)
    if a is None:
        return None
    keep = rng.random() < 0.4
    dim = rng.randrange(-pool[a].dim(), pool[a].dim()) if pool[a].dim() and rng.random() < 0.7 else None
    names = ["sum", "mean", "prod"] + (["amax", "logsumexp", "var", "std", "norm"] if _is_real(pool[a]) else [])
    name = rng.choice(names)

    def run(values: list[torch.Tensor]) -> torch.Tensor:
        function = getattr(values[a], name)
        if dim is None:
            return function() if name != "logsumexp" else function(list(range(values[a].dim())))
        if name == "norm":
            return (values[a] + 0.1).norm(2, dim, keep)
        return function(dim, keepdim=keep)

    return f"{name} {a}", run


VIEWS: list[Callable[[random.Random, torch.Tensor], Callable[[torch.Tensor], Any]]] = [
    lambda rng, x: lambda v: v.mT if v.dim() > 1 else v.unsqueeze(0),
    lambda rng, x: lambda v: v.reshape(-1),
    lambda rng, x: lambda v: v.flatten(),
    lambda rng, x: (lambda dim: lambda v: v.unsqueeze(dim))(rng.randint(0, x.dim())),
    lambda rng, x: lambda v: v.squeeze(),
    lambda rng, x: (lambda start: lambda v: v[start:])(rng.randint(0, 2)),
    lambda rng, x: (lambda step: lambda v: v[..., ::step])(rng.randint(1, 3)),
    lambda rng, x: lambda v: v[0],
    lambda rng, x: lambda v: v.select(-1, v.shape[-1] - 1),
    lambda rng, x: lambda v: v.expand(2, *v.shape),
    lambda rng, x: (lambda order: lambda v: v.permute(order))(rng.sample(range(x.dim()), x.dim())),
    lambda rng, x: lambda v: v.diagonal(),
    lambda rng, x: lambda v: v.unfold(-1, 2, 1),
    lambda rng, x: lambda v: v.narrow(-1, 1, v.shape[-1] - 1),
    lambda rng, x: lambda v: v.chunk(2, -1),
    lambda rng, x: lambda v: v.view(v.shape[0], -1),
    lambda rng, x: lambda v: v.real if v.is_complex() else v.movedim(0, -1),
    lambda rng, x: lambda v: torch.view_as_real(v) if v.is_complex() else v.swapaxes(0, -1),
    lambda rng, x: lambda v: v.conj(),
    lambda rng, x: lambda v: v.as_strided((2,), (1,), v.storage_offset()),
]


def view(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a = _pick(rng, pool, _anything)
    function = rng.choice(VIEWS)(rng, pool[a])
    return f"view {a}", lambda values: function(values[a])


WRITES: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda x, y: x.add_(1),
    lambda x, y: x.mul_(0.5),
    lambda x, y: x.zero_(),
    lambda x, y: x.fill_(2),
    lambda x, y: x.add_(y),
    lambda x, y: x.copy_(y),
    lambda x, y: x.mul_(y),
    lambda x, y: x.relu_(),
    lambda x, y: x.tanh_(),
    lambda x, y: x.__setitem__(0, 5),
    lambda x, y: x.__setitem__((..., 0), 1.5),
    lambda x, y: x.__setitem__(slice(1, None), 0.25),
    lambda x, y: x.__setitem__(_coarse(x) > 0, 0),
    lambda x, y: x.__setitem__([0, -1], torch.tensor(3.0)),
    lambda x, y: x.mT.add_(2),
    lambda x, y: x[0].mul_(3),
    lambda x, y: x.masked_fill_(_coarse(x) < 0.5, -1),
    lambda x, y: x.clamp_(-1, 1),
    lambda x, y: x.unsqueeze_(0),
    lambda x, y: x.index_fill_(0, torch.tensor([0]), 4),
    lambda x, y: x.index_add_(0, torch.tensor([0, 0]), y[:2]),
    lambda x, y: x.exponential_().zero_(),
]


def write(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a, b = _pick(rng, pool, _anything), _pick(rng, pool, _anything)
    function = rng.choice(WRITES)

    def run(values: list[torch.Tensor]) -> list[torch.Tensor]:
        function(values[a], values[b])
        return []

    return f"write {a} {b}", run


CASTS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


def cast(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a, dtype = _pick(rng, pool, _anything), rng.choice(CASTS)
    if pool[a].is_complex() and not dtype.is_complex:
        return None
    if dtype.is_floating_point or dtype.is_complex:
        return f"cast {a} {dtype}", lambda values: values[a].to(dtype)
    return f"cast {a} {dtype}", lambda values: _coarse(values[a]).clamp(0, 100).to(dtype)


def comparison(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a = _pick(rng, pool, lambda x: not x.is_complex())
    if a is None:
        return None
    function = rng.choice([torch.gt, torch.le, torch.eq, torch.ne])
    return f"compare {a}", lambda values: function(_coarse(values[a]), 0.5)


def choice(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a, b = _pick(rng, pool, lambda x: not x.is_complex()), _pick(rng, pool, _anything)
    if a is None:
        return None
    return f"where {a} {b}", lambda values: torch.where(_coarse(values[a]) > 0, values[b], torch.tensor(0.5))


INDEXED: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x[[0, -1]],
    lambda x: x[..., [0, 0]],
    lambda x: x[torch.tensor([0, 0, 0])],
    lambda x: x.index_select(0, torch.tensor([0])),
    lambda x: x.gather(-1, torch.zeros(x.shape, dtype=torch.int64)),
    lambda x: x.flip(0),
    lambda x: x.roll(1, -1),
    lambda x: x.repeat(2, *[1] * (x.dim() - 1)),
    lambda x: torch.cat([x, x], -1),
    lambda x: torch.stack([x, x * 2]),
    lambda x: F.pad(x, (1, 2)),
    lambda x: x.tril() if x.dim() > 1 else x.cumsum(0),
    lambda x: x.cumsum(-1),
    lambda x: x.softmax(-1),
    lambda x: x.log_softmax(0),
    lambda x: F.layer_norm(x, x.shape[-1:]) if x.shape[-1] > 1 else x,
    lambda x: x.sort(-1).values,
    lambda x: x.topk(1, -1).values,
    lambda x: F.conv1d(x.reshape(1, 1, -1), torch.ones(1, 1, 2, dtype=x.dtype)),
    lambda x: F.max_pool1d(x.reshape(1, 1, -1), 2),
    lambda x: torch.einsum("i,j->ij", x.flatten()[:4], x.flatten()[:3]),
    lambda x: x.new_tensor([1.0, 2.0]) * x.sum(),
    lambda x: x.new_zeros(0, 3),
    lambda x: torch.arange(4, dtype=x.dtype) + x.mean(),
    lambda x: torch.full((2, 2), 3.0) * x.sum(),
    lambda x: torch.zeros(()) + x.amax(),
]


def indexed(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a = _pick(rng, pool, _is_real)
    function = rng.choice(INDEXED)
    return None if a is None else (f"index {a}", lambda values: function(values[a]))


COMPLEX: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x.abs() if x.is_complex() else torch.complex(x.float(), x.float()),
    lambda x: x * 1j,
    lambda x: x * torch.tensor(2 + 1j),
    lambda x: (x + 0.5).angle() if x.is_complex() else x.to(torch.complex64),
    lambda x: torch.fft.fft(x.float() if not x.is_complex() else x),
    lambda x: x.imag if x.is_complex() else x,
    lambda x: x.conj() * x,
]


def complex_numbers(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a = _pick(rng, pool, _is_number)
    function = rng.choice(COMPLEX)
    return None if a is None else (f"complex {a}", lambda values: function(values[a]))


# Whatever numbers they draw, what is made of them is known.
RANDOM: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x + torch.rand_like(x).ge(0),
    lambda x: F.dropout(x, 0.0, True) + F.dropout(x, 1.0, True),
    lambda x: x * torch.bernoulli(torch.ones(x.shape)),
    lambda x: x + torch.randint(3, 4, x.shape),
    lambda x: x + torch.randn(3).isfinite().sum(),
    lambda x: x + torch.randperm(4).sum(),
]


def random_numbers(rng: random.Random, pool: list[torch.Tensor]) -> tuple[str, Step] | None:
    a = _pick(rng, pool, _is_real)
    function = rng.choice(RANDOM)
    return None if a is None else (f"random {a}", lambda values: function(values[a]))


KINDS = [unary, unary, binary, binary, product, reduction, view, view, view, write, write, write]
KINDS += [cast, comparison, choice, indexed, indexed, indexed, complex_numbers, random_numbers]
