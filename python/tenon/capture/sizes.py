"""Converts PyTorch's symbolic sizes (sympy) to tenon.Expr."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CeilToInt, FloatTrueDiv, FloorToInt, IntTrueDiv, ToFloat, TruncToInt
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.reference import PythonReferenceAnalysis

from tenon._tenon import Error, Expr, Importer, parse_srepr, readable_names, with_readable_names

_MOST = 2**63 - 1
_LEAST = -(2**63)
_MOST_DENOMINATOR = 2**10  # of a float that is taken for a fraction


class Sizes:
    """The symbols of one import. PyTorch names a size that depends on data (`u0`) before Tenon does, and maybe
    otherwise: `bind` connects the two."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self._known: dict[str, int | Expr] = {}
        self._names: dict[str, str] = {}  # readable names of the inputs' symbols
        self._declared: set[str] = set()
        self._of_sympy: dict[sympy.Expr, int | Expr] = {}
        self._measured: dict[sympy.Expr, Expr] = {}  # sizes that a run reads from a tensor
        # Names a size that no Expr says, and that a call can compute; None where it cannot.
        self.derive: Callable[[sympy.Expr], str | None] = lambda expression: None

    def name_symbols(self, inputs: dict[str, Any], taken: Iterable[str] = ()) -> None:
        """Names the symbols of the caller's values: by the user's names, or by position. `taken` are names of other
        symbols. Call it first."""
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
        """Declares the range of a symbol, a ValueRanges."""
        if symbol.name in self._declared:
            return
        self._declared.add(symbol.name)
        low, high = bounds_of(values)
        self._known[symbol.name] = self._importer.symbol(self._names.get(symbol.name, symbol.name), low, high)

    def bind(self, name: str, size: int | Expr) -> None:
        self._known[name] = size
        self._of_sympy.clear()

    def measure(self, value: Any, name: str) -> None:
        """Names a size made of symbols that no tensor determines, such as a number that the model computes: the tensor
        of that size will determine it."""
        is_compound = isinstance(value, torch.SymInt) and not isinstance(value.node.expr, sympy.Symbol)
        if is_compound and not self.knows(value):
            self._measured.setdefault(value.node.expr, Expr(name))

    def knows(self, value: Any) -> bool:
        """Whether every symbol of a SymInt or SymBool is known: then it needs no computation at run time."""
        return all(symbol.name in self._known for symbol in value.node.expr.free_symbols)

    def expr(self, value: Any) -> int | Expr:
        """Converts an int, SymInt or SymBool. Raises a tenon.Error for a value that Tenon cannot express."""
        if isinstance(value, int):
            return int(value)
        expression = value.node.expr
        if expression in self._measured:
            return self._measured[expression]
        if expression not in self._of_sympy:
            self._of_sympy[expression] = self._converted(expression)
        return self._of_sympy[expression]

    def name_of(self, symbol: sympy.Symbol) -> str:
        """The name of an input's symbol in the graph."""
        return str(self._known.get(symbol.name, symbol.name))

    def bare_symbol(self, value: Any) -> str | None:
        """The name of a size that is a single symbol."""
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            return value.node.expr.name
        return None

    def text(self, size: Any) -> str:
        """An int, SymInt, SymFloat or SymBool as readable text."""
        try:
            return str(self.expr(size))
        except (Error, AttributeError):
            return str(size)

    def message(self, text: str) -> str:
        """The text of an assertion, with readable names."""
        return with_readable_names(text, self._names)

    def _converted(self, expression: sympy.Expr) -> int | Expr:
        if isinstance(expression, sympy.Symbol):
            return self._known.get(expression.name, Expr(expression.name))
        expression = _in_integers(expression).replace(_is_rounded_float, self._derived)
        expr = parse_srepr(sympy.srepr(expression))
        if isinstance(expr, int):
            return expr
        renamed = {name: self._known[name] for name in expr.symbols if name in self._known}
        expr = expr.substitute(renamed)
        return int(expr) if expr.is_constant else expr

    def _derived(self, expression: sympy.Expr) -> sympy.Expr:
        name = self.derive(expression)
        return expression if name is None else sympy.Symbol(name, integer=True)


def computed(expression: sympy.Expr, symbols: list[sympy.Symbol]) -> Callable[..., int]:
    """The value of a size, from those of its symbols, as PyTorch computes it."""

    @functools.lru_cache(maxsize=64)
    def compute(*values: int) -> int:
        return int(sympy_interp(PythonReferenceAnalysis, dict(zip(symbols, values, strict=True)), expression))

    return compute


def _is_rounded_float(part: sympy.Expr) -> bool:
    return isinstance(part, (CeilToInt, FloorToInt, TruncToInt)) and not isinstance(part.args[0], IntTrueDiv)


def _in_integers(expression: sympy.Expr) -> sympy.Expr:
    """With fractions of integers where PyTorch rounds a float to an integer: ceil(s / 2.0), or the size of
    arange(0.5, s). Sizes are so small (below 2**53 / _MOST_DENOMINATOR) that a float rounds to the same integer."""
    return expression.replace(lambda part: isinstance(part, (CeilToInt, FloorToInt, TruncToInt)), _rounded_fraction)


def _rounded_fraction(rounded: sympy.Expr) -> sympy.Expr:
    """A quotient may round, and what is computed from it would round again: only the last step may be one."""
    number = rounded.args[0]
    parts = [_exact(part) for part in (number.args if isinstance(number, FloatTrueDiv) else (number, sympy.Integer(1)))]
    if None in parts:
        return rounded
    (above, scale), (below, other_scale) = parts
    return rounded.func(IntTrueDiv(above * other_scale, below * scale))


def _exact(number: sympy.Expr) -> tuple[sympy.Expr, int] | None:
    """An integer and a power of two: `number` is their quotient, and floats have it without rounding."""
    if isinstance(number, ToFloat):
        return number.args[0], 1
    if number.is_Number:
        fraction = Fraction(float(number))
        is_short = fraction.denominator <= _MOST_DENOMINATOR
        return (sympy.Integer(fraction.numerator), fraction.denominator) if is_short else None
    terms = [_exact(term) for term in number.args] if number.is_Add or number.is_Mul else []
    if not terms or None in terms:
        return None
    if number.is_Mul:
        return sympy.Mul(*(top for top, _ in terms)), sympy.prod(scale for _, scale in terms)
    scale = max(scale for _, scale in terms)
    return sympy.Add(*(top * (scale // own) for top, own in terms)), scale


def free_symbols(value: Any) -> set[sympy.Symbol]:
    """Of a tensor's sizes, or of a SymInt."""
    if isinstance(value, torch.Tensor):
        return {symbol for size in value.shape for symbol in free_symbols(size)}
    return value.node.expr.free_symbols if isinstance(value, (torch.SymInt, torch.SymBool)) else set()


def guard_count(values: Iterable[Any]) -> int:
    """How many assumptions on the sizes of these values the trace has made so far. torch.compile checks them in each
    call."""
    env = next((size.node.shape_env for size in _symbolic_sizes(values)), None)
    return len(getattr(env, "guards", ()))


def _symbolic_sizes(values: Iterable[Any]) -> Iterable[torch.SymInt]:
    sizes = (size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else [value]))
    return (size for size in sizes if isinstance(size, torch.SymInt))


def is_ragged(size: Any) -> bool:
    """Whether a size stands for the lengths of a nested tensor's rows. It is no integer."""
    return isinstance(size, torch.SymInt) and isinstance(size.node.hint, torch.SymInt)


def _dim_names(values: Iterable[Any]) -> dict[str, str]:
    """The user's names of symbols: those of the Dims. The tracer stores them by position; the root of derived Dims by
    itself. A program from a file has none."""
    env = next((size.node.shape_env for size in _symbolic_sizes(values)), None)
    named = getattr(env, "source_name_to_debug_name", {})
    names: dict[str, str] = {}
    for source, symbol in getattr(env, "source_to_var", {}).items():
        root = env.replace(symbol)
        name = named.get(source, source)
        if isinstance(root, sympy.Symbol) and name.isidentifier():
            names.setdefault(root.name, name)
    return names


def bounds_of(values: Any) -> tuple[int, int | None]:
    """Of a ValueRanges; None is unbounded."""
    low = _LEAST if values.lower == -int_oo else max(int(values.lower), _LEAST)
    # PyTorch also writes "unbounded" as numbers around the largest integer.
    high = None if values.upper == int_oo or int(values.upper) >= _MOST - 1 else int(values.upper)
    return low, high
