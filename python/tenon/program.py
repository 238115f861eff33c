"""tenon.compile: makes a Program from a PyTorch model."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.export import ExportedProgram

from tenon import modes
from tenon._tenon import Error, Executable, Graph, compile_graph, fail
from tenon.artifact import load_bytes
from tenon.budgets import Budget, budgets_from
from tenon.capture.captured import NO_FALLBACK, Captured, Row
from tenon.capture.file import FileModel
from tenon.capture.models import capture_exported_program, exported, require_alone
from tenon.device_names import Devices, devices_for, devices_from
from tenon.report import report
from tenon.runner import executor, make_runner
from tenon.saving import SavedModel, asserted_by, saved_model
from tenon.signature import Signature
from tenon.structure import Nesting

if TYPE_CHECKING:
    from tenon.training import LocalTrainingInstance, Training


class Program:
    """A compiled model. Call it like the model, for inference: the results are not part of an autograd graph.

    A call checks its arguments: a tenon.Error names an argument that does not fit. Arguments may have any strides.
    Several threads may call a Program at once.

    The Program shares buffers with its module or ExportedProgram, and also parameters, unless it is frozen and its
    kernels need them in another layout. A buffer that the model updates (a counter, the statistics of a batch norm in
    training) is updated in the module's own tensor, as in a call of the module. If the model writes an argument, the
    argument is written.

    Each call draws a key of random numbers from PyTorch's generator: torch.manual_seed makes them repeatable, but they
    differ from PyTorch's.

    A pickle of it is the file that `save` writes; unpickling gives a tenon.LoadedProgram, and so does copy.deepcopy.
    """

    def __init__(
        self,
        captured: Captured,
        executable: Executable,
        signature: Signature,
        results: Nesting,
        options: dict[str, Any],
    ) -> None:
        self._captured = captured
        self._executable = executable
        self._signature = signature
        self._results = results
        self._options = options  # of compile_graph
        self._run = make_runner(captured, executor(captured, executable))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self._signature.flatten(args, kwargs)
        try:
            results = self._run(values)
        except Error:
            _check_untransformed(values)
            raise
        return self._results.unflatten(results)

    def results_on(self, device: str) -> Callable[..., Any]:
        """A function that is called like the program, and leaves tensors that it returns in the memory of a device, as
        tenon.DeviceTensor: another program that runs there takes them without a transfer. Results that are views or
        arguments stay what they are."""
        outputs = self._captured.outputs
        others = {output.index for output in outputs if output.kind in ("permuted", "view", "number")}
        others |= {assertion.index for assertion in self._captured.assertions if assertion.index is not None}
        kept = {output.index for output in outputs if output.kind == "result"} - others
        run = make_runner(self._captured, lambda inputs: self._executable.run(inputs, device, kept))

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._results.unflatten(run(self._signature.flatten(args, kwargs)))

        return call

    @property
    def graph(self) -> Graph:
        """The compiled graph, with the external calls that PyTorch runs."""
        return self._captured.graph

    @property
    def signature(self) -> str:
        """The inputs, one per line."""
        return str(self._signature)

    @property
    def nodes(self) -> list[Row]:
        """The nodes of the FX graph that was compiled."""
        return self._captured.rows

    @property
    def unsupported(self) -> list[tuple[str, str, Any]]:
        """(target, reason, location) of each call that PyTorch runs."""
        return self._captured.unsupported

    @property
    def segments(self) -> list[tuple[str, list[str]]]:
        """The segments, in order: ("cpu", "fallback" or a device, the names of the ops)."""
        return self._executable.segments

    @property
    def placement(self) -> list[dict[str, Any]]:
        """With devices, of each node: name, op, the device and segment that run it, and why devices declined it."""
        return self._executable.placement

    @property
    def kernels(self) -> Any:
        return self._executable.kernels

    @property
    def is_from_cache(self) -> bool:
        """Whether nothing was compiled, because $TENON_CACHE had the same program from another process."""
        return self._executable.is_from_cache

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one file (.tenon) that tenon.load, `tenon run` and the C runtime run, without PyTorch. The file checks
        the model's assertions, and is called like the model; result classes that a file cannot name become dictionaries
        or tuples. A file with code for devices also has the program for the CPU. The file names the external calls
        that it needs from its host: PyTorch in Python, functions of tenon_register_call in C."""
        self._whole.save(os.fspath(path), self._saved.notes)

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.tenon")
            self.save(path)
            with open(path, "rb") as file:
                return load_bytes, (file.read(), {"threads": self._options["threads"]})

    def __copy__(self) -> Program:
        """Shares all with this one."""
        return self

    def artifact_bytes(self) -> dict[str, int]:
        """The size of the file that `save` would write: its "weights", its "code", and the whole "file". Writes no
        file. Compiles nothing, unless the program has devices: its file has a program for the CPU, too. Arguments that
        the model returns, which a file copies, do not count."""
        return self._executable.artifact_bytes(self._saved.notes)

    @functools.cached_property
    def _saved(self) -> SavedModel:
        return saved_model(self._captured, self._signature, self._results)

    @functools.cached_property
    def _whole(self) -> Executable:
        """Compiles a model that returns arguments or weights unchanged once more: in a file they are results."""
        saved = self._saved
        if saved.graph is None:
            return self._executable
        return compile_graph(
            saved.graph,
            fallback=self._captured.fallback,
            assertions=saved.assertions,
            **self._options,
        )

    def __str__(self) -> str:
        return report(self)

    def __repr__(self) -> str:
        return f"<tenon.Program of {len(self.graph.nodes)} nodes in {len(self.segments)} segments>"


@overload
def compile(
    model: Any,
    args: tuple[Any, ...] = ...,
    kwargs: dict[str, Any] | None = ...,
    *,
    dynamic_shapes: Any = ...,
    threads: int = ...,
    fallback: bool = ...,
    freeze: bool = ...,
    device: Devices = ...,
    budget: Budget | None = ...,
    train: None = ...,
) -> Program: ...
@overload
def compile(
    model: Any,
    args: tuple[Any, ...] = ...,
    kwargs: dict[str, Any] | None = ...,
    *,
    dynamic_shapes: Any = ...,
    threads: int = ...,
    fallback: bool = ...,
    device: Devices = ...,
    budget: Budget | None = ...,
    train: Training,
) -> LocalTrainingInstance: ...
def compile(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    threads: int = 0,
    fallback: bool = True,
    freeze: bool = True,
    device: Devices = (),
    budget: Budget | None = None,
    train: Training | None = None,
) -> Program | LocalTrainingInstance:
    """Compiles a model: an ExportedProgram, a .pt2 file, or a module, an FX graph module or a function with example
    arguments.

    `dynamic_shapes` is that of torch.export.export. `threads` is the number of threads of a call; 0 is all. PyTorch
    runs calls that Tenon lacks; with fallback=False, an error lists all of them with their source lines. A frozen
    program keeps the current parameters, packed for its kernels; with freeze=False each call reads them.

    `device` is the name of a device, or names in order of preference: each node runs on the first that claims it, and
    the CPU runs the rest. A backend of tenon.loops.register_backend is a device too. A model on a GPU runs on "cuda"
    unless another device is named: it takes and gives PyTorch's tensors there.

    `budget` bounds the bytes of a call's temporaries and scratch, and of results whose sizes the call computes; values
    are computed twice to fit. {"npu": "64MiB"} bounds the memory of a device: temporaries, scratch, constants and
    states. Too small a budget is an error that names what is needed: of tenon.compile, or of the call, for sizes that
    it computes and inputs that it must copy.

    With `train`, a tenon.Training, it returns a tenon.LocalTrainingInstance instead of a Program: its `save` writes a
    training file.
    """
    if train is not None:
        trainer = _training_of(train, model, args, kwargs, dynamic_shapes, threads, device, fallback)
        if budget is not None:
            trainer.initialize(budget)
        return trainer
    host, of_devices = budgets_from(budget)
    options = {"threads": threads, "freeze": freeze, "devices": devices_from(device)}
    options |= {"budget": host, "device_budgets": of_devices}
    if isinstance(model, (str, os.PathLike)):
        require_alone(args, kwargs, dynamic_shapes)
        return _compiled_file(model, fallback, options)
    return _compiled(exported(model, args, kwargs, dynamic_shapes), fallback, options)


@modes.run_outside
def _compiled_file(path: str | os.PathLike[str], fallback: bool, options: dict[str, Any]) -> Program:
    file = FileModel(path)
    captured = file.captured(fallback=fallback)
    signature = Signature(captured, file.arguments, file.argument_names)
    return _program_of(captured, signature, file.results, options)


@modes.run_outside
def _compiled(program: ExportedProgram, fallback: bool, options: dict[str, Any]) -> Program:
    traced, captured = capture_exported_program(program)
    if not fallback:
        captured.check_supported(NO_FALLBACK)
    _check_updates(traced)
    names = program.module_call_graph[0].signature.forward_arg_names
    signature = Signature(captured, Nesting.of_spec(program.call_spec.in_spec), names)
    return _program_of(captured, signature, Nesting.of_spec(traced.call_spec.out_spec), options)


def _program_of(captured: Captured, signature: Signature, results: Nesting, options: dict[str, Any]) -> Program:
    options = options | {"devices": devices_for(options["devices"], captured.gpu)}
    on_gpu = [device for device in captured.weight_devices if device.type == "cuda"]
    if on_gpu and not options["freeze"]:
        fail(
            f"with freeze=False each call reads the parameters, and those on {on_gpu[0]} are copied when the model is "
            "compiled: give the model to torch.compile with backend='tenon', which reads them"
        )
    executable = compile_graph(captured.graph, fallback=captured.fallback, assertions=asserted_by(captured), **options)
    return Program(captured, executable, signature, results, options)


def _training_of(
    train: Training,
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    threads: int,
    device: Devices,
    fallback: bool,
) -> LocalTrainingInstance:
    from tenon.training import LocalTrainingInstance  # imported here, because it imports this module

    return LocalTrainingInstance(
        model,
        **vars(train),
        example_inputs=args,
        example_kwargs=kwargs,
        dynamic_shapes=dynamic_shapes,
        threads=threads,
        device=device,
        fallback=fallback,
    )


def _check_updates(program: ExportedProgram) -> None:
    """A buffer on a GPU is copied when the model is compiled: an update would not reach it."""
    weights = {**program.constants, **program.state_dict}
    for spec in program.graph_signature.output_specs:
        data = weights.get(spec.target)
        if spec.target is not None and isinstance(data, torch.Tensor) and data.is_cuda:
            fail(
                f"the model updates '{spec.target}', which is on {data.device}: give the model to torch.compile with "
                "backend='tenon', or train it with tenon.LocalTrainingInstance"
            )


def _check_untransformed(values: list[Any]) -> None:
    if any(isinstance(value, torch.Tensor) and is_functorch_wrapped_tensor(value) for value in values):
        fail(
            "a transform of torch.func (vmap, grad, jvp) cannot look into a compiled program: transform the model, and "
            "give that to torch.compile with backend='tenon'"
        )
