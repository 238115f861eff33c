"""How a compiled model is called: the arguments that it takes, and the results that it returns."""

from __future__ import annotations

from typing import Any

import torch

from tenon._tenon import DeviceTensor, Error, Expr, fail
from tenon.capture.captured import DTYPES, Captured, Input, counted, type_text
from tenon.structure import Nesting


class Signature:
    """Checks and flattens arguments. `nesting` is that of (args, kwargs); `argument_names` are those of forward, if
    known."""

    def __init__(
        self,
        captured: Captured,
        nesting: Nesting,
        argument_names: list[str] | None,
    ) -> None:
        self._inputs = captured.inputs
        self._guards = [assertion for assertion in captured.assertions if assertion.guard is not None]
        self._ranges = captured.graph.symbols
        self.nesting = nesting
        self.argument_names = argument_names or []
        positional, keywords = nesting.tree.children
        self._arity = len(positional.children)
        self._keywords = list(keywords.data)
        self._is_flat = not self._keywords and all(tree.children is None for tree in positional.children)
        self._paths = [*positional.paths("args"), *keywords.paths("kwargs")]

    def __str__(self) -> str:
        return "\n".join(self._described(position) for position in range(len(self._inputs)))

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The values in the order of the inputs. Raises a tenon.Error that names an input that does not fit."""
        flat = list(args) if self._is_flat and not kwargs and len(args) == self._arity else self._nested(args, kwargs)
        sizes: dict[str, int] = {}
        derived = False
        for position, (given, value) in enumerate(zip(self._inputs, flat, strict=True)):
            if given.kind == "tensor" or given.kind == "token":
                derived |= self._check_tensor(position, given, value, sizes)
            else:
                derived |= self._check_number(position, given, value, sizes)
        if derived:
            self._check_derived(flat, sizes)
        for assertion in self._guards:
            if not assertion.guard.evaluate(sizes):
                fail(f"{assertion.message}, with {_sizes_text(sizes)}")
        return flat

    # -- structure --

    def _nested(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        args, kwargs = self._by_position(args, dict(kwargs))
        unknown = [name for name in kwargs if name not in self._keywords]
        if unknown:
            fail(f"the model has no argument '{unknown[0]}'{self._all_described()}")
        if len(args) != self._arity:
            fail(f"expected {counted(self._arity, 'positional argument')}, got {len(args)}{self._all_described()}")
        if kwargs.keys() != set(self._keywords):
            expected = ", ".join(self._keywords) or "none"
            fail(f"expected the keyword arguments {expected}, got {', '.join(kwargs) or 'none'}{self._all_described()}")
        ordered = {name: kwargs[name] for name in self._keywords}
        try:  # the keys of a dict may be in another order
            return self.nesting.flatten((tuple(args), ordered))
        except ValueError as error:
            what = "the arguments nest otherwise than those that the model was traced with"
            fail(f"{what}: {str(error).rstrip('.')}{self._all_described()}")

    def _by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Accepts an argument that was traced by position and is passed by name."""
        names = self.argument_names[: self._arity]
        moved = list(args)
        for name in names[len(args) :]:
            if name not in kwargs:
                break
            moved.append(kwargs.pop(name))
        return moved, kwargs

    def _all_described(self) -> str:
        return "; the model takes:\n  " + str(self).replace("\n", "\n  ") if self._inputs else ""

    # -- values --

    def _check_tensor(self, position: int, given: Input, value: Any, sizes: dict[str, int]) -> bool:
        """Whether sizes are left to infer from others."""
        if isinstance(value, torch.Tensor):
            fits = value.dtype is given.dtype and value.device == given.device
        else:
            is_plain = given.kind == "tensor" and not given.is_whole
            fits = is_plain and isinstance(value, DeviceTensor) and value.dtype == DTYPES[given.dtype]
        if not fits or len(value.shape) != len(given.shape):
            self._mismatch(position, value)
        if given.is_whole and (value.storage_offset() != 0 or not value.is_contiguous()):
            fail(
                f"{self._described(position)}, all of its memory in order, which the model reads by as_strided: "
                f"got strides {tuple(value.stride())} from element {value.storage_offset()} on; give a clone of it"
            )
        derived = False
        for size, expected in zip(value.shape, given.shape, strict=True):
            if isinstance(expected, int):
                if size != expected:
                    self._mismatch(position, value)
            elif not self._bind(expected, size, sizes):
                derived = True
            elif sizes[expected.symbols[0]] != size:
                self._mismatch(position, value, sizes)
            elif not self._in_range(expected.symbols[0], size):
                self._mismatch(position, value)
        return derived

    def _check_number(self, position: int, given: Input, value: Any, sizes: dict[str, int]) -> bool:
        if given.kind == "constant":
            if type(value) is not type(given.value) or value != given.value:
                self._mismatch(position, value)
            return False
        if given.size is None:
            if not isinstance(value, (int, float)):
                self._mismatch(position, value)
            return False
        if not isinstance(value, int) or isinstance(value, bool):
            self._mismatch(position, value)
        if isinstance(given.size, int):
            if value != given.size:
                self._mismatch(position, value)
            return False
        if not self._bind(given.size, value, sizes):
            return True
        if sizes[given.size.symbols[0]] != value:
            self._mismatch(position, value, sizes)
        if not self._in_range(given.size.symbols[0], value):
            self._mismatch(position, value)
        return False

    def _bind(self, expected: Expr, size: int, sizes: dict[str, int]) -> bool:
        """Sets the value of a new symbol; false for an expression of symbols."""
        symbols = expected.symbols
        if len(symbols) != 1 or str(expected) != symbols[0]:
            return False
        sizes.setdefault(symbols[0], size)
        return True

    def _in_range(self, symbol: str, size: int) -> bool:
        low, high = self._ranges.get(symbol, (0, None))
        return (low is None or low <= size) and (high is None or size <= high)

    def _check_derived(self, flat: list[Any], sizes: dict[str, int]) -> None:
        for position, (given, value) in enumerate(zip(self._inputs, flat, strict=True)):
            actual = value.shape if isinstance(value, torch.Tensor) else [value]
            expected = given.shape if given.kind in ("tensor", "token") else [given.size]
            for size, expr in zip(actual, expected, strict=True):
                if not isinstance(expr, Expr):
                    continue
                self._solve(expr, size, sizes)
                if set(expr.symbols) <= sizes.keys() and expr.evaluate(sizes) != size:
                    self._mismatch(position, value, sizes)

    def _solve(self, expr: Expr, size: int, sizes: dict[str, int]) -> None:
        """Solves for the one unknown of a size like 2*N + 1."""
        unknown = [symbol for symbol in expr.symbols if symbol not in sizes]
        if len(unknown) != 1:
            return
        try:
            factor = expr.differentiate(unknown[0])
            rest = expr.intercept(unknown[0])
        except Error:
            return
        factor, rest = (part if isinstance(part, int) else part.evaluate(sizes) for part in (factor, rest))
        value = (size - rest) // factor
        if self._in_range(unknown[0], value):
            sizes[unknown[0]] = value

    # -- messages --

    def _mismatch(self, position: int, value: Any, sizes: dict[str, int] | None = None) -> None:
        got = _value_text(value)
        given = self._inputs[position]
        if isinstance(value, torch.Tensor) and given.device is not None and value.device != given.device:
            got += f" on {value.device}"
        others = {name: size for name, size in (sizes or {}).items() if name in _symbols_of(given)}
        known = f", where {_sizes_text(others)} from other inputs" if others else ""
        fail(f"{self._described(position)}, got {got}{known}")

    def _described(self, position: int) -> str:
        given = self._inputs[position]
        text = f"input '{given.name}' ({self._paths[position]}): expected {given.type}"
        ranges = [self._range_text(symbol) for symbol in _symbols_of(given)]
        return f"{text} with {', '.join(ranges)}" if ranges else text

    def _range_text(self, symbol: str) -> str:
        low, high = self._ranges.get(symbol, (0, None))
        return f"{symbol} at least {low}" if high is None else f"{symbol} in [{low}, {high}]"


def _value_text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return type_text(value.dtype, value.shape)
    if isinstance(value, DeviceTensor):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}] on {value.device}"
    return repr(value) if isinstance(value, (int, float, str, type(None))) else f"a {type(value).__qualname__}"


def _symbols_of(given: Input) -> list[str]:
    sizes = [*given.shape, given.size]
    return sorted({symbol for size in sizes if isinstance(size, Expr) for symbol in size.symbols})


def _sizes_text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{symbol} = {size}" for symbol, size in sorted(sizes.items()))
