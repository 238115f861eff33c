"""The memory layout of traced tensors: which tensors are views of others, and the order of their elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

# Calls that count places in the memory of their first operand, and where they have sizes, strides and an offset.
MEMORY_CALLS = {
    "aten.as_strided.default": 1,
    "aten.as_strided_copy.default": 1,
    "aten.as_strided_scatter.default": 2,
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


@dataclass(frozen=True)
class Places:
    """The places in memory that a tensor has."""

    sizes: list[Any]
    strides: list[Any]
    offset: Any

    @staticmethod
    def of(tensor: torch.Tensor) -> Places:
        return Places(list(tensor.shape), list(tensor.stride()), tensor.storage_offset())


def on_memory(function: Callable[..., Any], operand: Places, places: Places) -> Callable[..., Any] | None:
    """A function that reads or writes these places of its first operand, for an operand in Tenon's memory. None where
    some of the places are not the operand's: PyTorch has another tensor there."""
    numbers = (*operand.sizes, *operand.strides, operand.offset, *places.sizes, *places.strides, places.offset)
    if not all(isinstance(number, int) for number in numbers):
        return None
    extent = 1 + sum((size - 1) * stride for size, stride in zip(places.sizes, places.strides, strict=True))
    is_inside = 0 in places.sizes or (
        places.offset >= operand.offset
        and places.offset + extent <= operand.offset + math.prod(operand.sizes)
        and _dense_order(operand.sizes, operand.strides) is not None
    )
    return functools.partial(_call_on_memory, function, operand) if is_inside else None


def _call_on_memory(
    function: Callable[..., Any], places: Places, operand: torch.Tensor, *args: Any, **given: Any
) -> Any:
    memory = torch.empty(places.offset + operand.numel(), dtype=operand.dtype)
    return function(memory.as_strided(places.sizes, places.strides, places.offset).copy_(operand), *args, **given)
