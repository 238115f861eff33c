"""Which symbolic sizes are equal in every call that torch.compile lets through to a graph.

TorchDynamo checks guards in each call: `Eq(Mod(s0, 2), 0)`, `Eq((s1 // 14)**2, 4)`. Tenon's algebra of sizes does not
read them. This file looks for sizes that pass all guards, and calls two expressions equal if they are at all of these.
That is a conjecture: a graph lists the equations that it relies on (`Assumptions` of captured.py), and a call that
breaks one of them runs in PyTorch.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from tenon._tenon import Error, Expr
from tenon.capture.sizes import bounds_of

_SCANNED = 2048  # values of a symbol that are tried, at least
_MOST_SCANNED = 8192
_POINTS = 12  # kept of each kind
_NEAR = 48  # values of two symbols that are tried together
_TRIES = 400

Point = tuple[int, ...]


class Admissible:
    """Sizes that pass the guards. `name_of` says what Tenon calls a symbol."""

    def __init__(self, env: Any, hints: dict[sympy.Symbol, int], name_of: Callable[[sympy.Symbol], str]) -> None:
        self._env, self._hints = env, hints
        self._symbols = sorted(hints, key=str)
        self._names = [name_of(symbol) for symbol in self._symbols]
        self._best: dict[Point, int | Expr] = {}

    @functools.cached_property
    def names(self) -> set[str]:
        return set(self._names)

    def representative(self, size: int | Expr) -> int | Expr:
        """The simplest expression so far that equals this one; itself where nothing is known of its symbols."""
        values = self._values(size)
        if values is None:
            return size
        if len(set(values)) == 1:
            return values[0]
        best = self._best.get(values)
        if best is None or len(str(size)) < len(str(best)):
            self._best[values] = best = size
        return best

    def _values(self, size: int | Expr) -> Point | None:
        if isinstance(size, int) or not self._points or not set(size.symbols) <= self._known:
            return None
        try:
            return tuple(size.evaluate(point) for point in self._points)
        except Error:
            return None

    @functools.cached_property
    def _points(self) -> list[dict[str, int]]:
        return [dict(zip(self._names, point, strict=True)) for point in self._found]

    @functools.cached_property
    def _known(self) -> set[str]:
        """The names of symbols that differ between the points, or that can have no other value."""
        varied = {name for name in self._names if len({point[name] for point in self._points}) > 1}
        return varied | {name for name, own in zip(self._names, self._own, strict=True) if len(own) == 1}

    @functools.cached_property
    def _own(self) -> list[list[int]]:
        """The values of each symbol that pass the guards on it alone, those near its hint first."""
        return [self._own_values(symbol) for symbol in self._symbols]

    def _own_values(self, symbol: sympy.Symbol) -> list[int]:
        passes = _predicate([symbol], [guard for guard in self._guards if guard.free_symbols == {symbol}])
        hint = self._hints[symbol]
        low, high = bounds_of(self._env.bound_sympy(symbol))
        low = max(low, 0)
        last = low + min(max(_SCANNED, 4 * hint), _MOST_SCANNED)
        values = [value for value in range(low, (last if high is None else min(last, high)) + 1) if passes(value)]
        return sorted(values, key=lambda value: abs(value - hint))

    @functools.cached_property
    def _guards(self) -> list[sympy.Basic]:
        guards = {guard.expr for guard in self._env.guards}
        return [guard for guard in guards if guard.free_symbols and guard.free_symbols <= self._hints.keys()]

    @functools.cached_property
    def _found(self) -> list[Point]:
        passes = _predicate(self._symbols, self._guards)
        hint = tuple(self._hints[symbol] for symbol in self._symbols)
        if not passes(*hint):
            return []
        found = {hint: None}
        for candidates in self._candidates(hint):
            admitted = (point for point in candidates if point not in found and passes(*point))
            found.update(dict.fromkeys(itertools.islice(admitted, _POINTS)))
        return list(found)

    def _candidates(self, hint: Point) -> Iterator[Iterable[Point]]:
        """Points with one value other than the hint's, with two of symbols that share a guard, and random ones."""
        for place, values in enumerate(self._own):
            yield (_with(hint, {place: value}) for value in values)
        for one, other in self._pairs():
            pairs = itertools.product(self._own[one][:_NEAR], self._own[other][:_NEAR])
            yield (_with(hint, {one: a, other: b}) for a, b in pairs if a != hint[one] and b != hint[other])
        generator = random.Random(0)
        if all(self._own):
            yield (tuple(generator.choice(values[:_NEAR]) for values in self._own) for _ in range(_TRIES))

    def _pairs(self) -> list[tuple[int, int]]:
        places = {symbol: place for place, symbol in enumerate(self._symbols)}
        sharing = [sorted(places[symbol] for symbol in guard.free_symbols) for guard in self._guards]
        return sorted({pair for each in sharing for pair in itertools.combinations(each, 2)})


def _with(point: Point, changes: dict[int, int]) -> Point:
    return tuple(changes.get(place, value) for place, value in enumerate(point))


def _predicate(symbols: list[sympy.Symbol], guards: Iterable[sympy.Basic]) -> Callable[..., bool]:
    """Whether values of the symbols pass all guards that Python can state."""
    stated = [text for guard in guards if (text := _python_text(guard)) is not None]
    names = ", ".join(symbol.name for symbol in symbols)
    test = eval(f"lambda {names}: {' and '.join(sorted(stated, key=len)) or 'True'}", {"__builtins__": _BUILTINS})

    def passes(*values: int) -> bool:
        try:
            return bool(test(*values))
        except ArithmeticError:
            return False

    return passes


_BUILTINS = {"max": max, "min": min, "int": int, "float": float, "abs": abs, "round": round}


def _python_text(guard: sympy.Basic) -> str | None:
    try:
        text = f"({PythonPrinter().doprint(guard)})"
        code = compile(text, "guard", "eval")
    except Exception:
        return None  # a guard fewer: fewer sizes are called equal
    return text if set(code.co_names) <= _BUILTINS.keys() | {symbol.name for symbol in guard.free_symbols} else None


def admissible_of(
    values: Iterable[Any], name_of: Callable[[sympy.Symbol], str], carried: set[str]
) -> Admissible | None:
    """Of the sizes of a call's values. `carried` are the names that a call tells; None if there are none."""
    sizes = [size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else [value])]
    symbolic = [size for size in sizes if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol)]
    told = [size for size in symbolic if isinstance(size.node.hint, int) and name_of(size.node.expr) in carried]
    hints = {size.node.expr: size.node.hint for size in told}
    return Admissible(told[0].node.shape_env, hints, name_of) if told else None
