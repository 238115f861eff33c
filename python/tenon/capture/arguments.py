"""Arguments and results of calls, nested as PyTorch has them, with the importer's values as leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tenon._tenon import Expr, ImportedTensor
from tenon.capture.fallback import Slot, TokenSlot

# How a number that is only known at run time travels in a graph, and comes out of it.
NUMBERS = {
    torch.SymInt: (torch.int64, int),
    torch.SymFloat: (torch.float64, float),
    torch.SymBool: (torch.bool, bool),
    bool: (torch.bool, bool),
    int: (torch.int64, int),
    float: (torch.float64, float),
}


@dataclass(frozen=True)
class Token:
    """A tensor of a dtype that Tenon lacks: the fallback holds it."""

    stand_in: ImportedTensor
    key: str
    text: str  # what it is, for messages
    is_quantized: bool = False


@dataclass(frozen=True)
class Opaque:
    """What no call of Tenon's can take: a graph of a higher-order op, a complex number."""

    value: Any


def all_leaves(arguments: Any) -> Iterator[Any]:
    if isinstance(arguments, (tuple, list)):
        for item in arguments:
            yield from all_leaves(item)
    elif isinstance(arguments, dict):
        yield from all_leaves(list(arguments.values()))
    else:
        yield arguments


def flat_leaves(arguments: Any) -> list[ImportedTensor | Expr]:
    """What the importer makes operands of, in its order."""
    tensors = (leaf.stand_in if isinstance(leaf, Token) else leaf for leaf in all_leaves(arguments))
    return [leaf for leaf in tensors if isinstance(leaf, (ImportedTensor, Expr))]


def template(given: Any, value: Any, counter: Iterator[int]) -> Any:
    """The argument with a slot for each operand. `value` is what the trace had: it says where a number is wanted."""
    if isinstance(given, Token):
        next(counter)
        return TokenSlot(given.key)
    if isinstance(given, (ImportedTensor, Expr)):
        return Slot(next(counter), None if isinstance(value, torch.Tensor) else NUMBERS[type(value)][1])
    if isinstance(given, Opaque):
        return given.value
    if isinstance(given, (tuple, list)):
        items = (template(item, part, counter) for item, part in zip(given, value, strict=True))
        return tuple(items) if isinstance(value, tuple) else list(items)
    if isinstance(given, dict):
        return {key: template(item, value[key], counter) for key, item in given.items()}
    return bool(given) if isinstance(value, torch.SymBool) else given  # what is known of it comes as 0 or 1


def rebuilt(value: Any, leaves: Iterator[Any]) -> Any:
    """The structure of `value` with these leaves."""
    if isinstance(value, (tuple, list)):
        return tuple(rebuilt(item, leaves) for item in value)
    return None if value is None else next(leaves)
