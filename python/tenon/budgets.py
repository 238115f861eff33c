"""Budgets of memory, as every front door takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenon._tenon import fail

# Bytes of the host, 64000000 or "64MiB"; or of the host ("cpu") and of devices, by name: {"npu": "64MiB"}.
Budget = int | str | Mapping[str, int | str]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def budgets_from(budget: Budget | None) -> tuple[int | None, list[tuple[str, int]]]:
    """The budget of the host, and those of devices."""
    if not isinstance(budget, Mapping):
        return (None if budget is None else _bytes_of(budget)), []
    if not all(isinstance(name, str) and name for name in budget):
        fail(f"a budget is a number of bytes, or numbers by the names of devices, got {budget!r}")
    devices = [(name, _bytes_of(value)) for name, value in budget.items() if name != "cpu"]
    return (_bytes_of(budget["cpu"]) if "cpu" in budget else None), devices


def _bytes_of(value: int | str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            fail(f"a budget must not be negative, got {value}")
        return value
    match = _BYTES.fullmatch(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        fail(f"a budget is a number of bytes, such as 1000000 or '64MiB', got {value!r}")
    return int(float(match[1]) * unit)
