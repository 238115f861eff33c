"""The aten registry, which turns ATen overloads into nodes of a Graph.

    tenon.aten.register("mylib.swish.default(self)", lambda x: x * tenon.ops.sigmoid(x))

Adding an entry replaces one of the same name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenon import _tenon

__all__ = ["Entry", "Parameter", "entries", "has", "register", "unregister"]


@dataclass(frozen=True)
class Parameter:
    name: str
    has_default: bool
    default: Any
    keyword_only: bool

    def __str__(self) -> str:
        return f"{self.name}={self.default}" if self.has_default else self.name


@dataclass(frozen=True)
class Entry:
    """An overload, by PyTorch's name. It is native (one op of Tenon) or composite (several)."""

    name: str
    kind: str
    is_view: bool
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        texts = []
        for position, parameter in enumerate(self.parameters):
            before = self.parameters[position - 1].keyword_only if position else False
            texts += ["*"] if parameter.keyword_only and not before else []
            texts.append(str(parameter))
        return f"{self.name}({', '.join(texts)})"


def register(signature: str, function: Callable[..., Any]) -> None:
    """Adds an entry. The signature has the names and defaults of PyTorch's schema: "aten.add.Tensor(self, other, *,
    alpha=1)". The function gets every argument by position, tensors as tenon.Values, and returns a Value or a list. An
    exception in it becomes a tenon.Error that names the entry."""

    @functools.wraps(function)
    def entry(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            name = signature.partition("(")[0].strip()
            return _tenon.fail(f"the entry of {name} raised {type(error).__name__}: {error}")

    _tenon.register_aten(signature, entry)


def unregister(name: str) -> None:
    """Removes an entry. Raises a tenon.Error if there is none of that name."""
    _tenon.unregister_aten(name)


def has(name: str) -> bool:
    """Also true for derived overloads: `aten.add_.Tensor` from `aten.add.Tensor`."""
    return _tenon.has_aten(name)


def entries() -> dict[str, Entry]:
    """All entries, by name."""
    return {
        name: Entry(name, kind, is_view, tuple(Parameter(*parameter) for parameter in parameters))
        for name, (kind, is_view, parameters) in _tenon.aten_entries().items()
    }
