"""The judge of the zoo accepts rounding, however much a model amplifies it, and reports wrong gradients."""

import copy
from itertools import count

import pytest
import torch

from . import judging
from .judging import DiffersError, in_dtype, judge
from .making import Made
from .ways import Trained, gradients


class Wrong(torch.autograd.Function):
    """The identity, with a gradient that is off by a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Model(torch.nn.Module):
    """A sum of terms, each smooth, and optionally a relu after a sum that is 0 but for rounding."""

    def __init__(self, seed, has_kink):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.smooth = torch.nn.Parameter(torch.randn(16, generator=generator))
        terms = torch.randn(6, generator=generator)
        self.terms = torch.nn.Parameter(torch.cat([terms, -terms.sum(0, keepdim=True)]))
        self.has_kink, self.order, self.factor = has_kink, range(7), 1.0

    def forward(self, x):
        smooth = Wrong.apply(self.smooth, self.factor)
        result = torch.tanh(x * smooth)
        if not self.has_kink:
            return result
        total = torch.zeros_like(self.terms[0])
        for i in self.order:
            total = total + self.terms[i]
        return result + torch.sigmoid(1e6 * torch.relu(total))


def made(has_kink=True):
    models = (Model(seed, has_kink) for seed in count())
    found = (Made(model, lambda batch, length: {"x": torch.linspace(-1, 1, 16)}, (2, 12), False) for model in models)
    return next(one for one in found if not has_kink or is_at_its_kink(one))


def is_at_its_kink(found):
    """The relu gives 0, as it should, in eager PyTorch, and not after a sum in another order."""
    is_right = total(found.module) <= 0 and gradient(found) == 0
    return is_right and gradient(found, backwards=True) != 0


def gradient(found, backwards=False):
    return other_way(backwards=backwards)(found)["gradient of terms"][0]


def total(model):
    return model.terms.detach().double().sum()


eager = Trained().eager


def other_way(factor=1.0, backwards=True):
    """Eager PyTorch, but the sum is in another order, and a gradient is off by a factor."""

    def way(found):
        module = copy.deepcopy(found.module)
        module.factor = factor
        module.order = range(6, -1, -1) if backwards else module.order
        return gradients(module, module, found.inputs)

    return way


def test_rounding_at_a_kink_is_accepted():
    found = made()
    with pytest.raises(AssertionError):
        torch.testing.assert_close(other_way()(found), eager(found))
    judge(found, other_way(), eager)


@pytest.mark.parametrize("has_kink", [False, True])
@pytest.mark.parametrize("factor", [1.001, 0.999, -1.0, 0.0])
def test_a_wrong_gradient_is_reported(has_kink, factor):
    with pytest.raises(DiffersError, match="gradient of smooth"):
        judge(made(has_kink), other_way(factor), eager)


class Kinks(torch.nn.Module):
    """Relus of numbers, one of them so close to 0 that an error of 1e-6 has it on the other side."""

    def __init__(self, activation):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-2, 2, 8))
        with torch.no_grad():
            self.weight[3] = -5e-7
        self.activation, self.shift, self.factor = activation, 0.0, 1.0

    def forward(self, x):
        shift = self.shift if self.weight.dtype == torch.float32 else 0.0  # rounding: doubles have none
        return self.activation(Wrong.apply(self.weight, self.factor) + shift) * x + 1


def beside_kinks(shift=1e-6, factor=1.0):
    def way(found):
        module = copy.deepcopy(found.module)
        module.shift, module.factor = shift, factor
        return gradients(module, module, found.inputs)

    return way


def of_kinks(activation):
    return Made(Kinks(activation), lambda batch, length: {"x": torch.linspace(1, 2, 8)}, (2, 12), False)


@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu"])
def test_a_kink_that_no_perturbation_of_weights_reaches_is_accepted(name, monkeypatch):
    activation = lambda x: getattr(torch.nn.functional, name)(x)  # noqa: E731
    judge(of_kinks(activation), beside_kinks(), eager)
    monkeypatch.setattr(judging, "_NOISE", 0)
    with pytest.raises(DiffersError, match="gradient of weight"):
        judge(of_kinks(activation), beside_kinks(), eager)


def test_an_error_beside_kinks_is_reported():
    activation = lambda x: torch.nn.functional.relu(x)  # noqa: E731
    for way in (beside_kinks(factor=1.001), beside_kinks(shift=1e-3)):
        with pytest.raises(DiffersError, match=r"result 0|gradient of weight"):
            judge(of_kinks(activation), way, eager)


def test_a_model_without_kinks_has_no_such_excuse():
    step = lambda x: torch.sigmoid(x * 1e7)  # noqa: E731
    with pytest.raises(DiffersError, match="from double precision"):
        judge(of_kinks(step), beside_kinks(), eager)


def test_a_wrong_gradient_in_half_precision_is_reported():
    found = in_dtype(made(has_kink=False), torch.bfloat16)
    judge(found, other_way(), eager)
    with pytest.raises(DiffersError, match="gradient of smooth"):
        judge(found, other_way(1.1), eager)


def test_a_wrong_gradient_beyond_rounding_at_a_kink_is_reported():
    """One side of the kink has gradient 0, the other a gradient that rounding can give: twice that is wrong."""

    def way(found):
        results = other_way()(found)
        return results | {"gradient of terms": 3 * results["gradient of terms"]}

    with pytest.raises(DiffersError, match="gradient of terms"):
        judge(made(), way, eager)


def test_an_error_that_only_double_precision_shows_is_reported():
    """Where rounding decides the gradient, an error of 1e-3 is not seen in f32."""

    def way(found):
        results = other_way()(found)
        return results | {"gradient of terms": results["gradient of terms"] * 1.001 + 1e-3}

    with pytest.raises(DiffersError, match="gradient of terms: in double precision"):
        judge(made(), way, eager)


def test_a_model_without_double_precision_is_reported():
    def no_double(found):
        if found.module.smooth.dtype == torch.float64:
            raise RuntimeError("no doubles")
        return eager(found)

    with pytest.raises(DiffersError, match="no double precision: RuntimeError: no doubles"):
        judge(made(), other_way(), no_double)
    with pytest.raises(DiffersError, match="no double precision: RuntimeError: no doubles"):
        judge(made(), lambda found: no_double(found) | other_way()(found), eager)


class Routed(torch.nn.Module):
    """Two experts, and a router whose scores differ by 1e-5: in bf16 they are equal, and any choice is right."""

    def __init__(self):
        super().__init__()
        self.scores = torch.nn.Parameter(torch.tensor([[0.5, 0.5], [1e-3, 1.01e-3]]))
        self.experts = torch.nn.Parameter(torch.stack([torch.linspace(-1, 1, 16), torch.linspace(1, -1, 16)]))
        self.choose, self.factor, self.has_double = last_of_equals, 1.0, True

    def forward(self, x):
        if self.scores.dtype == torch.float64 and not self.has_double:
            raise RuntimeError("no doubles")
        scores = self.scores[0] + self.scores[1]
        return torch.tanh(x * self.factor * self.experts[self.choose(scores)])


def routed(dtype):
    model = Made(Routed(), lambda batch, length: {"x": torch.linspace(1, 2, 16)}, (2, 12), False)
    return model if dtype == torch.float32 else in_dtype(model, dtype)


def run_routed(choose=None, factor=1.0, has_double=True):
    def way(found):
        module = copy.deepcopy(found.module)
        module.choose, module.factor, module.has_double = choose or module.choose, factor, has_double
        return {"result 0": module(**found.inputs).detach()}

    return way


def first_of_equals(scores):
    return int(scores[1] > scores[0])


def last_of_equals(scores):
    return int(scores[1] >= scores[0])


@pytest.mark.parametrize("has_double", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_choice_between_equal_scores_is_luck(dtype, has_double):
    """f32 proves what double precision cannot."""
    plain, other = run_routed(), run_routed(first_of_equals, has_double=has_double)
    assert not torch.allclose(other(routed(dtype))["result 0"], plain(routed(dtype))["result 0"], atol=0.5)
    judge(routed(dtype), other, plain)
    judge(routed(dtype), other, run_routed(has_double=has_double))


@pytest.mark.parametrize("has_double", [True, False])
def test_an_error_beside_a_choice_is_reported(has_double):
    ways = [run_routed(first_of_equals, 1.01, has_double), run_routed(lambda scores: 0, 1.0, has_double)]
    for way in ways:
        with pytest.raises(DiffersError, match=r"in (f32|double precision) differs from eager"):
            judge(routed(torch.bfloat16), way, run_routed())
    with pytest.raises(DiffersError, match=r"result 0: is 1\.9 from double precision, eager is"):
        judge(routed(torch.float32), run_routed(lambda scores: 0), run_routed())


def test_double_precision_that_is_not_finite_is_no_judge():
    """The same weights in f32 are, for a model in bf16; nothing is for a model in f32."""

    def nan_in_double(way):
        return lambda found: {
            name: value * torch.nan if found.module.scores.dtype == torch.float64 else value
            for name, value in way(found).items()
        }

    eager = nan_in_double(run_routed())
    judge(routed(torch.bfloat16), nan_in_double(run_routed(first_of_equals)), eager)
    with pytest.raises(DiffersError, match="in f32 differs from eager"):
        judge(routed(torch.bfloat16), nan_in_double(run_routed(first_of_equals, 1.01)), eager)
    with pytest.raises(DiffersError, match="no double precision: result 0 of eager is not finite"):
        judge(routed(torch.float32), nan_in_double(run_routed(factor=1.01)), eager)


def test_other_types_and_other_results_are_reported():
    found = made(has_kink=False)
    with pytest.raises(DiffersError, match=r"result 0: torch.float64\[16\], eager torch.float32\[16\]"):
        judge(found, lambda found: eager(found) | {"result 0": eager(found)["result 0"].double()}, eager, True)
    with pytest.raises(DiffersError, match="only one has"):
        judge(found, lambda found: {"result 0": eager(found)["result 0"]}, eager, True)
