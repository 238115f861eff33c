"""The name of the call of an FX node, and its source line in the model."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch
from torch import fx


def target_name(target: Any) -> str:
    """PyTorch's name of a target: "aten.add.Tensor", "_operator.mul", "higher_order.cond"."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    return f"{target.__module__}.{target.__name__}"


def location_of(node: fx.Node) -> tuple[str, int] | None:
    return _user_line(node.stack_trace) if node.stack_trace else None


_FRAME = re.compile(r'File "(.+?)", line (\d+)')


@functools.lru_cache(maxsize=4096)
def _user_line(trace: str) -> tuple[str, int] | None:
    """The innermost frame outside of PyTorch and installed packages; or else outside of PyTorch."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace) if not _is_of_torch(file)]
    own = [frame for frame in frames if "site-packages" not in frame[0] and "dist-packages" not in frame[0]]
    return (own or frames or [None])[-1]


def _is_of_torch(file: str) -> bool:
    return file.startswith(("torch/", "<eval_with_key>")) or "-packages/torch/" in file
