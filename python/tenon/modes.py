"""Runs Tenon's own PyTorch code outside of the caller's modes.

    with torch.device("meta"), torch.autocast("cpu"):
        program(x)

The caller's code sees its modes: a model while it is traced. Tenon's own code must not: the tensor of a key of random
numbers, the views that it returns, the calls of the fallback.

The default dtype and the setting for deterministic algorithms stay, because they belong to the process, and Tenon's
code does not depend on them. The gradient mode stays, too.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import torch
from torch._C import _is_any_autocast_enabled, _len_torch_dispatch_stack, _len_torch_function_stack
from torch.overrides import _pop_mode, _push_mode
from torch.utils._python_dispatch import _disable_current_modes

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def are_on() -> bool:
    return _see_calls() or _is_any_autocast_enabled() or torch.is_inference_mode_enabled()


def _see_calls() -> bool:
    """Whether a mode intercepts PyTorch calls: a device as a context, a default device, a fake or a functional mode, a
    user's TorchFunctionMode or TorchDispatchMode."""
    return _len_torch_function_stack() > 0 or _len_torch_dispatch_stack() > 0


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Turns all modes of the caller off."""
    grad = torch.is_grad_enabled()
    with (
        _no_function_modes(),
        _disable_current_modes(),
        torch._C._DisablePythonDispatcher(),
        torch._C._DisableAutocast(),
        torch.inference_mode(False),
        torch.set_grad_enabled(grad),
    ):
        yield


@contextlib.contextmanager
def _no_function_modes() -> Iterator[None]:
    modes = [_pop_mode() for _ in range(_len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


def run_outside(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Makes the function run outside of the caller's modes."""

    @functools.wraps(function)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if not are_on():
            return function(*args, **kwargs)
        with outside():
            return function(*args, **kwargs)

    return run


def run_unseen(function: Callable[[Any], _Result]) -> Callable[[Any], _Result]:
    """Makes the function run outside of modes that intercept PyTorch calls. It costs a tenth of a microsecond: for the
    work of each program call, which makes, cuts and returns tensors."""

    def run(argument: Any) -> _Result:
        if not _len_torch_function_stack() and not _len_torch_dispatch_stack():
            return function(argument)
        with outside():
            return function(argument)

    return run


@run_outside
def detached(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_neg()
