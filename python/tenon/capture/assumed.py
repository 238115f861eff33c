"""Arguments of calls in which sizes that guards make equal are one expression: see admissible.py."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any

from tenon._tenon import Expr, ImportedTensor, Importer
from tenon.capture.admissible import Admissible
from tenon.capture.arguments import all_leaves

Size = int | Expr

_RESHAPES = {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default"}
_SPLIT = "aten.split_with_sizes.default"


def _sizes(arguments: Any) -> Iterator[Expr]:
    for leaf in all_leaves(arguments):
        sizes = leaf.shape if isinstance(leaf, ImportedTensor) else [leaf]
        yield from (size for size in sizes if isinstance(size, Expr))


class AssumedSizes:
    """Collects the pairs of sizes that a graph takes to be equal."""

    def __init__(self, importer: Importer, admissible: Admissible) -> None:
        self._importer, self._admissible = importer, admissible
        self._accepted: dict[tuple[str, str], tuple[Size, Size]] = {}
        self._pairs: list[tuple[Size, Size]] = []  # of the last arguments

    @property
    def pairs(self) -> list[tuple[Size, Size]]:
        return list(self._accepted.values())

    def accept(self) -> None:
        """Keeps the pairs of the last arguments: the graph has the call."""
        self._accepted |= {(str(size), str(other)): (size, other) for size, other in self._pairs}

    def arguments(self, name: str, arguments: tuple[Any, Any], shape: list[Size] | None) -> tuple[Any, Any] | None:
        """The arguments of a call with the simplest sizes; None if they are no other ones, or if a call does not tell
        whether these are equal. `shape` is that of the result, if it is one tensor. Raises a tenon.Error where a tensor
        cannot have these sizes."""
        self._pairs = []
        for size in _sizes([arguments, shape]):
            self._admissible.representative(size)  # before any is taken: the simplest may be the last
        args, kwargs = self._simplified(arguments)
        if name in _RESHAPES and shape is not None:
            args = self._flat(args[0], [self._simplest(size) for size in shape])
        elif name == _SPLIT:
            args = self._split(*args)
        symbols = {name for pair in self._pairs for size in _sizes(pair) for name in size.symbols}
        return (args, kwargs) if self._pairs and symbols <= self._admissible.names else None

    def _simplified(self, argument: Any) -> Any:
        if isinstance(argument, (tuple, list)):
            return type(argument)(self._simplified(item) for item in argument)
        if isinstance(argument, dict):
            return {key: self._simplified(item) for key, item in argument.items()}
        if isinstance(argument, Expr):
            return self._simplest(argument)
        if isinstance(argument, ImportedTensor):
            for dim, size in enumerate(argument.shape):
                argument = self._resized(argument, dim, self._simplest(size))
        return argument

    def _simplest(self, size: Size) -> Size:
        other = size if isinstance(size, int) else self._admissible.representative(size)
        self._assume(size, other)
        return other

    def _assume(self, size: Size, other: Size) -> None:
        if str(size) != str(other):
            self._pairs.append((size, other))

    def _resized(self, tensor: ImportedTensor, dim: int, size: Size) -> ImportedTensor:
        """With another expression for a size. A run adds no element: the difference is 0."""
        if str(size) == str(tensor.shape[dim]):
            return tensor
        self._assume(tensor.shape[dim], size)
        padding = [0, 0] * (len(tensor.shape) - 1 - dim) + [0, size - tensor.shape[dim]]
        return self._importer.call("aten.constant_pad_nd.default", (tensor, padding))

    def _flat(self, tensor: ImportedTensor, sizes: list[Size]) -> tuple[Any, ...]:
        """The arguments of a reshape. Guards make the numbers of elements equal."""
        flat = self._importer.call("aten.reshape.default", (tensor, [-1]))
        return self._resized(flat, 0, functools.reduce(operator.mul, sizes, 1)), sizes

    def _split(self, tensor: ImportedTensor, sizes: list[Size], dim: int = 0) -> tuple[Any, ...]:
        """The arguments of a split, with the sum of the parts as the size of the whole."""
        whole = self._resized(tensor, dim % len(tensor.shape), functools.reduce(operator.add, sizes, 0))
        return whole, sizes, dim
