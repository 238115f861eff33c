"""PyTorch's lazy tensors with Tenon behind them: what is done to a tensor on device "lazy" is recorded, and each step
is compiled and run as one graph.

    import tenon.lazy
    tenon.lazy.init()
    model.to("lazy")
    for x, y in batches:
        loss_fn(model(x.to("lazy")), y.to("lazy")).backward()
        optimizer.step()
        tenon.lazy.mark_step()     # here the step runs

docs/lazy.md is the guide.
"""

from __future__ import annotations

import atexit
from typing import Any

import torch
import torch._lazy
import torch._lazy.ts_backend

from tenon._tenon import fail
from tenon.lazy import build, patches, recorded
from tenon.lazy.metrics import Metrics
from tenon.lazy.programs import Programs

__all__ = [
    "Metrics",
    "current_device",
    "device_count",
    "explain",
    "init",
    "is_available",
    "is_initialized",
    "mark_step",
    "metrics",
    "reset_metrics",
    "sync",
]

_programs = Programs()
_extension: Any = None


def init() -> None:
    """Puts Tenon in charge of device "lazy", whether the TorchScript backend was initialized before or will be. The
    first call on a machine builds an extension, which takes about a minute and is kept."""
    global _extension
    if _extension is not None:
        _extension.init(_programs)
        return
    _extension = _programs.extension = build.load()
    _extension.init(_programs)
    _extension.record_calls_of(recorded.overloads())
    recorded.decompose_composites()
    patches.apply(_programs)
    atexit.register(_forget)


def is_initialized() -> bool:
    return _extension is not None and _extension.is_in_charge()


def is_available() -> bool:
    return is_initialized()


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def _forget() -> None:
    """Programs are Python's: they go before the interpreter does."""
    _programs.last = None
    _extension.forget_graphs()


def _check_initialized() -> None:
    if _extension is None:
        fail("the lazy device is not there yet: call tenon.lazy.init() first")


# ---- steps ----------------------------------------------------------------------------------------------------------


def mark_step(wait: bool = False) -> None:
    """Ends a step: everything recorded so far is compiled, if its like was not before, and run. Where that fails it
    raises RuntimeError, and so does, later, whoever asks for one of its results."""
    _check_initialized()
    torch._lazy.mark_step(wait=wait)
    if failure := _extension.take_failure():
        raise RuntimeError(failure)


def sync() -> None:
    """Ends a step, and comes back when all of it has run."""
    mark_step(wait=True)
    torch._lazy.wait_device_ops()


# ---- what happened --------------------------------------------------------------------------------------------------


def metrics() -> Metrics:
    """What happened since init, or since reset_metrics:

    compiles, compile_seconds: graphs that were compiled. runs: of graphs; hits: those of a graph that was compiled
    before. fallbacks: how often PyTorch ran an op, by name: one that the lazy device does not record, or that Tenon
    lacks. torchscript_runs: of graphs that Tenon cannot run at all; refused says why, and internal_errors where that is
    a mistake of Tenon's. reused_bytes: of results that took the memory of an argument that nobody needed any more;
    copied_bytes: of arguments that somebody did need.
    """
    _check_initialized()
    return _programs.metrics()


def reset_metrics() -> None:
    _check_initialized()
    _programs.reset()


def explain() -> str:
    """The last graph that was compiled, its segments, and the loops of its kernels."""
    _check_initialized()
    if _programs.last is None:
        fail("no graph was compiled yet: do something with a tensor on device 'lazy', then call tenon.lazy.mark_step()")
    return str(_programs.last)
