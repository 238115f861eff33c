"""PyTorch's symbolic sizes as Tenon's: sympy expressions become tenon.Expr."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._sympy.numbers import int_oo

from tenon._tenon import Expr, Importer, parse_srepr

_MOST = 2**63 - 1
_LEAST = -(2**63)


class Sizes:
    """The symbols of one import. PyTorch names a size that depends on data (`u0`) before Tenon does, and perhaps
    otherwise: `bind` says what it is."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self._known: dict[str, int | Expr] = {}
        self._of_sympy: dict[sympy.Expr, int | Expr] = {}

    def declare(self, symbol: sympy.Symbol, values: Any) -> None:
        """Says what range a symbol has, which is a ValueRanges."""
        if symbol.name not in self._known:
            low, high = _bounds(values)
            self._known[symbol.name] = self._importer.symbol(symbol.name, low, high)

    def bind(self, name: str, size: int | Expr) -> None:
        self._known[name] = size
        self._of_sympy.clear()

    def knows(self, value: Any) -> bool:
        """Whether every symbol of a SymInt or SymBool is known, so that it needs no computing at run time."""
        return all(symbol.name in self._known for symbol in value.node.expr.free_symbols)

    def expr(self, value: Any) -> int | Expr:
        """Of an int, SymInt or SymBool. Throws a tenon.Error for one that Tenon cannot express."""
        if isinstance(value, int):
            return int(value)
        expression = value.node.expr
        if expression not in self._of_sympy:
            self._of_sympy[expression] = self._converted(expression)
        return self._of_sympy[expression]

    def bare_symbol(self, value: Any) -> str | None:
        """The name, where the size is a symbol and nothing else."""
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            return value.node.expr.name
        return None

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


def _bounds(values: Any) -> tuple[int, int | None]:
    low = _LEAST if values.lower == -int_oo else max(int(values.lower), _LEAST)
    # PyTorch also says "unbounded" with numbers around the largest one.
    high = None if values.upper == int_oo or int(values.upper) >= _MOST - 1 else int(values.upper)
    return low, high
