"""The memory layout of traced tensors: which tensors are views of others, and the order of their elements."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx

from tenon.capture.names import target_name

# Calls that give the elements of their first operand in the same order.
_RESHAPES = {
    "aten._unsafe_view.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.flatten.using_ints",
    "aten.reshape.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unflatten.int",
    "aten.unsqueeze.default",
    "aten.view.default",
}


def base_of(node: fx.Node) -> fx.Node:
    """The base of a tensor, through any number of views; itself if it is not a view."""
    memory = _memory_of(node)
    while (source := _source_of(node)) is not None and memory is not None and _memory_of(source) == memory:
        node = source
    return node


def _source_of(node: fx.Node) -> fx.Node | None:
    source = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
    return _source_of(source) if source is not None and isinstance(source.meta.get("val"), (tuple, list)) else source


def _memory_of(node: fx.Node) -> tuple[int, torch.dtype] | None:
    value = node.meta.get("val")
    is_strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
    return (value.untyped_storage()._cdata, value.dtype) if is_strided else None


def order_in_memory(value: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost to the innermost, if their order differs from the tensor's own."""
    order = dense_order(value)
    if order is None:
        return None
    moved = [dim for dim in order if _hint(value.shape[dim]) != 1]
    return None if moved == sorted(moved) else order


def dense_order(value: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost to the innermost; None if elements overlap or have gaps."""
    sizes, strides = [_hint(size) for size in value.shape], [_hint(stride) for stride in value.stride()]
    if None in sizes or None in strides or 0 in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda dim: (-strides[dim], dim))
    expected = 1
    for dim in reversed([dim for dim in order if sizes[dim] != 1]):
        if strides[dim] != expected:
            return None
        expected *= sizes[dim]
    return order


def lies_in_order(node: fx.Node) -> bool:
    """Whether a tensor's elements lie in memory in the tensor's own order, from the start and without gaps, whatever
    sizes its symbols have."""
    while not _is_in_order(node.meta.get("val")):
        source = _source_of(node)
        if source is None or target_name(node.target) not in _RESHAPES or _memory_of(source) != _memory_of(node):
            return False
        node = source
    return True


def _is_in_order(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or _expression(value.storage_offset()) != 0:
        return False
    expected = sympy.Integer(1)
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if _expression(size) != 1 and sympy.expand(_expression(stride) - expected) != 0:
            return False
        expected *= _expression(size)
    return True


def _expression(size: Any) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _hint(size: Any) -> int | None:
    """The size in the trace."""
    return size if isinstance(size, int) else size.node.hint


def reads_only(operand: torch.Tensor, sizes: list[int], strides: list[int], offset: int | None) -> bool:
    """Whether as_strided reads only elements of its operand, whose memory has no gaps."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    starts_there = offset is None or offset == operand.storage_offset()
    return starts_there and dense_order(operand) is not None and (extent <= operand.numel() or 0 in sizes)
