"""Counts of what happened on the lazy device, by name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch._lazy.metrics

_EAGER = "aten::"  # PyTorch's prefix of the counters of calls that the lazy device did not record
_READ = "aten::_local_scalar_dense"  # tensor.item(): computes nothing


class Metrics(dict[str, Any]):
    """A dict that prints as a table."""

    def __str__(self) -> str:
        rows: list[tuple[str, Any]] = []
        for name, value in self.items():
            if isinstance(value, dict):
                rows += [(name, sum(value.values())), *((f"  {key}", count) for key, count in value.items())]
            else:
                rows.append((name, value))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name.ljust(width)}  {_shown(value)}" for name, value in rows)


def _shown(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


class EagerCalls:
    """The calls that the lazy device does not record, which PyTorch runs one by one. PyTorch counts them, and a user
    may reset its counters: call `keep` before that."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._kept: Counter[str] = Counter()
        self._before = _torch_counters()

    def counts(self) -> Counter[str]:
        return self._kept + (_torch_counters() - self._before)

    def keep(self) -> None:
        """Keeps the counts when PyTorch's counters are reset to 0."""
        self._kept = self.counts()
        self._before = Counter()


def _torch_counters() -> Counter[str]:
    names = [name for name in torch._lazy.metrics.counter_names() if name.startswith(_EAGER) and name != _READ]
    return Counter({name: torch._lazy.metrics.counter_value(name) for name in names})
