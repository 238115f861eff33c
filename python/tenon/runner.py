"""Runs a captured graph on flat lists of values. The front ends add their calling conventions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tenon import _tenon, modes
from tenon._tenon import Expr
from tenon.capture.captured import Assumptions, Captured, DerivedSize, Input, Layout, Output, Window
from tenon.cuda_graphs import GraphedRun
from tenon.device_names import gpu_name

Run = Callable[[Sequence[Any]], list[Any]]

with modes.outside():
    _BYTE = torch.zeros(1, dtype=torch.uint8)


def make_runner(captured: Captured, execute: Run) -> Run:
    """Makes a function from the caller's values to the caller's results. It contains only the steps that the graph
    needs."""
    run = _complete(captured, execute)
    return run if run is execute else modes.run_unseen(run)


def executor(captured: Captured, executable: _tenon.Executable, graphs: bool = False) -> Run:
    """Runs the graph of a model. Of a model on a GPU, the results are PyTorch's tensors there; with `graphs`, by CUDA
    graphs."""
    if captured.gpu is None:
        return executable.run
    device = gpu_name(captured.gpu)
    asserted = {assertion.index for assertion in captured.assertions}
    kept = {output.index for output in captured.outputs if output.device is not None and output.device.type == "cuda"}
    kept -= asserted
    if graphs and len(kept) == len(captured.graph.outputs) and not captured.graph.updates and not captured.fallback:
        return modes.run_unseen(GraphedRun(executable, device, kept))
    return modes.run_unseen(lambda inputs: executable.run(inputs, device, kept, True))


def _complete(captured: Captured, execute: Run) -> Run:
    run = execute if _takes_the_inputs(captured) else _with_inputs(captured, execute)
    if captured.assertions:
        run = _with_assertions(captured, run)
    tokens = [position for position, given in enumerate(captured.inputs) if given.kind == "token"]
    if tokens or any(result.token for call in captured.fallback.calls.values() for result in call.results):
        return _with_tokens(captured, run, tokens)
    return run if _gives_the_results(captured) else _with_outputs(captured.outputs, run)


def assumption_check(assumptions: Assumptions) -> Callable[[Sequence[Any]], bool]:
    """Whether a call's values have sizes that the graph was made for. Remembers the sizes that it has seen."""
    places = list(assumptions.places.values())
    holds = functools.lru_cache(maxsize=1024)(assumptions.hold)
    return lambda args: holds(tuple(_size_at(args, place) for place in places))


# ---- inputs ---------------------------------------------------------------------------------------------------------


def _takes_the_inputs(captured: Captured) -> bool:
    plain = all(given.kind == "tensor" for given in captured.inputs)
    return plain and not captured.has_key and captured.graph_inputs == list(range(len(captured.inputs)))


def input_taker(captured: Captured) -> Run:
    """From the caller's values to the inputs of the graph, without the key."""
    if all(isinstance(source, int) for source in captured.graph_inputs):
        takes = [(position, _conversion(captured.inputs[position])) for position in captured.graph_inputs]
        return lambda args: [
            args[position] if convert is None else convert(args[position]) for position, convert in takes
        ]
    takers = [_taker(captured, source) for source in captured.graph_inputs]
    return lambda args: [take(args) for take in takers]


def _taker(captured: Captured, source: int | Window | DerivedSize) -> Callable[[Sequence[Any]], Any]:
    if isinstance(source, DerivedSize):
        return lambda args: _BYTE.expand(source.compute(*(_size_at(args, place) for place in source.places)))
    if isinstance(source, Window):
        position, view = source.position, _memory_view(source.layout)
        return lambda args: view(args[position], args, 0)
    convert = _conversion(captured.inputs[source])
    return (lambda args: args[source]) if convert is None else (lambda args: convert(args[source]))


def _with_inputs(captured: Captured, execute: Run) -> Run:
    take = input_taker(captured)
    has_key = captured.has_key

    def run(args: Sequence[Any]) -> list[Any]:
        inputs = take(args)
        if has_key:
            inputs.append(random_key())
        return execute(inputs)

    return run


def _conversion(given: Input) -> Callable[[Any], torch.Tensor] | None:
    if given.kind != "number":
        return None
    return (lambda value: torch.tensor(value, dtype=torch.float64)) if given.size is None else _BYTE.expand


def random_key() -> torch.Tensor:
    """The key of a run's random numbers: (seed, offset) of PyTorch's generator, so that torch.manual_seed makes runs
    repeatable."""
    key = torch.empty(2, dtype=torch.int64).random_()
    key[1] = 0
    return key


# ---- outputs --------------------------------------------------------------------------------------------------------


def _gives_the_results(captured: Captured) -> bool:
    plain = len(captured.graph.outputs) == len(captured.outputs)
    return plain and all(output.kind == "result" and output.index == i for i, output in enumerate(captured.outputs))


def result_giver(outputs: list[Output]) -> Callable[[list[Any], Sequence[Any]], list[Any]]:
    """From the outputs of the graph and the caller's values to the caller's results."""
    gives = [_giver(output) for output in outputs]
    return lambda results, args: [give(results, args) for give in gives]


def _with_outputs(outputs: list[Output], run: Run) -> Run:
    give = result_giver(outputs)
    return lambda args: give(run(args), args)


def _giver(output: Output) -> Callable[[list[Any], list[Any]], Any]:
    index, value = output.index, output.value
    if output.kind == "result":
        return lambda results, args: results[index]
    if output.kind == "permuted":
        return lambda results, args: results[index].permute(value)
    if output.kind == "view":
        view = _view(value)
        return lambda results, args: view(results[index], args)
    if output.kind == "view of input":
        view = _view(value)
        return lambda results, args: view(args[index], args)
    if output.kind == "number":
        return lambda results, args: value(results[index].item())
    if output.kind == "input":
        return lambda results, args: args[index]
    return lambda results, args: value


def _view(layout: Layout) -> Callable[[torch.Tensor, Sequence[Any]], torch.Tensor]:
    view = _memory_view(layout)

    def of(base: torch.Tensor, args: Sequence[Any]) -> torch.Tensor:
        if isinstance(base, _tenon.DeviceTensor):
            _tenon.fail(f"a result is a view of an argument that lies on {base.device}: give a tensor of the CPU")
        return view(base, args, base.storage_offset())

    return of


def _memory_view(layout: Layout) -> Callable[[torch.Tensor, Sequence[Any], int], torch.Tensor]:
    """The memory of a tensor, starting at one of its elements."""
    sizes, strides, offset = layout.sizes, layout.strides, layout.offset
    if not layout.places:
        return lambda base, args, start: base.as_strided(sizes, strides, start + offset)

    def view(base: torch.Tensor, args: Sequence[Any], start: int) -> torch.Tensor:
        known = {name: _size_at(args, place) for name, place in layout.places.items()}

        def number(size: int | Expr) -> int:
            return size if isinstance(size, int) else size.evaluate(known)

        return base.as_strided([*map(number, sizes)], [*map(number, strides)], start + number(offset))

    return view


def _size_at(args: Sequence[Any], place: tuple[int, int | None]) -> int:
    position, dim = place
    return args[position] if dim is None else args[position].shape[dim]


def _with_tokens(captured: Captured, run: Run, given: list[int]) -> Run:
    """With the tensors that the fallback keeps: those given to it, and those that it gives."""
    names = [captured.inputs[position].name for position in given]
    wanted = [output.value for output in captured.outputs if output.kind == "token"]
    places = [position for position, output in enumerate(captured.outputs) if output.kind == "token"]
    with_fallback = captured.fallback.run

    def complete(args: Sequence[Any]) -> list[Any]:
        tokens = {name: args[position] for name, position in zip(names, given, strict=True)}
        results, kept = with_fallback(finish, args, tokens, wanted)
        for place, tensor in zip(places, kept, strict=True):
            results[place] = tensor
        return results

    finish = _with_outputs(captured.outputs, run)
    return complete


def _with_assertions(captured: Captured, run: Run) -> Run:
    checked = [assertion for assertion in captured.assertions if assertion.index is not None]

    def complete(args: Sequence[Any]) -> list[Any]:
        results = run(args)
        for assertion in checked:
            if not results[assertion.index]:
                _tenon.fail(assertion.message, *(assertion.location or ()))
        return results

    return complete
