"""What happened on the lazy device, counted by name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch._lazy.metrics

_EAGER = "aten::"  # how PyTorch names the counters of calls that the lazy device did not record
_READ = "aten::_local_scalar_dense"  # tensor.item(): nothing is computed


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
    """The calls that the lazy device does not record, and PyTorch runs one by one. PyTorch counts them, and sets its
    counters to 0 when a user asks it to: then `keep` must be called first."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._kept: Counter[str] = Counter()
        self._before = _torch_counters()

    def counts(self) -> Counter[str]:
        return self._kept + (_torch_counters() - self._before)

    def keep(self) -> None:
        """What was counted so far stays when PyTorch's counters go back to 0."""
        self._kept = self.counts()
        self._before = Counter()


def _torch_counters() -> Counter[str]:
    names = [name for name in torch._lazy.metrics.counter_names() if name.startswith(_EAGER) and name != _READ]
    return Counter({name: torch._lazy.metrics.counter_value(name) for name in names})
