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


def eager_calls() -> Counter[str]:
    """The calls that the lazy device does not record, since the process began: PyTorch ran them one by one."""
    names = [name for name in torch._lazy.metrics.counter_names() if name.startswith(_EAGER) and name != _READ]
    return Counter({name: torch._lazy.metrics.counter_value(name) for name in names})
