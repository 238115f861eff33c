"""Translates a TorchScript graph of ATen calls, which PyTorch's lazy device records, with the aten registry.

    captured = translate(graph, [(torch.float32, (8, 4)), (torch.float64, ())])

A graph of the lazy device is a straight line: calls, constants, and lists of both. Its inputs are tensors, and numbers
that may differ in each run: float, int or bool in TorchScript, passed as tensors of rank 0 (f64, i64, bool).

PyTorch's lazy tensors record the 0.5 in `loss * 0.5` as a tensor of rank 0. If the values of a graph have the dtype
that PyTorch expects (a TensorType with a dtype), it tells numbers and tensors apart.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from tenon._tenon import Error, ImportedTensor, Importer, fail
from tenon.capture.captured import DTYPES, Captured, Input, Output, Row, counted, type_text
from tenon.capture.decompose import missing_decompositions
from tenon.capture.fallback import Fallback, FallbackCall, Result, Slot, leaves_of
from tenon.capture.names import target_name

Type = tuple[torch.dtype, Sequence[int]]

# Numbers, by their dtype in a graph.
_NUMBERS: dict[str, Callable[[Any], Any]] = {"f64": float, "i64": int, "bool": bool}
_NUMBER_KINDS = {"FloatType", "IntType", "BoolType", "NumberType"}
_TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}

_TO_NUMBER = {"ScalarImplicit", "FloatImplicit", "IntImplicit"}  # for a tensor of rank 0
_CONSTRUCTS = {"prim::ListConstruct", "prim::TupleConstruct"}
_UNPACKS = {"prim::ListUnpack", "prim::TupleUnpack"}


def _scalar_types() -> dict[int, torch.dtype]:
    """TorchScript's integer for a dtype, which is c10::ScalarType's."""
    graph = torch._C.Graph()
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return {graph.insertConstant(dtype).toIValue(): dtype for dtype in dtypes}


_SCALAR_TYPES = _scalar_types()


def translate(graph: torch._C.Graph, inputs: Sequence[Type], sources: Sequence[int] | None = None) -> Captured:
    """`inputs` are the types of a run's values, including numbers; `sources` says which of them each input of the graph
    is, because some are the same. Raises a tenon.Error for a graph that only PyTorch can run: with complex numbers, or
    with control flow."""
    translator = _Translator()
    added: dict[int, Any] = {}
    for value, source in zip(graph.inputs(), sources or range(len(inputs)), strict=True):
        if source not in added:
            dtype, shape = inputs[source]
            translator.add_input(value, dtype, tuple(shape))
            added[source] = translator.values[value.unique()]
        translator.values[value.unique()] = added[source]
    for node in graph.nodes():
        translator.translate(node)
    return translator.finish(graph)


class _Translator:
    def __init__(self) -> None:
        self.importer = Importer("lazy")
        self.values: dict[int, Any] = {}  # by the number of the TorchScript value
        self.inputs: list[Input] = []
        self.input_of: dict[int, int] = {}  # the position of an input, by its variable
        self.leaves: dict[int, float | int | bool | None] = {}  # by variable: the value of a constant of rank 0
        self.key: Any = None  # the key of random numbers of the translated call, if it has one
        self.fallback = Fallback()
        self.rows: list[Row] = []

    def add_input(self, value: torch._C.Value, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        if dtype not in DTYPES:
            fail(f"Tenon has no dtype {dtype}: input {len(self.inputs)} of the graph needs it")
        position = len(self.inputs)
        name = f"p{position}"
        self.inputs.append(Input(name, "tensor", dtype=dtype, shape=shape))
        self.rows.append(Row("placeholder", name, name, type_text(dtype, shape)))
        if value.type().kind() in _NUMBER_KINDS:
            added = self.importer.number(name, DTYPES[dtype])
        else:
            added = self.importer.input(name, (DTYPES[dtype], list(shape)))
            self.leaves[added.variable] = None
        self.input_of[added.variable] = position
        self.values[value.unique()] = added

    # -- nodes --

    def translate(self, node: torch._C.Node) -> None:
        kind = node.kind()
        given = [value.unique() for value in node.inputs()]
        if kind == "prim::Constant":
            results = [self._constant(node.output())]
        elif kind in _CONSTRUCTS:
            results = [[self.values[value] for value in given]]
        elif kind in _UNPACKS:
            results = self.values[given[0]]
        elif kind.partition("::")[2] in _TO_NUMBER:
            results = [self._number(self.values[given[0]])]
        elif kind.startswith("aten::"):
            results = self._aten(node, [self.values[value] for value in given])
        else:
            fail(f"{kind} is not translated: a graph of the lazy device has ATen calls only")
        for output, result in zip(node.outputs(), results, strict=True):
            self.values[output.unique()] = result

    def _constant(self, output: torch._C.Value) -> Any:
        value = output.toIValue()
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype not in DTYPES:
            fail(f"Tenon has no dtype {value.dtype}: a constant of the graph needs it")
        constant = self.importer.constant(value.detach().contiguous())
        self.leaves[constant.variable] = value.item() if value.dim() == 0 else None
        return constant

    def _number(self, tensor: Any) -> Any:
        if not isinstance(tensor, ImportedTensor):
            return tensor
        known = self.leaves.get(tensor.variable)
        return self.importer.call("aten.item.default", (tensor,)) if known is None else known

    # -- calls --

    def _aten(self, node: torch._C.Node, given: list[Any]) -> list[Any]:
        op = _overload(node.schema().partition("(")[0] or node.kind())
        arguments = [_converted(argument, value) for argument, value in zip(op._schema.arguments, given, strict=True)]
        declared = [output.type() for output in node.outputs()]
        self.key = self.values[node.i("key")] if node.hasAttribute("key") else None
        if self.key is not None:
            self.importer.set_key(self.key)
        result = self._call(op, arguments)
        if not _agree(declared, result):
            result = self._as_declared(op, arguments, declared, result)
        return list(result) if len(declared) > 1 else [result]

    def _as_declared(self, op: torch._ops.OpOverload, arguments: list[Any], declared: list[Any], result: Any) -> Any:
        """A result of another dtype than the graph's may be due to numbers; or an entry is wrong; or the graph is, and
        the result stays."""
        of_numbers = self._of_numbers(op, arguments, declared)
        if of_numbers is not None:
            return of_numbers
        expected = [value.dtype for value in leaves_of(_on_meta(op, arguments))]
        if expected == [_TORCH_DTYPES[value.dtype] for value in leaves_of(result)]:
            return result
        return self._external(op, arguments, f"its entry gives {_text_of(result)}, where PyTorch has {expected}")

    def _call(self, op: torch._ops.OpOverload, arguments: list[Any]) -> Any:
        args, kwargs = _bound(op, arguments)
        name = target_name(op)
        try:
            result = self.importer.call(name, args, kwargs)
        except Error:
            inlined = self._inlined(op, arguments)
            return self._external(op, arguments) if inlined is None else inlined[0]
        self.rows.append(Row("call_function", "", name, _text_of(result)))
        return result

    def _of_numbers(self, op: torch._ops.OpOverload, arguments: list[Any], declared: list[Any]) -> Any:
        """The call with those leaves as numbers that were numbers in the user's code; None if that does not explain the
        dtype."""
        for position, argument in enumerate(arguments):
            if not self._may_be_number(argument):
                continue
            others = [*arguments[:position], self._number(argument), *arguments[position + 1 :]]
            try:
                result = self.importer.call(target_name(op), *_bound(op, others))
            except Error:
                continue
            if _agree(declared, result):
                return result
        return None

    def _may_be_number(self, argument: Any) -> bool:
        is_leaf = isinstance(argument, ImportedTensor) and argument.variable in self.leaves
        return is_leaf and not argument.shape and argument.dtype in _NUMBERS

    # -- what the registry lacks --

    def _inlined(self, op: torch._ops.OpOverload, arguments: list[Any]) -> tuple[Any] | None:
        """The result of PyTorch's decomposition of the call; None if there is none."""
        module = _decomposed(op, arguments)
        if module is None:
            return None
        tensors = iter(list(_imported(arguments)))
        known: dict[Any, Any] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(tensors)
            elif node.op == "get_attr":
                known[node] = self.importer.constant(getattr(module, node.target))
            elif node.op == "call_function":
                known[node] = self._inlined_call(node, known)
        result = torch.fx.node.map_arg(module.graph.output_node().args[0], known.__getitem__)
        return (result,)

    def _inlined_call(self, node: torch.fx.Node, known: dict[Any, Any]) -> Any:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
        if not isinstance(node.target, torch._ops.OpOverload):
            return node.target(*args, **kwargs)  # getitem
        return self._call(node.target, _complete(node.target, args, kwargs))

    def _external(self, op: torch._ops.OpOverload, arguments: list[Any], because: str = "") -> Any:
        """Leaves the call to the fallback. `because` says why, where the registry has an entry."""
        given = _on_meta(op, arguments)
        results = list(leaves_of(given))
        for result in results:
            if not isinstance(result, torch.Tensor) or result.dtype not in DTYPES:
                fail(f"{target_name(op)} is not supported, and gives what Tenon lacks: {result}")
        dtypes = [result.dtype for result in results]
        types = [(DTYPES[result.dtype], list(result.shape)) for result in results]
        args, kwargs = _bound(op, arguments)
        if self.key is not None:
            args, because = [self.key, *args], because or "its entry does not take these arguments"
        result = self.importer.call(
            target_name(op), args, kwargs, results=types, returns_list=True, external_because=because
        )
        self.fallback.calls[self.importer.external_count - 1] = self._fallback_call(op, arguments, dtypes)
        reason = self.importer.unsupported[-1][1]
        self.rows.append(Row("call_function", "", target_name(op), _text_of(result), reason=reason))
        return result if isinstance(given, (tuple, list)) else result[0]

    def _fallback_call(
        self, op: torch._ops.OpOverload, arguments: list[Any], dtypes: list[torch.dtype]
    ) -> FallbackCall:
        counter = itertools.count()
        key = [] if self.key is None else [Slot(next(counter))]
        args, kwargs = _bound(op, _template(arguments, counter))
        function = functools.partial(_seeded if key else _typed, op, dtypes)
        return FallbackCall(function, [*key, *args], kwargs, [Result()] * len(dtypes))

    # -- the end --

    def finish(self, graph: torch._C.Graph) -> Captured:
        results: list[ImportedTensor] = []
        outputs = [self._output(self.values[value.unique()], results) for value in graph.outputs()]
        self.rows.append(Row("output", "output", "output", counted(len(outputs), "value")))
        return Captured(
            graph=self.importer.finish(results),
            inputs=self.inputs,
            outputs=outputs,
            fallback=self.fallback,
            graph_inputs=list(range(len(self.inputs))),
            has_key=bool(self.importer.key_input),
            rows=self.rows,
            unsupported=self.importer.unsupported,
            check_supported=self.importer.check_supported,
        )

    def _output(self, value: Any, results: list[ImportedTensor]) -> Output:
        if isinstance(value, ImportedTensor) and value.variable in self.input_of:
            return Output("input", self.input_of[value.variable])
        results.append(self.importer.value_of(value))
        return Output("result", len(results) - 1)


# ---- overloads and their arguments ----------------------------------------------------------------------------------


@functools.cache
def _overload(name: str) -> torch._ops.OpOverload:
    """ "aten::add.Tensor" in PyTorch's Python spelling."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if found is None:
        fail(f"{name} is an operator of TorchScript alone")
    return found


def _converted(argument: torch._C.Argument, value: Any) -> Any:
    """Converts TorchScript's integer for a dtype; the lazy device is the CPU's memory."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    is_dtype = type(value) is int and "ScalarType" in str(argument.real_type)
    return _SCALAR_TYPES.get(value, value) if is_dtype else value


def _bound(op: torch._ops.OpOverload, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional arguments, and keyword-only arguments."""
    parameters = list(zip(op._schema.arguments, arguments, strict=True))
    args = [value for parameter, value in parameters if not parameter.kwarg_only]
    return args, {parameter.name: value for parameter, value in parameters if parameter.kwarg_only}


def _complete(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """In the order of the schema, with its defaults."""
    parameters = op._schema.arguments[len(args) :]
    return [*args, *(kwargs.get(parameter.name, parameter.default_value) for parameter in parameters)]


def _imported(arguments: Any) -> Iterator[ImportedTensor]:
    for argument in arguments:
        if isinstance(argument, ImportedTensor):
            yield argument
        elif isinstance(argument, (tuple, list)):
            yield from _imported(argument)


def _filled(arguments: Any, replace: Callable[[ImportedTensor], Any]) -> Any:
    if isinstance(arguments, ImportedTensor):
        return replace(arguments)
    if isinstance(arguments, (tuple, list)):
        return [_filled(argument, replace) for argument in arguments]
    return arguments


def _template(arguments: list[Any], counter: Iterator[int]) -> list[Any]:
    """With a slot for each operand of the external node."""
    return _filled(arguments, lambda value: Slot(next(counter), _NUMBERS[value.dtype] if value.is_number else None))


def _typed(op: torch._ops.OpOverload, dtypes: list[torch.dtype], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """The call, with results of the dtypes that PyTorch's meta device has. The CPU's may differ (a batch norm in bf16),
    but the graph has the meta device's."""
    results = leaves_of(op(*args, **kwargs))
    return [result.to(dtype) for result, dtype in zip(results, dtypes, strict=True)]


def _seeded(
    op: torch._ops.OpOverload, dtypes: list[torch.dtype], key: torch.Tensor, *args: Any, **kwargs: Any
) -> list[torch.Tensor]:
    """The call with random numbers of this key. Other random numbers are not affected."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(key[0]))
        return _typed(op, dtypes, *args, **kwargs)


# ---- what PyTorch knows of a call -----------------------------------------------------------------------------------


def _on_meta(op: torch._ops.OpOverload, arguments: list[Any]) -> Any:
    """The results of the call, without data. A number stands for any number of its kind."""
    try:
        args, kwargs = _bound(op, _filled(arguments, lambda value: _stand_in(value, "meta")))
        return op(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        return fail(f"{target_name(op)} is not supported, and PyTorch does not say what it gives: {reason}")


def _decomposed(op: torch._ops.OpOverload, arguments: list[Any]) -> torch.fx.GraphModule | None:
    """The call as a graph of other calls; None if PyTorch cannot decompose it, or needs the value of a number."""
    from torch.fx.experimental.proxy_tensor import make_fx

    operands = list(_imported(arguments))
    if any(operand.is_number for operand in operands):
        return None

    def run(*tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        args, kwargs = _bound(op, _filled(arguments, lambda _: next(left)))
        return op(*args, **kwargs)

    try:
        examples = [_stand_in(operand, "cpu") for operand in operands]
        trace = make_fx(run, decomposition_table=missing_decompositions(), tracing_mode="fake")
        module = trace(*examples)
    except Exception:  # the fallback runs what cannot be traced
        return None
    calls = [node.target for node in module.graph.nodes if node.op == "call_function"]
    return None if op in calls else module


def _stand_in(value: ImportedTensor, device: str) -> Any:
    if value.is_number:
        return _NUMBERS[value.dtype](1)
    if not all(isinstance(size, int) for size in value.shape):
        fail(f"a size of {value.type} depends on data")
    return torch.empty(value.shape, dtype=_TORCH_DTYPES[value.dtype], device=device)


def _agree(declared: Iterable[Any], result: Any) -> bool:
    """Whether the results have the dtypes of the graph, where it has them."""
    pairs = zip(declared, result if isinstance(result, (tuple, list)) else [result], strict=False)
    return all(_has_dtype(kind, value) for kind, value in pairs)


def _has_dtype(declared: Any, value: Any) -> bool:
    dtype = declared.dtype() if declared.kind() == "TensorType" else None
    return dtype is None or not isinstance(value, ImportedTensor) or DTYPES.get(dtype) == value.dtype


def _text_of(result: Any) -> str:
    if isinstance(result, (tuple, list)):
        return f"({', '.join(map(_text_of, result))})"
    return result.type if isinstance(result, ImportedTensor) else str(result)
