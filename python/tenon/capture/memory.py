"""The memory layout of traced tensors: which tensors are views of others, and the order of their elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

# Calls that count places in the memory of their first operand.
MEMORY_CALLS = {"aten.as_strided.default", "aten.as_strided_copy.default", "aten.as_strided_scatter.default"}


def base_of(node: fx.Node) -> fx.Node:
    """The base of a tensor, through any number of views; itself if it is not a view."""
    memory = _memory_of(node)
    while (source := _source_of(node)) is not None and memory is not None and _memory_of(source) == memory:
        node = source
    return node


def giver_of(node: fx.Node) -> fx.Node:
    """The call that gave a tensor: itself, or that whose results it is one of."""
    source = _first_operand(node)
    return source if source is not None and isinstance(source.meta.get("val"), (tuple, list)) else node


def _source_of(node: fx.Node) -> fx.Node | None:
    return _first_operand(giver_of(node))


def _first_operand(node: fx.Node) -> fx.Node | None:
    return node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None


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
    return _dense_order([_hint(size) for size in value.shape], [_hint(stride) for stride in value.stride()])


def _dense_order(sizes: list[int | None], strides: list[int | None]) -> list[int] | None:
    if None in sizes or None in strides or 0 in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda dim: (-strides[dim], dim))
    expected = 1
    for dim in reversed([dim for dim in order if sizes[dim] != 1]):
        if strides[dim] != expected:
            return None
        expected *= sizes[dim]
    return order


def operands_of(node: fx.Node) -> Iterator[fx.Node]:
    """The tensor, then the first operand of the call that gave it, and so on."""
    while node is not None:
        yield node
        node = _source_of(node)


def _hint(size: Any) -> int | None:
    """The size in the trace."""
    return size if isinstance(size, int) else size.node.hint
