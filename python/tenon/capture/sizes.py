"""PyTorch's symbolic sizes as Tenon's: sympy expressions become tenon.Expr."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch.utils._sympy.numbers import int_oo

from tenon._tenon import Error, Expr, Importer, parse_srepr, readable_names, with_readable_names

_MOST = 2**63 - 1
_LEAST = -(2**63)


class Sizes:
    """The symbols of one import. PyTorch names a size that depends on data (`u0`) before Tenon does, and perhaps
    otherwise: `bind` says what it is."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self._known: dict[str, int | Expr] = {}
        self._names: dict[str, str] = {}  # of symbols that inputs have, for people
        self._declared: set[str] = set()
        self._of_sympy: dict[sympy.Expr, int | Expr] = {}
        self._measured: dict[sympy.Expr, Expr] = {}  # sizes that a run learns from a tensor

    def name_symbols(self, inputs: dict[str, Any], taken: Iterable[str] = ()) -> None:
        """Calls the symbols of the caller's values, by name, as the user does or by where they stand. `taken` are names
        that other symbols have. Comes before everything else."""
        sized = [(name, self._sizes_of(value), isinstance(value, torch.SymInt)) for name, value in inputs.items()]
        self._names = readable_names([each for each in sized if each[1]], _dim_names(inputs.values()), set(taken))
        self._known = {symbol: Expr(name) for symbol, name in self._names.items()}
        self._of_sympy.clear()

    def _sizes_of(self, value: Any) -> list[int | Expr]:
        if isinstance(value, torch.Tensor):
            return [self._expr_or_zero(size) for size in value.shape]
        return [self._expr_or_zero(value)] if isinstance(value, torch.SymInt) else []

    def _expr_or_zero(self, size: Any) -> int | Expr:
        try:
            return self.expr(size)
        except Error:
            return 0

    def declare(self, symbol: sympy.Symbol, values: Any) -> None:
        """Says what range a symbol has, which is a ValueRanges."""
        if symbol.name in self._declared:
            return
        self._declared.add(symbol.name)
        low, high = _bounds(values)
        self._known[symbol.name] = self._importer.symbol(self._names.get(symbol.name, symbol.name), low, high)

    def bind(self, name: str, size: int | Expr) -> None:
        self._known[name] = size
        self._of_sympy.clear()

    def measure(self, value: Any, name: str) -> None:
        """Calls a size by this name where it is made of symbols that no tensor tells, such as a number that the model
        computes: the tensor that has the size will tell it."""
        is_compound = isinstance(value, torch.SymInt) and not isinstance(value.node.expr, sympy.Symbol)
        if is_compound and not self.knows(value):
            self._measured.setdefault(value.node.expr, Expr(name))

    def knows(self, value: Any) -> bool:
        """Whether every symbol of a SymInt or SymBool is known, so that it needs no computing at run time."""
        return all(symbol.name in self._known for symbol in value.node.expr.free_symbols)

    def expr(self, value: Any) -> int | Expr:
        """Of an int, SymInt or SymBool. Throws a tenon.Error for one that Tenon cannot express."""
        if isinstance(value, int):
            return int(value)
        expression = value.node.expr
        if expression in self._measured:
            return self._measured[expression]
        if expression not in self._of_sympy:
            self._of_sympy[expression] = self._converted(expression)
        return self._of_sympy[expression]

    def bare_symbol(self, value: Any) -> str | None:
        """The name, where the size is a symbol and nothing else."""
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            return value.node.expr.name
        return None

    def text(self, size: Any) -> str:
        """Of an int, SymInt, SymFloat or SymBool, for people."""
        try:
            return str(self.expr(size))
        except (Error, AttributeError):
            return str(size)

    def message(self, text: str) -> str:
        """Of an assertion, with the names that people know."""
        return with_readable_names(text, self._names)

    def _converted(self, expression: sympy.Expr) -> int | Expr:
        if isinstance(expression, sympy.Symbol):
            return self._known.get(expression.name, Expr(expression.name))
        expr = parse_srepr(sympy.srepr(expression))
        if isinstance(expr, int):
            return expr
        renamed = {name: self._known[name] for name in expr.symbols if name in self._known}
        expr = expr.substitute(renamed)
        return int(expr) if expr.is_constant else expr


def free_symbols(value: Any) -> set[sympy.Symbol]:
    """Of a tensor's sizes, or of a SymInt."""
    if isinstance(value, torch.Tensor):
        return {symbol for size in value.shape for symbol in free_symbols(size)}
    return value.node.expr.free_symbols if isinstance(value, (torch.SymInt, torch.SymBool)) else set()


def _dim_names(values: Iterable[Any]) -> dict[str, str]:
    """What the user calls symbols: the names of his Dims. The tracer keeps them by the place where they stand, of a Dim
    that others are derived from by itself; a program from a file has none."""
    sizes = (size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else [value]))
    env = next((size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)), None)
    named = getattr(env, "source_name_to_debug_name", {})
    names: dict[str, str] = {}
    for source, symbol in getattr(env, "source_to_var", {}).items():
        root = env.replace(symbol)
        name = named.get(source, source)
        if isinstance(root, sympy.Symbol) and name.isidentifier():
            names.setdefault(root.name, name)
    return names


def _bounds(values: Any) -> tuple[int, int | None]:
    low = _LEAST if values.lower == -int_oo else max(int(values.lower), _LEAST)
    # PyTorch also says "unbounded" with numbers around the largest one.
    high = None if values.upper == int_oo or int(values.upper) >= _MOST - 1 else int(values.upper)
    return low, high
