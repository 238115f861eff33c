"""Judges the results of a model by those of eager PyTorch, and tells rounding from an error.

Results that `torch.testing.assert_close` accepts are right. Others are compared with eager PyTorch in double precision:
they may be twice as far from it as eager's are. Results that are farther are rounding only if both hold:

- Eager's own results are as far off after its weights and inputs change by one rounding error. A relu whose argument is
  within rounding of 0 is such a case: its gradient is 0 or 1 by luck. That argument is a sum, and rounding may move it
  further than a change of the weights does: eager also runs with arguments of relus and their kin that are off by a few
  rounding errors of the largest of them.
- In double precision, where rounding is too small to matter, the results agree with eager's. A wrong formula is wrong
  in double precision too, so this test finds it however much the model amplifies rounding.

Some models cannot run in double precision: they make tensors of f32 themselves, have no kernel for doubles, or give NaN
where they give numbers otherwise. A model in bf16 or f16 is then compared with its own weights in f32, whose rounding
errors are at most 2^-13 of its own. Such models amplify rounding more often: two scores of a router that differ by 1e-6
are equal in bf16, and the choice between these experts is luck.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from .making import Inputs, Made, first_line

Results = dict[str, torch.Tensor]
Way = Callable[[Made], Results]  # a way to run a model

PERTURBED_RUNS = 8
FINER_TOLERANCE = 1e-4  # of the size of a result. Parts of many models compute in f32 whatever the weights' dtype.
FINER_FLOOR = 1e-9  # for results that are 0 but for rounding


class DiffersError(Exception):
    """Says which result is wrong, and how far off it is."""


def judge(made: Made, way: Way, eager: Way, is_random: bool = False) -> None:
    """Raises a DiffersError unless `way` gives what `eager` gives. Of random results only the types are compared."""
    actual, expected = way(made), eager(made)
    _assert_same_types(actual, expected)
    far = [] if is_random else [name for name in actual if not _is_close(actual[name], expected[name])]
    if not far:
        return
    reasons: list[str] = []  # why a finer precision cannot judge
    finest = next(_finer(made, eager, expected, reasons), None)
    if finest is None:
        distance = Distance.between(actual[far[0]], expected[far[0]])
        raise DiffersError("; ".join([f"{far[0]}: differs from eager by {distance}", *reasons]))
    far = [name for name in far if not _is_as_good(actual, [expected], finest.exact, name)]
    if not far:
        return
    noisy = [eager(perturbed(made, seed)) for seed in range(PERTURBED_RUNS)]
    if not all(_is_as_good(actual, [expected, *noisy], finest.exact, name) for name in far):
        noisy += [eager_with_noise(made, eager, seed) for seed in range(PERTURBED_RUNS)]
    for name in far:
        if not _is_as_good(actual, [expected, *noisy], finest.exact, name):
            raise DiffersError(_difference(name, actual, expected, finest))
    reasons = []
    for finer in _finer(made, eager, expected, reasons):
        try:
            results = way(finer.made)
        except Exception as error:
            reasons.append(f"no {finer.name}: {first_line(error)}")
        else:
            _assert_right(results, finer)
            return
    raise DiffersError("; ".join([_difference(far[0], actual, expected, finest), *reasons]))


# ---- the same model in a finer precision ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Finer:
    name: str  # of the precision
    made: Made
    exact: Results  # eager's


def _finer(made: Made, eager: Way, expected: Results, reasons: list[str]) -> Iterator[Finer]:
    """The model in each precision that eager can run it in, the finest first. Adds why the others cannot judge."""
    precisions = [("double precision", in_double)]
    if _rounding(made) > torch.finfo(torch.float32).eps:
        precisions.append(("f32", lambda made: in_dtype(made, torch.float32)))
    for name, convert in precisions:
        finer = convert(made)
        try:
            exact = eager(finer)
        except Exception as error:
            reasons.append(f"no {name}: {first_line(error)}")
            continue
        lost = [name for name, value in expected.items() if _is_lost(exact[name], value)]
        if lost:
            reasons.append(f"no {name}: {lost[0]} of eager is not finite")
        else:
            yield Finer(name, finer, exact)


def _is_lost(fine: torch.Tensor, coarse: torch.Tensor) -> bool:
    """Whether a finer result has no number where the coarse one has."""
    return fine.shape == coarse.shape and bool((coarse.isfinite() & ~fine.isfinite()).any())


def _rounding(made: Made) -> float:
    """The rounding error of the coarsest weights."""
    floats = (weight.dtype for weight in made.module.parameters() if weight.is_floating_point())
    return max((torch.finfo(dtype).eps for dtype in floats), default=0.0)


# ---- the same model with other numbers ------------------------------------------------------------------------------


def in_double(made: Made) -> Made:
    made = in_dtype(made, torch.float64)
    if hasattr(made.module, "config"):
        made.module.config._experts_implementation = "eager"  # the default one has no kernel for doubles
    return made


def in_dtype(made: Made, dtype: torch.dtype) -> Made:
    return _with(made, copy.deepcopy(made.module).to(dtype), lambda tensor: tensor.to(dtype))


def perturbed(made: Made, seed: int) -> Made:
    """Changes every weight and input by at most one rounding error. Buffers stay: they may hold positions."""
    generator = torch.Generator().manual_seed(seed)

    def perturb(tensor: torch.Tensor) -> torch.Tensor:
        noise = 2 * torch.rand(tensor.shape, generator=generator, dtype=torch.float64) - 1
        return (tensor.double() * (1 + torch.finfo(tensor.dtype).eps * noise)).to(tensor.dtype)

    module = copy.deepcopy(made.module)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point():
                parameter.copy_(perturb(parameter))
    return _with(made, module, perturb)


# Functions of torch.nn.functional whose gradient jumps: where their argument is 0, say, or where two of a window are
# equal.
_KINKED = ("relu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu", "max_pool1d", "max_pool2d")
_NOISE = 8  # rounding errors of the largest argument


def eager_with_noise(made: Made, eager: Way, seed: int) -> Results:
    """Eager PyTorch, with noise in the arguments of functions that have kinks."""
    generator = torch.Generator().manual_seed(seed)

    def noisy(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            noise = 2 * torch.rand(x.shape, generator=generator, dtype=x.dtype) - 1
            size = x.detach().abs().max() if x.numel() else 0.0
            return function(x + _NOISE * torch.finfo(x.dtype).eps * size * noise, *args, **kwargs)

        return call

    with contextlib.ExitStack() as stack:
        for owner, name in [(torch.nn.functional, name) for name in _KINKED] + [(torch, "relu")]:
            stack.enter_context(mock.patch.object(owner, name, noisy(getattr(owner, name))))
        return eager(made)


def _with(made: Made, module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> Made:
    """With another module, and floating-point inputs that are changed."""

    def recipe(batch: int, length: int) -> Inputs:
        inputs = made.recipe(batch, length)
        return {name: change(value) if value.is_floating_point() else value for name, value in inputs.items()}

    return dataclasses.replace(made, module=module, recipe=recipe)


# ---- comparison -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Distance:
    """How far a tensor is from another: one element alone may be far off by bad luck, so the mean counts, too."""

    largest: float
    mean: float  # the root of the mean square

    @staticmethod
    def between(a: torch.Tensor, b: torch.Tensor) -> Distance:
        """It is 0 where both are the same infinity, or not a number."""
        if a.shape != b.shape:
            return Distance(float("inf"), float("inf"))
        wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
        a, b = a.to(wide), b.to(wide)
        if not torch.equal(a.isnan(), b.isnan()):
            return Distance(float("inf"), float("inf"))
        return Distance._of(torch.where((a == b) | a.isnan(), 0.0, (a - b).abs()))

    @staticmethod
    def from_zero(a: torch.Tensor) -> Distance:
        return Distance._of(a.detach().abs().double().nan_to_num(0.0, 0.0, 0.0))

    @staticmethod
    def _of(a: torch.Tensor) -> Distance:
        return Distance(a.max().item(), a.pow(2).mean().sqrt().item()) if a.numel() else Distance(0.0, 0.0)

    def __str__(self) -> str:
        return f"{self.largest:.2g}"


def _assert_same_types(actual: Results, expected: Results) -> None:
    if actual.keys() != expected.keys():
        raise DiffersError(f"only one has {sorted(expected.keys() ^ actual.keys())[:3]}")
    for name, mine in actual.items():
        theirs = expected[name]
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise DiffersError(f"{name}: {mine.dtype}{list(mine.shape)}, eager {theirs.dtype}{list(theirs.shape)}")


def _is_close(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(mine, theirs, equal_nan=True)
    except AssertionError:
        return False
    return True


def _is_as_good(actual: Results, eagers: list[Results], exact: Results, name: str) -> bool:
    """Twice as far from the exact result as eager's is fine, and a rounding error more."""
    mine, right = actual[name], exact[name]
    rounding = torch.finfo(mine.dtype).eps if mine.is_floating_point() else 0.0
    error, size = Distance.between(mine, right), Distance.from_zero(right)
    own = [Distance.between(eager[name], right) for eager in eagers]
    return error.mean < float("inf") and (
        error.largest <= 2 * max(distance.largest for distance in own) + rounding * size.largest
        or error.mean <= 2 * max(distance.mean for distance in own) + rounding * size.mean
    )


def _assert_right(actual: Results, finer: Finer) -> None:
    _assert_same_types(actual, finer.exact)
    for name, right in finer.exact.items():
        error, size = Distance.between(actual[name], right), Distance.from_zero(right)
        if not error.mean <= FINER_TOLERANCE * size.mean + FINER_FLOOR:
            raise DiffersError(f"{name}: in {finer.name} differs from eager by {error} of {size}")


def _difference(name: str, actual: Results, expected: Results, finer: Finer) -> str:
    mine, theirs = (Distance.between(results[name], finer.exact[name]) for results in (actual, expected))
    return f"{name}: is {mine} from {finer.name}, eager is {theirs}"
