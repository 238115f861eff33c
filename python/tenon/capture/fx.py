"""Walks FX graphs of ATen calls, and drives the importer with them.

    captured = import_exported_program(torch.export.export(model, args))
    captured.graph                      # the same Graph that the .pt2 reader gives
    captured.inputs, captured.outputs   # what a caller gives and gets, flat, in order

A Captured is a graph with what a caller needs to run it: which of the caller's values are inputs of the graph, where
each of its results comes from, and the fallback, which runs the calls that the registry lacks.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch import fx
from torch.export.graph_signature import InputKind, InputSpec, OutputKind
from torch.utils import _pytree as pytree

from tenon._tenon import Error, Expr, ImportedTensor, Importer, InternalError, fail
from tenon.capture.admissible import admissible_of
from tenon.capture.arguments import NUMBERS, Opaque, Token, all_leaves, flat_leaves, rebuilt, template
from tenon.capture.assumed import AssumedSizes
from tenon.capture.calls import (
    Call,
    call_of,
    gives,
    gives_nothing,
    gives_quantized,
    is_effect_token,
    is_mutable,
    listed,
    read_parts,
)
from tenon.capture.captured import (
    DTYPES,
    Assertion,
    Assumptions,
    Captured,
    DerivedSize,
    Input,
    Layout,
    Output,
    Row,
    Window,
    counted,
    type_text,
)
from tenon.capture.decompose import decomposed, is_operand, takes_graphs
from tenon.capture.fallback import Fallback, FallbackCall, Result, leaves_of
from tenon.capture.memory import MEMORY_CALLS, base_of, dense_order, giver_of, operands_of, order_in_memory
from tenon.capture.names import location_of, target_name
from tenon.capture.sizes import Sizes, computed, free_symbols, guard_count, is_ragged

_BOOL_TO_INT = "torch.fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless"
_HINTS = {"torch._C._set_grad_enabled"}  # it concerns only a trace
_MUTATIONS = {OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION}
# Calls that only check something. The functional ones give their last argument.
_ASSERTIONS = {
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._functional_assert_async.msg",
    "aten._functional_assert_scalar.default",
}
_RANGES = {  # and the least value that they allow where none is given
    "aten.sym_constrain_range.default": None,
    "aten.sym_constrain_range_for_size.default": 0,
    "aten._functional_sym_constrain_range.default": None,
    "aten._functional_sym_constrain_range_for_size.default": 0,
}
_FACTORIZED = "aten._linalg_check_errors.default"
_MEMORY_VIEWS = {"aten.as_strided.default", "aten.as_strided_copy.default"}
# Results of a dtype that the trace may get wrong. PyTorch before 2.12 takes these sums for f32, whatever the dtype of
# the attention. Tenon's gradient of attention does not read them.
_WRONG_DTYPES = {"aten._scaled_dot_product_flash_attention_for_cpu.default": 1}
_WRITE = "aten.copy_.default"  # AOTAutograd's graphs have no other write: that of an argument
_MOST_DEPTH = 8  # a decomposition may give calls that decompose again


# ---- doors ----------------------------------------------------------------------------------------------------------


def import_exported_program(program: torch.export.ExportedProgram, training: bool | None = None) -> Captured:
    """Takes the program as it is, unless `training` says what dropout and batch norm do. Its parameters and buffers
    are shared, not copied."""
    walker = _Walker(training)
    graph = program.graph_module.graph
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    given = [node for node in graph.find_nodes(op="placeholder") if _is_user_input(specs[node.name])]
    used = {symbol for node in given for symbol in free_symbols(node.meta.get("val"))}
    ranges = program.range_constraints
    walker.name_symbols(given, {symbol.name for symbol in ranges if symbol.is_Symbol and symbol not in used})
    for symbol, values in ranges.items():
        if symbol in used:
            walker.sizes.declare(symbol, values)
    walker.find_carried(given)
    for node in graph.find_nodes(op="placeholder"):
        walker.exported_placeholder(node, specs[node.name], program)
    walker.walk(program.graph_module)
    updates = []
    for spec, value in zip(program.graph_signature.output_specs, graph.output_node().args[0], strict=True):
        if spec.kind in _MUTATIONS:
            updates.append((walker.leaves[spec.target], walker.importer.value_of(walker.values[value])))
            walker.written[value] = walker.leaves[spec.target]
        elif spec.kind is not OutputKind.TOKEN:
            walker.add_output(value)
    for target, value in updates:  # after all values are taken: each is what the model computed
        walker.importer.update(target, value)
    return walker.finish()


def import_graph_module(module: fx.GraphModule, shown: int = 0) -> Captured:
    """Takes a flat graph of ATen calls with their meta data, such as AOTAutograd gives: every placeholder is an input
    of the caller, the output is a tuple or a list. Results have the strides that PyTorch gives them: later graphs may
    rely on them. The first `shown` results are for the user, who may write to them, and for AOTAutograd, which makes
    views of his arguments of their strides and offsets: what is a view in PyTorch is one here."""
    values = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    guards = guard_count(values)
    captured = _captured(module, shown)
    # Decompositions are traced during the import. Where their guards say more of the sizes, more calls may be native.
    return _captured(module, shown) if captured.unsupported and guard_count(values) > guards else captured


def _captured(module: fx.GraphModule, shown: int) -> Captured:
    walker = _Walker()
    walker.takes_windows = True
    placeholders = module.graph.find_nodes(op="placeholder")
    walker.name_symbols(placeholders)
    walker.declare_symbols(node.meta["val"] for node in placeholders)
    walker.find_carried(placeholders)
    for node in placeholders:
        walker.user_input(node)
    walker.read_guards(node.meta["val"] for node in placeholders)
    walker.walk(module)
    results = module.graph.output_node().args[0]
    walker.find_views(results[:shown])
    for position, result in enumerate(results):
        if position < shown and result in walker.views:
            walker.add_view(result)
        else:
            walker.add_output(result, keep_layout=True)
    return walker.finish()


def _is_user_input(spec: InputSpec) -> bool:
    return spec.kind is InputKind.USER_INPUT


# ---- the walk -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Done:
    result: Any


class _Walker:
    def __init__(self, training: bool | None = None) -> None:
        self.importer = Importer(training=training)
        self.sizes = Sizes(self.importer)
        self.sizes.derive = self._derived_size
        self.values: dict[fx.Node, Any] = {}
        self.leaves: dict[str, ImportedTensor] = {}  # by the name that mutations have for them
        self.fallback = Fallback()
        self.inputs: list[Input] = []
        self.graph_inputs: list[int | Window | DerivedSize] = []
        self.takes_windows = False  # of arguments: a caller's memory is there in every run
        self.position_of: dict[fx.Node, int] = {}  # among the caller's inputs
        self.weights: dict[fx.Node, torch.Tensor] = {}
        self.placeholders: dict[int, fx.Node] = {}  # by the variables that they are
        self.written: dict[fx.Node, ImportedTensor] = {}  # the leaves that hold these values in the end
        self.carried: set[str] = set()
        self.assertions: list[tuple[Any, Assertion]] = []
        self.assumed: AssumedSizes | None = None  # where guards say more of sizes than Tenon knows
        self.rows: list[Row] = []
        self.depth = 0  # of decompositions that the walk is in
        self.wrong_entries: dict[fx.Node, str] = {}
        self.outputs: list[Output] = []
        self.results: list[ImportedTensor] = []  # of the graph
        self.views: dict[fx.Node, tuple[fx.Node, Layout]] = {}  # results, what they are views of, and how
        self.bases: dict[fx.Node, int] = {}  # their positions among the results of the graph

    # -- leaves --

    def name_symbols(self, placeholders: Iterable[fx.Node], taken: Iterable[str] = ()) -> None:
        self.sizes.name_symbols({node.name: node.meta.get("val") for node in placeholders}, taken)

    def declare_symbols(self, values: Iterable[Any]) -> None:
        """Those of a graph that was traced in this process: the tracer knows their ranges."""
        for value in values:
            sizes = value.shape if isinstance(value, torch.Tensor) else [value]
            for size in sizes:
                for symbol in () if is_ragged(size) else free_symbols(size):
                    self.sizes.declare(symbol, size.node.shape_env.bound_sympy(symbol))

    def read_guards(self, values: Iterable[Any]) -> None:
        """Those on the sizes of a call's values. TorchDynamo checks them."""
        admissible = admissible_of(values, self.sizes.name_of, {name for name, _ in self._places()})
        self.assumed = AssumedSizes(self.importer, admissible) if admissible else None

    def find_carried(self, placeholders: Iterable[fx.Node]) -> None:
        """The symbols that are sizes of the caller's tensors. A size `a*b` tells neither of its symbols."""
        for node in placeholders:
            if self._is_plain_tensor(node.meta.get("val")):
                self.carried |= {str(size) for size in map(self.sizes.expr, node.meta["val"].shape) if _is_symbol(size)}

    def exported_placeholder(self, node: fx.Node, spec: InputSpec, program: torch.export.ExportedProgram) -> None:
        if _is_user_input(spec):
            self.user_input(node, spec)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            persistent = spec.kind is InputKind.PARAMETER or spec.persistent
            data = (program.state_dict if persistent else program.constants)[spec.target]
            add = self.importer.parameter if spec.kind is InputKind.PARAMETER else self.importer.buffer
            self.weight(node, data, functools.partial(add, spec.target))
            self.leaves[spec.target] = self.values[node]
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            self.constant(node, program.constants[spec.target])
        else:
            self.values[node] = Opaque(program.constants.get(spec.target))

    def user_input(self, node: fx.Node, spec: InputSpec | None = None) -> None:
        position = self.position_of[node] = len(self.inputs)
        value = node.meta.get("val")
        self.rows.append(Row("placeholder", node.name, str(node.target), self._text_of(value)))
        if is_effect_token(node):
            self.inputs.append(Input(node.name, "constant"))
            self.values[node] = None
        elif isinstance(value, torch.Tensor):
            self._tensor_input(node, value, position)
        elif isinstance(value, (torch.SymInt, torch.SymFloat)):
            self._number_input(node, value, position)
        else:
            fixed = getattr(spec.arg, "value", value) if spec else value
            self.inputs.append(Input(node.name, "constant", value=fixed))
            self.values[node] = fixed
        if spec:
            self.leaves[node.name] = self.values[node]

    def _tensor_input(self, node: fx.Node, value: torch.Tensor, position: int) -> None:
        shape = tuple(self.sizes.expr(size) for size in value.shape)
        plain = self._is_plain_tensor(value)
        kind = "tensor" if plain else "token"
        self.inputs.append(Input(node.name, kind, dtype=value.dtype, shape=shape, device=value.device))
        if not plain:
            self.values[node] = Token(self._stand_in(), node.name, _shown(value))
            return
        self.graph_inputs.append(position)
        self.values[node] = self.importer.input(node.name, (DTYPES[value.dtype], list(shape)))
        self.placeholders[self.values[node].variable] = node

    def _number_input(self, node: fx.Node, value: Any, position: int) -> None:
        if is_ragged(value):  # only PyTorch can compute with it
            self.inputs.append(Input(node.name, "token"))
            self.values[node] = Token(self._stand_in(), node.name, "a ragged size")
            return
        if isinstance(value, torch.SymFloat):
            self.inputs.append(Input(node.name, "number"))
            self.graph_inputs.append(position)
            self.values[node] = self.importer.number(node.name, "f64")
            return
        size = self.values[node] = self.sizes.expr(value)
        self.inputs.append(Input(node.name, "number", size=size))
        # A size that no tensor of the caller has comes as the size of a tensor without elements of interest.
        if isinstance(size, Expr) and not set(size.symbols) <= self.carried:
            self.graph_inputs.append(position)
            self.importer.input(node.name, ("u8", [size]))
            self.carried |= {str(size)} if _is_symbol(size) else set()

    def _derived_size(self, expression: sympy.Expr) -> str | None:
        """A size that no Expr says comes as the size of a tensor, too, where a call has all that it takes."""
        symbols = sorted(expression.free_symbols, key=str)
        places = dict(self._places())
        names = [self.sizes.name_of(symbol) for symbol in symbols]
        if not all(name in places for name in names):
            return None
        known = (source for source in self.graph_inputs if isinstance(source, DerivedSize))
        found = next((source for source in known if source.expression == expression), None)
        if found is None:
            name = f"derived_size_{len(self.graph_inputs)}"
            found = DerivedSize(name, expression, [places[name] for name in names], computed(expression, symbols))
            self.importer.input(name, ("u8", [Expr(name)]))
            self.graph_inputs.append(found)
            self.sizes.bind(name, Expr(name))
        return found.name

    def weight(self, node: fx.Node, data: torch.Tensor, add: Callable[..., ImportedTensor]) -> None:
        self.weights[node] = data
        self.rows.append(Row("placeholder", node.name, str(node.target), self._text_of(data)))
        if self._is_plain_tensor(data):
            on_host = data if data.device.type == "cpu" else data.detach().cpu()
            self.values[node] = add((DTYPES[data.dtype], list(data.shape)), on_host)
            self.placeholders[self.values[node].variable] = node
        else:
            self.values[node] = Opaque(data)

    def constant(self, node: fx.Node, data: torch.Tensor) -> None:
        self.weight(node, data, lambda _, tensor: self.importer.constant(tensor))

    def _stand_in(self) -> ImportedTensor:
        return self.importer.constant(torch.empty(0, dtype=torch.uint8))

    # -- nodes --

    def walk(self, module: fx.GraphModule) -> None:
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self._attribute(node, module)
            elif node.op == "call_function":
                self._call(node)
            elif node.op not in ("placeholder", "output"):
                raise InternalError(f"{node.op} {node.target} is no ATen call: trace the module first")

    def _attribute(self, node: fx.Node, module: fx.GraphModule) -> None:
        value = operator.attrgetter(node.target)(module)
        if isinstance(value, torch.Tensor):
            self.constant(node, value)
        else:
            self.values[node] = Opaque(value)

    def _call(self, node: fx.Node) -> None:
        call = call_of(node)
        name = call.name
        if name == "_operator.getitem":
            self.values[node] = self.values[node.args[0]][node.args[1]]
            self._name(node)
        elif name in _HINTS:
            self.values[node] = None
        elif name in _ASSERTIONS or name in _RANGES or name == _FACTORIZED:
            self._assertion(node, call)
        elif (inlined := self._inlined(node, name)) is not None:
            self.values[node] = inlined
        elif name in _MEMORY_VIEWS and (argument := self._argument_behind(node)) is not None:
            self._window(node, argument)
        elif name == _BOOL_TO_INT and isinstance(flag := self._argument(node.args[0]), (int, Expr)):
            self.values[node] = int(flag) if isinstance(flag, int) else flag  # a comparison is 0 or 1
        elif self._is_known_number(node.meta.get("val")):
            self.values[node] = self.sizes.expr(node.meta["val"])
        else:
            self._aten_call(node, call)

    def _argument_behind(self, node: fx.Node) -> fx.Node | None:
        """The caller's tensor whose memory an as_strided looks at."""
        base = base_of(node.args[0])
        return base if base in self.position_of and isinstance(self.values[base], ImportedTensor) else None

    def _window(self, node: fx.Node, argument: fx.Node) -> None:
        """as_strided counts from the start of memory, and a caller's tensor may begin anywhere in it."""
        if not self.takes_windows:
            self._require_whole(node, argument)
            self._aten_call(node, call_of(node))
            return
        value = node.meta["val"]
        layout = self._memory_layout(value, value.storage_offset())
        if layout is None:
            fail(f"{node.name} looks at memory at a place that depends on data")
        self.graph_inputs.append(Window(self.position_of[argument], layout))
        name = f"{argument.name}_{node.name}"
        self.values[node] = self.importer.input(name, (DTYPES[value.dtype], layout.sizes))
        self.rows.append(Row("call_function", node.name, target_name(node.target), self._text_of(value)))

    def _require_whole(self, node: fx.Node, argument: fx.Node) -> None:
        value = argument.meta["val"]
        if value.storage_offset() != 0 or not value.is_contiguous():
            fail(
                f"{node.name} looks at the memory of the argument {argument.name}, of which the example is a part: "
                "give a contiguous tensor of its own as the example, or use torch.compile with backend='tenon'"
            )
        self.inputs[self.position_of[argument]].is_whole = True

    def _is_known_number(self, value: Any) -> bool:
        if not isinstance(value, (torch.SymInt, torch.SymBool)) or not self.sizes.knows(value):
            return False
        try:
            self.sizes.expr(value)
        except Error:  # then it is computed as PyTorch does it, at run time
            return False
        return True

    def _inlined(self, node: fx.Node, name: str) -> Any:
        """The result of a higher-order op that does no more than call a graph."""
        if name == "higher_order.wrap_with_set_grad_enabled":
            return self._run_inline(self.values[node.args[1]].value, self._argument(node.args[2:]))
        if name == "higher_order.wrap_with_autocast" and not node.args[2]:
            return self._run_inline(self.values[node.args[4]].value, self._argument(node.args[5:]))
        return None

    def _run_inline(self, module: fx.GraphModule, arguments: Iterable[Any]) -> Any:
        for placeholder, argument in zip(module.graph.find_nodes(op="placeholder"), arguments, strict=True):
            self.values[placeholder] = argument
        self.walk(module)
        return self._argument(module.graph.output_node().args[0])

    def _assertion(self, node: fx.Node, call: Call) -> None:
        is_functional = call.name.startswith("aten._functional_")
        self.values[node] = (None, None) if call.has_effects else None
        if is_functional:
            self.values[node] = self._argument(call.given(len(call.args), "dep_token") or call.args[-1])
        for condition, message in self._conditions(call):
            self._assert(condition, message, location_of(node))

    def _conditions(self, call: Call) -> Iterator[tuple[Any, str]]:
        """What must hold, and what to say where it does not."""
        value = self._argument(call.args[0])
        if call.name == _FACTORIZED:
            is_zero = self.importer.call("aten.eq.Scalar", (value, 0))
            text = f"{call.args[1]}: a matrix is singular, or not what the factorization needs"
            yield self.importer.call("aten.all.default", (is_zero,)), text
        elif call.name in _RANGES:
            bounds = [call.given(1, "min"), call.given(2, "max")]
            bounds[0] = _RANGES[call.name] if bounds[0] is None else bounds[0]
            for compare, sign, bound in zip(("_operator.ge", "_operator.le"), (">=", "<="), bounds, strict=True):
                if bound is not None:
                    text = f"a number of the model must be {sign} {bound}"
                    yield self.importer.call(compare, (value, bound)), text
        else:
            given = call.given(1, "assert_msg")
            yield value, "an assertion of the model does not hold" if given is None else self.sizes.message(str(given))

    def _assert(self, condition: Any, message: str, location: tuple[str, int] | None) -> None:
        if condition is True or (isinstance(condition, Expr) and str(condition) == "1"):
            return
        assertion = Assertion(message, location)
        if isinstance(condition, Expr) and set(condition.symbols) <= self.carried:
            assertion.guard = condition
        self.assertions.append((condition, assertion))

    def _aten_call(self, node: fx.Node, made: Call) -> None:
        arguments = tuple(self._argument(argument) for argument in made.args), self._argument(made.kwargs)
        because = self._cannot_take(arguments) or self._cannot_give(made, arguments)
        if made.name in MEMORY_CALLS and not because:
            done = self._memory_call(node, made, arguments)
        elif takes_graphs(made.target):
            done = self._decomposed_call(node, made)
        else:
            done = None if because else self._tensors_call(node, made, arguments)
        result = self._left_to_pytorch(node, made, arguments, because) if done is None else done.result
        self.values[node] = (None, *listed(result)) if made.has_effects else result
        self._name(node)

    def _tensors_call(self, node: fx.Node, made: Call, arguments: tuple[Any, Any]) -> _Done | None:
        return (
            self._native_call(node, made, arguments)
            or self._assumed_call(node, made, arguments)
            or self._decomposed_call(node, made)
        )

    def _native_call(self, node: fx.Node, made: Call, arguments: tuple[Any, Any]) -> _Done | None:
        """By the registry; None where it lacks the call, declines it, or gives another type than the trace has."""
        location = location_of(node)
        try:
            result = self.importer.call(made.name, *arguments, location=location, returns_list=True)
        except Error:
            return None
        if made.name in _WRONG_DTYPES:
            result = self._as_traced(result, made.value, _WRONG_DTYPES[made.name])
        if wrong := self._difference(result, read_parts(node, made.value)):
            self.wrong_entries[node] = f"its entry gives {wrong}"
            return None
        self.rows.append(Row("call_function", node.name, made.name, self._text_of(made.value), location))
        return _Done(result)

    def _assumed_call(self, node: fx.Node, made: Call, arguments: tuple[Any, Any]) -> _Done | None:
        """By the registry, with sizes that are equal by guards said in one way."""
        if self.assumed is None or is_mutable(made.target):
            return None
        value = made.value
        try:
            shape = [self.sizes.expr(size) for size in value.shape] if isinstance(value, torch.Tensor) else None
            simple = self.assumed.arguments(made.name, arguments, shape)
        except Error:
            return None
        done = None if simple is None else self._native_call(node, made, simple)
        if done is not None:
            self.assumed.accept()
        return done

    def _memory_call(self, node: fx.Node, made: Call, arguments: tuple[Any, Any]) -> _Done:
        """as_strided counts places in memory. PyTorch cannot run it: what Tenon gives it lies in other memory."""
        location = location_of(node)
        operands = map(self._traced_operand, operands_of(made.args[0]))
        result = self.importer.call_on_memory(made.name, *arguments, operands, location=location)
        self.rows.append(Row("call_function", node.name, made.name, self._text_of(made.value), location))
        return _Done(result)

    def _traced_operand(self, node: fx.Node) -> tuple[Any, str, list[int | Expr], list[int | Expr], int | Expr]:
        """A tensor, the target of the call that gave it, and its sizes, strides and offset in the trace."""
        value, tensor = node.meta.get("val"), self.values[node]
        made = giver_of(node)
        target = target_name(made.target) if made.op == "call_function" else ""
        try:
            sizes, strides = ([self.sizes.expr(size) for size in given] for given in (value.shape, value.stride()))
            return tensor, target, sizes, strides, self.sizes.expr(value.storage_offset())
        except (Error, AttributeError):  # no tensor, or sizes that Tenon cannot express: its layout is not known
            return None, target, [0], [], 0

    def _as_traced(self, results: Any, values: Any, position: int) -> Any:
        """The results, that at `position` with the dtype that the trace has."""
        dtype = DTYPES[values[position].dtype]
        if results[position].dtype == dtype:
            return results
        cast = self.importer.call("aten._to_copy.default", (results[position],), {"dtype": values[position].dtype})
        return (*results[:position], cast, *results[position + 1 :])

    def _decomposed_call(self, node: fx.Node, made: Call) -> _Done | None:
        """By the calls that PyTorch decomposes it into; None where there are none."""
        if self.depth == _MOST_DEPTH:
            return None
        args, kwargs = self._traced(made.args), self._traced(made.kwargs)
        module = decomposed(made.target, args, kwargs)
        if module is None or not gives(module, read_parts(node, made.value)):
            return None
        for inner in module.graph.nodes:
            inner.stack_trace = node.stack_trace
        given = (made.args, made.kwargs)
        operands = [self._argument(leaf) for leaf in all_leaves(given) if is_operand(self._traced(leaf))]
        self.depth += 1
        result = self._run_inline(module, operands)
        self.depth -= 1
        self._difference(result, read_parts(node, made.value))  # learns the sizes that depend on data
        return _Done(result)

    def _left_to_pytorch(self, node: fx.Node, made: Call, arguments: tuple[Any, Any], because: str) -> Any:
        """A write by PyTorch would reach a copy: PyTorch computes what is written, and the importer writes it. A tensor
        that the fallback holds is the caller's own."""
        written = arguments[0][0] if arguments[0] else None
        if not self.takes_windows or not is_mutable(made.target) or not isinstance(written, ImportedTensor):
            return self._fallback_call(node, made, arguments, because)
        if made.name != _WRITE:
            fail(f"{made.name} writes to its arguments, which PyTorch cannot do for Tenon")
        value = self._fallback_call(node, replace(made, target=torch.ops.aten.copy.default), arguments, because)
        return self.importer.call(_WRITE, (written, value))

    def _fallback_call(self, node: fx.Node, made: Call, arguments: tuple[Any, Any], because: str) -> Any:
        """By PyTorch, in each run. `because` says why the registry was not asked."""
        because = because or self.wrong_entries.get(node, "")
        for position, leaf in enumerate(leaves_of(made.value)):
            for dim, size in enumerate(leaf.shape if isinstance(leaf, torch.Tensor) else ()):
                self.sizes.measure(size, f"{node.name}_{position}_{dim}")
        args, kwargs = ([flat_leaves(arguments)], {}) if because else arguments
        types = self._types_given(made, arguments)
        location = location_of(node)
        result = self.importer.call(
            made.name,
            args,
            kwargs,
            location=location,
            results=types if made.value is not None or "val" in node.meta or gives_nothing(made.target) else None,
            returns_list=True,
            external_because=because,
        )
        reason = self.importer.unsupported[-1][1]
        self.rows.append(Row("call_function", node.name, made.name, self._text_of(made.value), location, reason))
        return self._external(node, made, arguments, result, types)

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            return self.values[argument]
        if isinstance(argument, (tuple, list)):
            return [self._argument(item) for item in argument]
        if isinstance(argument, dict):
            return {key: self._argument(item) for key, item in argument.items()}
        if isinstance(argument, (slice, complex, torch._ops.OperatorBase)):
            return Opaque(argument)
        return argument

    def _cannot_take(self, arguments: Any) -> str:
        for leaf in all_leaves(arguments):
            if isinstance(leaf, Token):
                return f"it takes {leaf.text}"
            if isinstance(leaf, Opaque):
                return f"it takes {_shown(leaf.value)}"
        return ""

    def _cannot_give(self, made: Call, arguments: tuple[Any, Any]) -> str:
        given = zip(leaves_of(made.value), self._types_given(made, arguments), strict=True)
        return next((f"it gives {self._shown_foreign(leaf)}" for leaf, type_ in given if type_ is None), "")

    def _types_given(self, made: Call, arguments: tuple[Any, Any]) -> list[Any]:
        """Of the call's results; None for what Tenon lacks."""
        taken = (leaf.is_quantized for leaf in all_leaves(arguments) if isinstance(leaf, Token))
        if gives_quantized(made.target, any(taken)):
            return [None for _ in leaves_of(made.value)]
        return [self._type_or_none(leaf) for leaf in leaves_of(made.value)]

    def _shown_foreign(self, value: Any) -> str:
        return "a quantized tensor" if self._type_or_none(value) else _shown(value)

    def _external(self, node: fx.Node, made: Call, arguments: tuple[Any, Any], result: Any, types: list[Any]) -> Any:
        """Leaves the call to the fallback, and returns its results."""
        counter = iter(range(len(flat_leaves(arguments))))
        args = template(arguments[0], self._traced(made.args), counter)
        kwargs = template(arguments[1], self._traced(made.kwargs), counter)
        results = []
        values = []
        for position, (leaf, imported, type_) in enumerate(zip(leaves_of(made.value), result, types, strict=True)):
            token = None if type_ else f"{node.name}.{position}"
            number = NUMBERS[type(leaf)][0] if not isinstance(leaf, torch.Tensor) else None
            results.append(Result(token, number))
            is_quantized = self._type_or_none(leaf) is not None
            values.append(Token(imported, token, self._shown_foreign(leaf), is_quantized) if token else imported)
            self._learn_sizes(leaf, imported)
        traced = pytree.tree_leaves(self._traced((made.args, made.kwargs, made.value)))
        gpu = next((leaf.device for leaf in traced if _is_on_gpu(leaf)), None)
        call = FallbackCall(made.target, args, kwargs, results, gpu)
        self.fallback.calls[self.importer.external_count - 1] = call
        return rebuilt(made.value, iter(values))

    # -- what PyTorch says of results --

    def _type_or_none(self, value: Any) -> tuple[str, list[int | Expr]] | None:
        if not isinstance(value, torch.Tensor):
            return DTYPES[NUMBERS[type(value)][0]], []
        if not self._is_plain_tensor(value):
            return None
        return DTYPES[value.dtype], [self.sizes.expr(size) for size in value.shape]

    def _is_plain_tensor(self, value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.dtype in DTYPES
            and value.layout is torch.strided
            and value.device.type in ("cpu", "cuda")
        )

    def _difference(self, result: Any, value: Any) -> str:
        """What the registry built must have the type that PyTorch's trace has: anything else is a bug of an entry."""
        if isinstance(value, (tuple, list)):
            pairs = zip(result, value, strict=True)
            return next((text for pair in pairs if (text := self._difference(*pair))), "")
        if not isinstance(value, torch.Tensor) or not isinstance(result, ImportedTensor):
            return ""
        self._learn_sizes(value, result)
        expected = [self.sizes.expr(size) for size in value.shape]
        if _agree(result, DTYPES.get(value.dtype), expected):
            return ""
        return f"{result.type}, where PyTorch has {type_text(value.dtype, expected)}"

    def _learn_sizes(self, value: Any, result: ImportedTensor) -> None:
        """A size that depends on data has PyTorch's name in `value`, and Tenon's in `result`."""
        if not isinstance(value, torch.Tensor) or len(value.shape) != len(result.shape):
            return
        for theirs, ours in zip(value.shape, result.shape, strict=True):
            name = self.sizes.bare_symbol(theirs)
            if name is not None and not self.sizes.knows(theirs):
                self.sizes.bind(name, ours)

    def _traced(self, arguments: Any) -> Any:
        """With what the trace had in place of each node."""
        return fx.node.map_arg(arguments, lambda node: node.meta["val"] if "val" in node.meta else self._held(node))

    def _held(self, node: fx.Node) -> Any:
        """What an attribute of the graph's module is."""
        value = self.values.get(node)
        return value.value if isinstance(value, Opaque) else self.weights.get(node)

    def _text_of(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return type_text(value.dtype, map(self.sizes.text, value.shape))
        if isinstance(value, (tuple, list)):
            return f"({', '.join(map(self._text_of, value))})"
        return self.sizes.text(value) if isinstance(value, (torch.SymInt, torch.SymBool)) else str(value)

    def _name(self, node: fx.Node) -> None:
        if self.depth == 0 and isinstance(self.values[node], ImportedTensor):
            self.importer.set_name(self.values[node], node.name)

    # -- the end --

    def finish(self) -> Captured:
        for condition, assertion in self.assertions:
            if assertion.guard is None:
                assertion.index = self._returned(condition)
        self.rows.append(Row("output", "output", "output", counted(len(self.outputs), "value")))
        return Captured(
            graph=self.importer.finish(self.results),
            inputs=self.inputs,
            outputs=self.outputs,
            fallback=self.fallback,
            graph_inputs=self.graph_inputs,
            has_key=bool(self.importer.key_input),
            assertions=[assertion for _, assertion in self.assertions],
            rows=self.rows,
            unsupported=self.importer.unsupported,
            check_supported=self.importer.check_supported,
            assumptions=self._assumptions(),
            weight_devices={data.device for data in self.weights.values()},
        )

    def _assumptions(self) -> Assumptions | None:
        pairs = self.assumed.pairs if self.assumed else []
        needed = {name for pair in pairs for size in pair if isinstance(size, Expr) for name in size.symbols}
        return Assumptions(pairs, {name: place for name, place in self._places() if name in needed}) if pairs else None

    def add_output(self, result: Any, keep_layout: bool = False) -> None:
        self.outputs.append(self._output(result, keep_layout))

    def _output(self, result: Any, keep_layout: bool) -> Output:
        if not isinstance(result, fx.Node):
            return Output("constant", value=result)
        if not keep_layout:  # else AOTAutograd sees to it
            result = self._itself(result)
        if result in self.position_of and self.inputs[self.position_of[result]].kind != "constant":
            return Output("input", self.position_of[result])
        if result in self.weights:
            return Output("constant", value=self.weights[result])
        value, expected = self.values[result], result.meta.get("val")
        if isinstance(value, Token):
            self._returned(value.stand_in)  # so that the call which gives it is needed
            return Output("token", value=value.key)
        if not isinstance(value, (ImportedTensor, Expr)):
            return Output("constant", value=value)
        if not isinstance(expected, torch.Tensor):
            return Output("number", self._returned(value), NUMBERS[type(expected)][1])
        order = order_in_memory(expected) if keep_layout else None
        if order is None:
            return Output("result", self._returned(value), device=expected.device)
        # The graph gives it in the order of memory, and a view of that is what the caller gets.
        permuted = self.importer.call("aten.permute.default", (value, order))
        dims = sorted(range(len(order)), key=order.__getitem__)
        return Output("permuted", self._returned(permuted), dims, expected.device)

    def _itself(self, result: fx.Node) -> fx.Node:
        """A model that writes an argument or a buffer in place and returns it returns that very tensor."""
        value = self.written.get(result, self.values[result])
        return self.placeholders.get(value.variable, result) if isinstance(value, ImportedTensor) else result

    # -- results that are views --

    def find_views(self, results: Iterable[Any]) -> None:
        """What shares memory with an argument or with another result, or has gaps between its elements."""
        members: dict[fx.Node, list[fx.Node]] = {}
        for result in results:
            if isinstance(result, fx.Node) and isinstance(self.values[result], ImportedTensor):
                members.setdefault(base_of(result), []).append(result)
        for base, views in members.items():
            is_input = base in self.position_of
            if base in self.weights or (not is_input and dense_order(base.meta["val"]) is None):
                continue
            for view in views:
                is_seen = is_input or len(views) > 1 or dense_order(view.meta["val"]) is None
                layout = self._layout(view, base) if is_seen and not (is_input and view is base) else None
                if layout is not None:
                    self.views[view] = base, layout

    def add_view(self, result: fx.Node) -> None:
        base, layout = self.views[result]
        if base in self.position_of:
            self.outputs.append(Output("view of input", self.position_of[base], layout))
            return
        if base not in self.bases:
            self.bases[base] = self._output(base, keep_layout=True).index
        self.outputs.append(Output("view", self.bases[base], layout, base.meta["val"].device))

    def _layout(self, result: fx.Node, base: fx.Node) -> Layout | None:
        """None where a call does not have the symbols of it: they depend on data."""
        value = result.meta["val"]
        return self._memory_layout(value, value.storage_offset() - base.meta["val"].storage_offset())

    def _memory_layout(self, value: torch.Tensor, start: Any) -> Layout | None:
        offset = self.sizes.expr(start)
        sizes, strides = ([self.sizes.expr(size) for size in given] for given in (value.shape, value.stride()))
        needed = {name for size in (*sizes, *strides, offset) if isinstance(size, Expr) for name in size.symbols}
        places = {name: place for name, place in self._places() if name in needed}
        return Layout(sizes, strides, offset, places) if places.keys() == needed else None

    def _places(self) -> Iterator[tuple[str, tuple[int, int | None]]]:
        for position, given in enumerate(self.inputs):
            dims = enumerate(given.shape) if given.kind == "tensor" else [(None, given.size)]
            for dim, size in dims:
                if _is_symbol(size):
                    yield str(size), (position, dim)

    def _returned(self, value: ImportedTensor | Expr) -> int:
        """The position of a result of the graph: the value as it is now."""
        self.results.append(self.importer.value_of(value))
        return len(self.results) - 1


# ---- results --------------------------------------------------------------------------------------------------------


def _is_symbol(size: Any) -> bool:
    return isinstance(size, Expr) and size.symbols == (str(size),)


def _agree(result: ImportedTensor, dtype: str | None, shape: list[int | Expr]) -> bool:
    if result.dtype != dtype or len(result.shape) != len(shape):
        return False
    return all(a == b for a, b in zip(result.shape, shape, strict=True) if isinstance(a, int) and isinstance(b, int))


def _is_on_gpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _bare(name: torch.dtype | torch.layout) -> str:
    return str(name).removeprefix("torch.")


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        layout = "" if value.layout is torch.strided else f" of layout {_bare(value.layout)}"
        device = "" if value.device.type == "cpu" else f" on device {value.device}"
        return f"a tensor of {_bare(value.dtype)}{layout}{device}"
    return repr(value) if isinstance(value, complex) else f"a {type(value).__name__}"
