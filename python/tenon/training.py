"""tenon.LocalTrainingInstance trains a model on this machine, in compiled steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

from tenon import modes
from tenon._tenon import Graph, Loss, MemoryReport, Optimizer, Trainer, fail
from tenon.budgets import Budget, budgets_from
from tenon.capture.captured import NO_FALLBACK, Captured
from tenon.capture.fallback import Fallback, check_trainable
from tenon.capture.file import FileModel
from tenon.capture.host_calls import call_notes
from tenon.capture.models import capture_exported_program, exported, require_alone
from tenon.device_names import Devices, devices_for
from tenon.optim import from_torch, loss_from_torch
from tenon.runner import input_taker, result_giver
from tenon.signature import Signature
from tenon.structure import Nesting

_PRECISIONS = {None: False, "f32": False, "bf16": True}


@dataclass(frozen=True, kw_only=True)
class Training:
    """The training of tenon.compile(model, args, train=...): the arguments of LocalTrainingInstance besides the
    model."""

    loss: str | Loss | torch.nn.Module
    optimizer: str | Optimizer | torch.optim.Optimizer
    frozen: Sequence[str] = ()
    precision: str | None = None
    accumulate: int = 1
    seed: int = 0


class LocalTrainingInstance:
    """Trains a model: a module with example inputs, an ExportedProgram, a .pt2 file, or a Graph (which has one mode:
    eval() does not change its values).

        trainer = tenon.LocalTrainingInstance(model, loss="cross_entropy", optimizer=tenon.AdamW(lr=3e-4),
                                              example_inputs=(x,))
        loss = trainer.step(x, target=y)

    A step is forward, backward and update, compiled as one. You can also call the three one by one. The instance has
    its own copy of the parameters and buffers: `state_dict()` returns them, for `model.load_state_dict`.

    `loss` is a name ("cross_entropy", "mse", "output": the model's own), a tenon loss, or a module of torch.nn;
    `optimizer` is one of tenon's, its text, or one of torch.optim over the model's parameters. Parameters that need no
    gradient, and those that match a pattern in `frozen`, stay fixed. With precision="bf16", products are computed in
    bf16, from parameters in f32. With accumulate=4, an update uses the mean gradient of four steps.

    PyTorch runs calls that Tenon lacks, and computes their gradients by running them again under autograd. With
    fallback=False, an error lists all of them.

    One thread may use an instance at a time: a concurrent call is a tenon.Error, and changes nothing.
    """

    def __init__(
        self,
        model: Any,
        *,
        loss: str | Loss | torch.nn.Module,
        optimizer: str | Optimizer | torch.optim.Optimizer,
        example_inputs: tuple[Any, ...] = (),
        example_kwargs: dict[str, Any] | None = None,
        dynamic_shapes: Any = None,
        frozen: Sequence[str] = (),
        precision: str | None = None,
        accumulate: int = 1,
        threads: int = 0,
        seed: int = 0,
        device: Devices = (),
        fallback: bool = True,
    ) -> None:
        if precision not in _PRECISIONS:
            fail(f"precision must be 'f32' or 'bf16', got {precision!r}")
        self._source = _source_of(model, example_inputs, example_kwargs, dynamic_shapes, fallback)
        self._trainer = Trainer(
            self._source.training,
            self._source.inference,
            outputs=self._source.outputs,
            key_input=self._source.key_input,
            names=self._source.names,
            loss=_loss_from(loss),
            optimizer=_optimizer_from(optimizer, model),
            frozen=[*self._source.frozen, *frozen],
            bf16=_PRECISIONS[precision],
            accumulate=accumulate,
            threads=threads,
            seed=seed,
            devices=devices_for(device, self._source.gpu),
            training_fallback=self._source.training_calls or None,
            inference_fallback=self._source.inference_calls or None,
        )
        if self._source.training_calls:
            self._source.training_calls.add_gradients(self._trainer.step_graph)

    def initialize(self, budget: Budget | None = None) -> None:
        """Compiles the step. `budget` bounds the bytes of every call: states, results, values that forward() keeps
        for backward(), temporaries and scratch. If a call needs more, activations are computed again instead of kept;
        `memory_report` lists those of a step. If the budget is too small, the error names the minimum and the largest
        tensors. {"npu": "64MiB"} bounds the memory of a device: temporaries, scratch, constants and states; "cpu" is
        the host."""
        self._trainer.initialize(*budgets_from(budget))

    def initialize_backend(self, mem_size: int) -> None:
        """FlexFlow's name for `initialize`."""
        self.initialize(mem_size)

    @modes.run_outside
    def forward(self, *inputs: Any, target: Any = None, **kwargs: Any) -> tuple[Any, torch.Tensor | None]:
        """The model's outputs, and the loss; the loss is None after eval() without a target."""
        outputs, loss = self._trainer.forward(self._source.take(inputs, kwargs), _on_host(target))
        return self._source.give(outputs, inputs), loss

    @modes.run_outside
    def backward(self) -> dict[str, torch.Tensor]:
        """The gradients by parameter, summed over all backward() calls since the last update()."""
        return self._trainer.backward()

    def update(self) -> None:
        """Updates the parameters with the gradients."""
        self._trainer.update()

    @modes.run_outside
    def step(self, *inputs: Any, target: Any = None, **kwargs: Any) -> torch.Tensor:
        """forward, backward and update in one. Returns the loss."""
        return self._trainer.step(self._source.take(inputs, kwargs), _on_host(target))

    def zero_grad(self) -> None:
        """Drops gradients that no update() has used."""
        self._trainer.zero_grad()

    def train(self, mode: bool = True) -> LocalTrainingInstance:
        (self._trainer.train if mode else self._trainer.eval)()
        return self

    def eval(self) -> LocalTrainingInstance:
        """Switches forward() to inference: no dropout, fixed batch norm statistics."""
        return self.train(False)

    @property
    def training(self) -> bool:
        return self._trainer.training

    @modes.run_outside
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Copies of the parameters and buffers, by the module's names."""
        state, owners = self._source.state, self._source.owners
        known = set(self._trainer.state_names)
        copies = self._trainer.copy_states(sorted({owners[name] for name in state} & known))
        return {name: copies[owners[name]] if owners[name] in known else value.clone() for name, value in state.items()}

    @modes.run_outside
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Loads parameters and buffers, of the module or of another instance. If one does not fit, nothing changes."""
        names = self._source.state
        missing, unknown = names.keys() - state_dict.keys(), state_dict.keys() - names.keys()
        if missing or unknown:
            which = f"lacks '{min(missing)}'" if missing else f"has '{min(unknown)}', which the model has not"
            fail(f"the state_dict does not fit: it {which}")
        known = set(self._trainer.state_names)
        self.load_states({name: value for name, value in state_dict.items() if name in known})

    @property
    @modes.run_outside
    def states(self) -> dict[str, torch.Tensor]:
        """All states: parameters, buffers, "optimizer.…", "random.key". They share memory with the instance: writing to
        them changes the training. With devices, which keep states in their own memory, this copies all of them to the
        host, and the next step copies them back: read it again for newer values, and prefer `state_dict` and
        `load_states`, which move only what they name."""
        return self._trainer.states

    @modes.run_outside
    def load_states(self, states: Mapping[str, Any]) -> None:
        self._trainer.load_states(dict(states))

    @property
    def trained(self) -> list[str]:
        """The names of the trained parameters."""
        return self._trainer.trained

    def save(self, path: str | os.PathLike[str], cpus: Sequence[str] = ("native",)) -> None:
        """Writes one file (.tenon) with the current states, which `tenon train` and the C runtime continue to train
        without PyTorch and without a compiler. Its programs are `step`, `evaluate` and `predict`: tenon.load returns
        them. With accumulate=N it has `part` and `update` instead of `step`. The file names the calls that Tenon lacks,
        and their gradients: tenon.load runs them with PyTorch, a C program with functions of its own."""
        self._trainer.save(
            os.fspath(path),
            list(cpus),
            training_calls=call_notes(self._trainer.step_graph, self._source.training_calls),
            inference_calls=call_notes(self._trainer.predict_graph, self._source.inference_calls),
        )

    def enable_profiling(self, on: bool = True) -> None:
        """Times each task of each call from now on. Results stay the same, to the last bit."""
        self._trainer.enable_profiling(on)

    EnableProfiling = enable_profiling

    @property
    def profile(self) -> list[dict[str, Any]]:
        """The cost of each task of the last call: phase, name, location, microseconds, bytes."""
        return self._trainer.profile

    @property
    def peak_bytes(self) -> int:
        """The bytes that the last call needed: all that a budget covers."""
        return self._trainer.peak_bytes

    @property
    def memory_report(self) -> MemoryReport | None:
        """What a step computes twice to fit its budget, with the savings and the cost; print it for a table. None
        without a budget."""
        return self._trainer.memory_report

    def __repr__(self) -> str:
        return f"<tenon.LocalTrainingInstance of {len(self.trained)} parameters>"


LocalModelTrainingInstance = LocalTrainingInstance  # FlexFlow's name for it


def _loss_from(loss: Any) -> Loss:
    if isinstance(loss, str):
        return Loss(loss)
    return loss_from_torch(loss) if isinstance(loss, torch.nn.Module) else loss


def _optimizer_from(optimizer: Any, model: Any) -> Optimizer:
    if isinstance(optimizer, str):
        return Optimizer(optimizer)
    if isinstance(optimizer, torch.optim.Optimizer):
        if not isinstance(model, torch.nn.Module):
            fail("an optimizer of torch.optim knows the parameters of a module: give the module, or one of tenon's")
        return from_torch(optimizer, model)
    return optimizer


# ---- models ---------------------------------------------------------------------------------------------------------


@dataclass
class _Source:
    """A model in both modes, with its calling convention."""

    training: Graph
    inference: Graph
    outputs: int
    key_input: str
    frozen: list[str]
    state: dict[str, torch.Tensor]  # of the module
    owners: dict[str, str]  # for each name in `state`, the first name of the same tensor
    names: dict[str, str]  # of leaves with another name in the graphs
    take: Callable[[tuple[Any, ...], dict[str, Any]], list[Any]]  # from arguments to inputs of the graphs
    give: Callable[[list[Any], tuple[Any, ...]], Any]  # from outputs of the graphs to results
    gpu: int | None = None  # that the model is on
    training_calls: Fallback = field(default_factory=Fallback)  # the calls that PyTorch runs, of each graph
    inference_calls: Fallback = field(default_factory=Fallback)


def _source_of(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any, fallback: bool
) -> _Source:
    if isinstance(model, Graph):
        return _of_graph(model)
    if isinstance(model, (str, os.PathLike)):
        require_alone(args, kwargs, dynamic_shapes)
        return _of_file(FileModel(model), fallback)
    return _of_program(_exported_in_training(model, args, kwargs, dynamic_shapes), fallback)


@modes.run_outside
def _of_program(program: ExportedProgram, fallback: bool) -> _Source:
    traced, captured = capture_exported_program(program, training=True)
    _, inference = capture_exported_program(program, training=False)
    if not fallback:
        captured.check_supported(NO_FALLBACK)
        inference.check_supported(NO_FALLBACK)
    names = program.module_call_graph[0].signature.forward_arg_names
    in_spec, out_spec = program.call_spec.in_spec, traced.call_spec.out_spec
    signature = Signature(captured, Nesting.of_spec(in_spec), names)
    state = {name: value.detach() for name, value in program.state_dict.items()}
    frozen = [name for name, value in program.named_parameters() if not value.requires_grad]
    return _of_captured(captured, inference, signature, Nesting.of_spec(out_spec), state, frozen)


@modes.run_outside
def _of_file(file: FileModel, fallback: bool) -> _Source:
    modes = [file.captured(training, fallback=fallback) for training in (True, False)]
    signature = Signature(modes[0], file.arguments, file.argument_names)
    weights = file.program.weights
    unreadable = [text for text in weights.values() if isinstance(text, str)]
    if unreadable:
        fail(f"the model cannot be trained: {unreadable[0]}", file.path)
    state = {name: torch.from_dlpack(value) for name, value in weights.items()}
    return _of_captured(*modes, signature, file.results, state, file.program.frozen_parameters)


def _of_captured(
    captured: Captured,
    inference: Captured,
    signature: Signature,
    results: Nesting,
    state: dict[str, torch.Tensor],
    frozen: list[str],
) -> _Source:
    check_trainable(captured.graph, captured.fallback)
    take, give = input_taker(captured), result_giver(captured.outputs)
    owners = _owners(state)
    return _Source(
        captured.graph,
        inference.graph,
        outputs=_result_count(captured),
        key_input=captured.graph.inputs[-1].name if captured.has_key else "",
        frozen=[owners[name] for name in frozen],
        state=state,
        owners=owners,
        names={name: owner for name, owner in owners.items() if name != owner},
        take=lambda inputs, keywords: [_on_host(value) for value in take(signature.flatten(inputs, keywords))],
        give=lambda outputs, inputs: results.unflatten(give(outputs, pytree.tree_leaves(inputs))),
        gpu=captured.gpu,
        training_calls=captured.fallback,
        inference_calls=inference.fallback,
    )


@modes.run_outside
def _of_graph(graph: Graph) -> _Source:
    data = {leaf.name: leaf.data for leaf in graph.leaves if leaf.kind in ("parameter", "buffer")}
    state = {name: torch.from_dlpack(value) for name, value in data.items()}
    return _Source(
        graph,
        graph,
        outputs=len(graph.outputs),
        key_input="",
        frozen=[],
        state=state,
        owners={name: name for name in state},
        names={},
        take=lambda inputs, keywords: list(inputs),
        give=lambda outputs, inputs: outputs[0] if len(outputs) == 1 else outputs,
    )


def _on_host(value: Any) -> Any:
    """The batches of a training on a GPU come through the host."""
    return value.cpu() if isinstance(value, torch.Tensor) and value.is_cuda else value


def _owners(state: dict[str, torch.Tensor]) -> dict[str, str]:
    """Tied weights are one tensor under several names."""
    first: dict[Any, str] = {}
    place = {name: (value.data_ptr() or name, value.shape, value.stride()) for name, value in state.items()}
    return {name: first.setdefault(place[name], name) for name in state}


def _exported_in_training(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    if not isinstance(model, torch.nn.Module):
        if not isinstance(model, ExportedProgram):
            fail(
                f"a {type(model).__qualname__} cannot be trained: "
                "give a module, an ExportedProgram, a .pt2 file, or a Graph"
            )
        return exported(model, args, kwargs, dynamic_shapes)
    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        return exported(model, args, kwargs, dynamic_shapes)
    finally:
        for module, mode in modes.items():
            module.training = mode


def _result_count(captured: Captured) -> int:
    """Results come first among the outputs of a graph."""
    computed = ("result", "permuted", "view", "number")
    return max((output.index + 1 for output in captured.outputs if output.kind in computed), default=0)
