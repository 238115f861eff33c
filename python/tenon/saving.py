"""Prepares a model for a file: every result is an output of the graph, and a note says how the model is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tenon import _tenon
from tenon._tenon import Graph
from tenon.capture.captured import Captured, DerivedSize, Input, Output, Window
from tenon.capture.host_calls import call_notes
from tenon.signature import Signature
from tenon.structure import Nesting, Tree, parameters_of

_NUMBERS = {int: "int", float: "float", bool: "bool"}


@dataclass
class SavedModel:
    graph: Graph | None  # None: the model's own graph has all results
    assertions: list[Any]
    notes: dict[str, str]


def asserted_by(captured: Captured) -> list[tuple[Any, ...]]:
    """In the form of compile_graph's argument."""
    return [(each.message, each.location, each.index, each.guard) for each in captured.assertions]


def saved_model(captured: Captured, signature: Signature, results: Nesting) -> SavedModel:
    notes = call_notes(captured.graph, captured.fallback)
    if captured.has_key:
        notes["key_input"] = captured.graph.inputs[-1].name
    if any(isinstance(source, (Window, DerivedSize)) for source in captured.graph_inputs):
        # not expressible as a form: its inputs are passed in order
        return SavedModel(None, asserted_by(captured), notes)
    place = {position: number for number, position in enumerate(captured.graph_inputs)}
    leaves = [_argument(given, place.get(position)) for position, given in enumerate(captured.inputs)]
    sources: list[tuple[str, Any]] = []
    given = [_result(output, captured, place, sources) for output in captured.outputs]
    arguments = signature.nesting.tree.with_leaves(iter(leaves))
    parameters = parameters_of(arguments, signature.argument_names)
    notes["call"] = _tenon.call_form_text(parameters, results.tree.with_leaves(iter(given)).plain())
    assertions = asserted_by(captured)
    asserted = sum(index is not None for _, _, index, _ in assertions)
    is_whole = sources == [("output", i) for i in range(len(captured.graph.outputs) - asserted)]
    if is_whole:
        return SavedModel(None, assertions, notes)
    return SavedModel(*_tenon.whole_model(captured.graph, sources, assertions), notes)


def _argument(given: Input, number: int | None) -> Tree:
    """Describes a leaf of the arguments; `number` is the graph's input."""
    if given.kind == "constant":
        return Tree("constant", given.value)
    if given.kind == "tensor":
        return Tree("tensor", number)
    if given.size is None:
        return Tree("float", number)
    if number is not None:
        return Tree("int", number)
    return Tree("constant", given.size) if isinstance(given.size, int) else Tree("size", given.size)


def _result(output: Output, captured: Captured, place: dict[int, int], sources: list[tuple[str, Any]]) -> Tree:
    """Describes a leaf of the results. Adds the source of a value that must become an output of the graph."""
    if output.kind == "input":
        if captured.inputs[output.index].kind == "tensor":
            sources.append(("input", place[output.index]))
        return Tree("argument", output.index)
    if output.kind == "constant" and not isinstance(output.value, torch.Tensor):
        return Tree("constant", output.value)
    is_weight = output.kind == "constant"
    sources.append(("weight", output.value.detach()) if is_weight else ("output", output.index))
    kind = _NUMBERS[output.value] if output.kind == "number" else "tensor"
    return Tree(kind, len(sources) - 1)
