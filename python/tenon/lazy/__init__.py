"""Puts Tenon behind PyTorch's lazy tensors: operations on tensors of device "lazy" are recorded, and each step is
compiled and run as one graph.

    import tenon.lazy
    tenon.lazy.init()
    model.to("lazy")
    for x, y in batches:
        loss_fn(model(x.to("lazy")), y.to("lazy")).backward()
        optimizer.step()
        tenon.lazy.mark_step()     # here the step runs

All of it is C++ (extension/), which C++ programs call without Python. docs/lazy.md is the guide.
"""

from __future__ import annotations

import atexit
from typing import Any

import torch
import torch._lazy
import torch._lazy.metrics
import torch._lazy.ts_backend

from tenon._tenon import aten_compiler, fail
from tenon.lazy import build, patches
from tenon.pytorch_version import warn_if_unsupported

warn_if_unsupported()

__all__ = [
    "Metrics",
    "current_device",
    "device_count",
    "devices",
    "explain",
    "init",
    "is_available",
    "is_initialized",
    "mark_step",
    "memory_info",
    "metrics",
    "reset_metrics",
    "sync",
]

_extension: Any = None


def init() -> None:
    """Makes Tenon the backend of device "lazy", whether the TorchScript backend is initialized before or after. The
    first call on a machine builds an extension, which takes about a minute and is kept."""
    global _extension
    is_new = _extension is None
    if is_new:
        _extension = build.load()
    _extension.init(aten_compiler)
    if is_new:
        patches.apply(_extension)
        atexit.register(_extension.forget_graphs)  # the devices of its programs end with the process


def is_initialized() -> bool:
    return _extension is not None and _extension.is_in_charge()


def is_available() -> bool:
    return is_initialized()


def _loaded() -> Any:
    if _extension is None:
        fail("the lazy device is not there yet: call tenon.lazy.init() first")
    return _extension


# ---- devices --------------------------------------------------------------------------------------------------------


def device_count() -> int:
    return len(devices())


def devices() -> list[str]:
    """The names of the devices "lazy:0", "lazy:1", ...: the CPU, then those of tenon.devices(). Tensors are in
    the memory of the CPU between runs. The CPU runs what a device does not claim."""
    return _loaded().devices()


def current_device() -> int:
    return 0


def memory_info(device: str | torch.device = "lazy:0") -> dict[str, int]:
    """Bytes of a device: total and free (0 if the device does not tell), those of tensors on this lazy device, which
    are in the CPU's memory between runs, and those that programs hold on a device of a plug-in."""
    return _loaded().memory_info(str(device))


# ---- steps ----------------------------------------------------------------------------------------------------------


def mark_step(wait: bool = False) -> None:
    """Ends a step: compiles everything recorded so far, unless an equal graph was compiled before, and runs it. If that
    fails, it raises RuntimeError; reading one of its results later raises it, too."""
    for ordinal in range(device_count()):
        torch._lazy.mark_step(f"lazy:{ordinal}", wait)
    if failure := _extension.take_failure():
        raise RuntimeError(failure)


def sync() -> None:
    """Ends a step, and returns when all of it has run."""
    mark_step(wait=True)
    torch._lazy.wait_device_ops()


# ---- what happened --------------------------------------------------------------------------------------------------


class Metrics(dict[str, Any]):
    """A dict that prints as a table."""

    def __init__(self, counts: dict[str, Any], table: str) -> None:
        super().__init__(counts)
        self._table = table

    def __str__(self) -> str:
        return self._table


def metrics() -> Metrics:
    """The counts since init, or since reset_metrics:

    compiles, compile_seconds: graphs that were compiled. runs: runs of graphs; hits: those that needed no compile.
    fallbacks: how often PyTorch ran an op, by name, because the lazy device does not record it or because Tenon lacks
    it. torchscript_runs: runs of graphs that Tenon cannot run; refused has the reasons, internal_errors those that are
    bugs in Tenon. reused_bytes: results that were computed in the memory of an unused argument; copied_bytes: arguments
    that were copied because they were still in use.
    """
    return Metrics(*_loaded().metrics())


def reset_metrics() -> None:
    _loaded().reset_metrics()


def explain() -> str:
    """The last compiled graph, its segments, and the loops of its kernels."""
    text = _loaded().last_graph()
    if not text:
        fail("no graph was compiled yet: do something with a tensor on device 'lazy', then call tenon.lazy.mark_step()")
    return text
