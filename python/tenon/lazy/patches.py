"""Python functions of PyTorch that `init` replaces, until the process ends."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._lazy.ts_backend

_reduce = torch.Tensor._reduce_ex_internal


def apply(extension: Any) -> None:
    torch._C._lazy_ts_backend._init = _leave_as_it_is
    torch._C._lazy._reset_metrics = functools.partial(_reset_metrics, extension, torch._C._lazy._reset_metrics)
    torch._C._lazy._get_graph_hash = extension.graph_hash
    torch.Tensor._reduce_ex_internal = _reduce_lazy
    if not hasattr(torch, "lazy"):  # torch.utils.checkpoint needs a module for each device
        torch._register_device_module("lazy", sys.modules["tenon.lazy"])


def _leave_as_it_is() -> None:
    """Replaces the initialization of the TorchScript backend: Tenon contains it, and stays in charge."""


def _reset_metrics(extension: Any, reset: Callable[[], None]) -> None:
    extension.keep_eager_calls()
    reset()


def _reduce_lazy(self: torch.Tensor, protocol: int) -> Any:
    """For torch.save and pickle: a lazy tensor has no memory of its own, so they store its copy on the CPU."""
    if self.device.type != "lazy":
        return _reduce(self, protocol)
    rebuild = torch._utils._rebuild_device_tensor_from_cpu_tensor
    return rebuild, (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad)
