"""Products by groups of rows as operators of PyTorch, with a traceable gradient.

transformers has such an operator, too, but its gradient reads the offsets as Python numbers, which AOTAutograd cannot
trace. `with_traceable_gradients` replaces it by ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx

# The parameters of an equivalent operator, in the order of ours.
_SAME = {"transformers.grouped_mm_fallback": ("input", "weight", "offs")}


def _groups(offsets: Tensor, rows: int) -> Iterator[tuple[int, slice]]:
    begin = 0
    for group, offset in enumerate(offsets.tolist()):
        end = min(max(offset, begin), rows)
        yield group, slice(begin, end)
        begin = end


@torch.library.custom_op("tenon::grouped_matmul", mutates_args=())
def grouped_matmul(x: Tensor, w: Tensor, offsets: Tensor) -> Tensor:
    """Each row of x times the matrix of its group; zeros after the last group."""
    out = x.new_zeros(x.shape[0], w.shape[2])
    for group, rows in _groups(offsets, x.shape[0]):
        out[rows] = x[rows] @ w[group]
    return out


@torch.library.custom_op("tenon::grouped_outer", mutates_args=())
def grouped_outer(x: Tensor, y: Tensor, offsets: Tensor) -> Tensor:
    """For each group, the transposed rows of x times the rows of y."""
    out = x.new_zeros(offsets.shape[0], x.shape[1], y.shape[1])
    for group, rows in _groups(offsets, x.shape[0]):
        out[group] = x[rows].T @ y[rows]
    return out


@grouped_matmul.register_fake
def _(x: Tensor, w: Tensor, offsets: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], w.shape[2])


@grouped_outer.register_fake
def _(x: Tensor, y: Tensor, offsets: Tensor) -> Tensor:
    return x.new_empty(offsets.shape[0], x.shape[1], y.shape[1])


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _matmul_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    x, w, offsets = ctx.saved_tensors
    return grouped_matmul(grad, w.mT, offsets), grouped_outer(x, grad, offsets), None


def _outer_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    x, y, offsets = ctx.saved_tensors
    return grouped_matmul(y, grad.mT, offsets), grouped_matmul(x, grad, offsets), None


grouped_matmul.register_autograd(_matmul_gradient, setup_context=_save)
grouped_outer.register_autograd(_outer_gradient, setup_context=_save)


def with_traceable_gradients(module: fx.GraphModule) -> fx.GraphModule:
    """The module with our operator in place of equivalent ones."""
    others = [(node, _SAME[name]) for node in module.graph.nodes if (name := _packet(node.target)) in _SAME]
    for node, names in others:
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
        node.args, node.kwargs = tuple(given[name] for name in names), {}
        node.target = torch.ops.tenon.grouped_matmul.default
    if others:
        module.recompile()
    return module


def _packet(target: Any) -> str:
    """The name of an operator, without that of its overload."""
    return str(target).removesuffix(".default")
