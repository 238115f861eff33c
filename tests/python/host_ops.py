"""Operators that Tenon lacks, for trainings that leave them to PyTorch. A process that imports this module has them."""

import torch

COUNTS = {"cube": 0, "gradient of cube": 0}


@torch.library.custom_op("tenon_host::cube", mutates_args=())
def cube(x: torch.Tensor, weight: torch.Tensor, scale: float) -> torch.Tensor:
    COUNTS["cube"] += 1
    return x**3 * scale * weight


@cube.register_fake
def _(x, weight, scale):
    return torch.empty_like(x)


def _save_cube(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
    ctx.scale = inputs[2]


def _gradient_of_cube(ctx, gradient):
    COUNTS["gradient of cube"] += 1
    x, weight = ctx.saved_tensors
    to_weight = (gradient * x**3 * ctx.scale).sum(0) if ctx.needs_input_grad[1] else None
    return gradient * 3 * x**2 * ctx.scale * weight, to_weight, None


cube.register_autograd(_gradient_of_cube, setup_context=_save_cube)


@torch.library.custom_op("tenon_host::best", mutates_args=())
def best(scores: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The largest score of each row with a bias, its place, and the mean of the row."""
    value, place = scores.max(1)
    return value + bias, place, scores.mean(1)


@best.register_fake
def _(scores, bias):
    rows = scores.shape[:1]
    return scores.new_empty(rows), scores.new_empty(rows, dtype=torch.int64), scores.new_empty(rows)


def _save_best(ctx, inputs, output):
    ctx.save_for_backward(output[1])
    ctx.shape = inputs[0].shape


def _gradient_of_best(ctx, to_value, to_place, to_mean):
    (place,) = ctx.saved_tensors
    gradient = torch.zeros(ctx.shape).scatter(1, place[:, None], to_value[:, None])
    return gradient + to_mean[:, None] / ctx.shape[1], to_value.sum()


best.register_autograd(_gradient_of_best, setup_context=_save_best)


@torch.library.custom_op("tenon_host::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand(())


@noisy.register_fake
def _(x):
    return torch.empty_like(x)


noisy.register_autograd(lambda ctx, gradient: gradient)


@torch.library.custom_op("tenon_host::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    """It has no formula for autograd."""
    return x * 2


@opaque.register_fake
def _(x):
    return torch.empty_like(x)
