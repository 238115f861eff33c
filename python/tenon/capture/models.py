"""From a model in any form to a Captured: trace it where it is not traced."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch import fx
from torch.export import ExportedProgram

from tenon._tenon import fail
from tenon.capture.calls import is_mutable
from tenon.capture.captured import Captured
from tenon.capture.fx import import_exported_program

_TRANSFORMS = "torch._functorch.predispatch"
_TRANSFORM_FILES = tuple(f"_functorch/{name}.py" for name in ("apis", "eager_transforms", "predispatch", "vmap"))


def exported(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any) -> ExportedProgram:
    """The exported program of a module, of a function, or of what FX makes of them."""
    if isinstance(model, ExportedProgram):
        require_alone(args, kwargs, dynamic_shapes)
        return model
    if not callable(model):
        what = type(model).__qualname__
        fail(
            f"a model of type {what} cannot be compiled: give a module, a function, an ExportedProgram, or a .pt2 file"
        )
    if isinstance(args, torch.Tensor) or not isinstance(args, (tuple, list)):
        fail(f"the example arguments must be a tuple, got a {type(args).__qualname__}")
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    try:
        with _no_collections(), _no_source():
            return torch.export.export(module, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:
        if _is_of_transform(error):
            _fail_transform(error)
        raise


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """A trace makes objects by the hundred thousand and keeps most of them: looking for garbage among them, and among
    all that the process has imported, takes a third of its time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _no_source() -> contextlib.AbstractContextManager[Any]:
    """A trace writes and compiles the Python source of its module again and again: a tenth of its time. This leaves it
    until somebody runs the module."""
    try:
        from torch.fx._lazy_graph_module import _use_lazy_graph_module
    except ImportError:  # it is private, and may go
        return contextlib.nullcontext()
    return _use_lazy_graph_module(True)


def require_alone(args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any) -> None:
    if args or kwargs or dynamic_shapes:
        fail("an exported program brings its arguments along: give it alone")


class _Function(torch.nn.Module):
    """A function as a module, with its signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()

        def forward(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        self.forward = functools.wraps(function)(forward) if _has_signature(function) else forward
        # Else a trace has only the lines of functions named forward. Some versions of PyTorch have only those.
        if register := getattr(fx.proxy, "_register_stack_trace_anchor", None):
            register(function)


def _has_signature(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function)
    except ValueError:  # a function written in C
        return False
    return True


def _is_of_transform(error: Exception) -> bool:
    files = (frame.filename.replace(os.sep, "/") for frame in traceback.extract_tb(error.__traceback__))
    return any(file.endswith(_TRANSFORM_FILES) for file in files)


def _fail_transform(error: Exception) -> NoReturn:
    fail(
        "PyTorch cannot export what the model does with a transform of torch.func (grad, jvp): give the model to "
        f"torch.compile with backend='tenon', which takes it; PyTorch says: {_first_line(error)}"
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def capture_exported_program(
    program: ExportedProgram, training: bool | None = None
) -> tuple[ExportedProgram, Captured]:
    """The program, and what the importer makes of it. Where a fallback call shares memory with its operands,
    writes in place would go unseen: then the program is one that has none."""
    program = _without_autocast(_without_transforms(program))
    captured = import_exported_program(program, training)
    may_share = any(call.may_share_memory for call in captured.fallback.calls.values())
    if may_share and writes_in_place(program.graph_module):
        program = _functional(program, captured)
        captured = import_exported_program(program, training)
    return program, captured


def _functional(program: ExportedProgram, captured: Captured) -> ExportedProgram:
    try:
        return _run_decompositions(program)
    except Exception as error:
        names = ", ".join(sorted({name for name, _, _ in captured.unsupported}))
        fail(
            f"the model writes to tensors in place, and of the calls that Tenon leaves to PyTorch ({names}) some may "
            "write to their operands or give views of them; PyTorch cannot make a program without writes of it: give "
            f"the model to torch.compile with backend='tenon'; PyTorch says: {_first_line(error)}"
        )


def _without_transforms(program: ExportedProgram) -> ExportedProgram:
    """torch.vmap leaves calls of its own in an export, which another trace resolves. Those of torch.func.grad it
    cannot: there the export has lost the values."""
    if not any(getattr(node.target, "__module__", "") == _TRANSFORMS for node in program.graph.nodes):
        return program
    try:
        return _run_decompositions(program)
    except RuntimeError as error:
        return _fail_transform(error)


def _without_autocast(program: ExportedProgram) -> ExportedProgram:
    """Regions of autocast become casts. Those that PyTorch cannot resolve, it runs."""
    modules = [module for module in program.graph_module.modules() if isinstance(module, fx.GraphModule)]
    if not any(_is_autocast(node) for module in modules for node in module.graph.nodes):
        return program
    try:
        return _run_decompositions(program)
    except Exception:
        return program


def _is_autocast(node: fx.Node) -> bool:
    return node.target is torch.ops.higher_order.wrap_with_autocast and bool(node.args[2])


def _run_decompositions(program: ExportedProgram) -> ExportedProgram:
    """The same program in functional form: nothing is decomposed."""
    with _no_collections(), warnings.catch_warnings():  # PyTorch warns of its own use of LeafSpec
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
        return program.run_decompositions({})


def writes_in_place(module: fx.GraphModule) -> bool:
    return any(is_mutable(node.target) for node in module.graph.nodes)
