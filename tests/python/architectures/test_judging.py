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


def test_other_types_and_other_results_are_reported():
    found = made(has_kink=False)
    with pytest.raises(DiffersError, match=r"result 0: torch.float64\[16\], eager torch.float32\[16\]"):
        judge(found, lambda found: eager(found) | {"result 0": eager(found)["result 0"].double()}, eager, True)
    with pytest.raises(DiffersError, match="only one has"):
        judge(found, lambda found: {"result 0": eager(found)["result 0"]}, eager, True)
