"""TorchScript graphs as the lazy device makes them, translated, compiled, and compared with PyTorch."""

import math
import re
from dataclasses import dataclass

import pytest
import tenon.lazy
import torch

from tests.python import lazy_device

inf = math.inf
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def lazy_device_of_tenon():
    lazy_device.start()


def compiled(graph, types):
    return tenon.lazy._extension.compile(graph, types)


def left_to_pytorch(program):
    """The calls that PyTorch runs, each with the reason."""
    _, _, calls = str(program).partition("PyTorch runs:\n")
    return [line.strip() for line in calls.partition("\n\n")[0].splitlines()]


@dataclass
class Number:
    """A number that each run gives: the graph is translated once, and runs with each of these."""

    values: tuple

    def __init__(self, *values):
        self.values = values


def graph_of(op, *arguments):
    """A TorchScript graph of one call, with all arguments by position, as the lowering of lazy tensors leaves it."""
    graph = torch._C.Graph()
    values = [value_of(graph, argument) for argument in arguments]
    returns = op._schema.returns
    node = graph.insertNode(graph.create(f"aten::{op._schema.name.removeprefix('aten::')}", values, len(returns)))
    for output, result in zip(node.outputs(), returns, strict=True):
        output.setType(result.type)
        graph.registerOutput(output)
    return graph


def value_of(graph, argument):
    if isinstance(argument, torch.Tensor):
        return graph.addInput()
    if isinstance(argument, Number):
        value = graph.insertNode(graph.create("aten::ScalarImplicit", [graph.addInput()], 1)).output()
        value.setType(torch._C.NumberType.get())
        return value
    if isinstance(argument, list) and any(isinstance(item, torch.Tensor) for item in argument):
        items = [value_of(graph, item) for item in argument]
        return graph.insertNode(graph.create("prim::ListConstruct", items, 1)).output()
    return graph.insertConstant(argument)


def flat(arguments):
    for argument in arguments:
        if isinstance(argument, list):
            yield from flat(argument)
        elif isinstance(argument, (torch.Tensor, Number)):
            yield argument


def as_tensor(value):
    return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=DTYPES[type(value)])


DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool}


def type_of(value):
    tensor = as_tensor(value.values[0] if isinstance(value, Number) else value)
    return tensor.dtype, tuple(tensor.shape)


def check(op, *arguments, natively=True):
    """The same as PyTorch with every value of its numbers, from one translation."""
    operands = list(flat(arguments))
    program = compiled(graph_of(op, *arguments), [type_of(operand) for operand in operands])
    assert (left_to_pytorch(program) == []) == natively
    count = max((len(operand.values) for operand in operands if isinstance(operand, Number)), default=1)

    def chosen(argument, number):
        return argument.values[number % len(argument.values)] if isinstance(argument, Number) else argument

    for number in range(count):
        given = [as_tensor(chosen(operand, number)).clone() for operand in operands]
        expected = call(op, [chosen(argument, number) for argument in arguments])
        results = program.run(given)
        torch.testing.assert_close(results, expected, equal_nan=True)
    return program


def call(op, arguments):
    parameters = op._schema.arguments
    args = [value for value, parameter in zip(arguments, parameters, strict=True) if not parameter.kwarg_only]
    kwargs = {p.name: value for value, p in zip(arguments, parameters, strict=True) if p.kwarg_only}
    results = op(*args, **kwargs)
    return list(results) if isinstance(results, (tuple, list)) else [results]


f32 = torch.tensor([[1.5, -2.0, 0.25], [-0.5, 3.0, 0.0]])
i64 = torch.tensor([[1, -2, 3], [4, 0, -6]])
i32 = i64.to(torch.int32)
flags = torch.tensor([[True, False, True], [False, False, True]])
square = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
zero_dim = torch.tensor(3.0)

# ---- numbers that each run gives -------------------------------------------------------------------------------------

reals = Number(2.0, -0.5, 3.25)
wholes = Number(2, -3, 5)


TENSORS = [f32, f32.double(), f32.bfloat16(), i64, i32, flags, zero_dim, zero_dim.half(), torch.tensor(3)]


@pytest.mark.parametrize("number", [reals, wholes, Number(True, False)], ids=["float", "int", "bool"])
@pytest.mark.parametrize("tensor", TENSORS, ids=lambda tensor: f"{tensor.dtype} of rank {tensor.dim()}")
@pytest.mark.parametrize("op", [aten.mul.Scalar, aten.eq.Scalar, aten.div.Scalar])
def test_a_number_is_promoted_as_pythons_numbers_are(op, tensor, number):
    check(op, tensor, number)


NUMBERS = {
    "add": (aten.add.Tensor, f32, f32 + 1, reals),
    "add of integers": (aten.add.Tensor, i64, i64 + 1, wholes),
    "add.Scalar": (aten.add.Scalar, f32, reals, 1),
    "sub": (aten.sub.Tensor, f32, f32 + 1, reals),
    "remainder": (aten.remainder.Scalar, f32, reals),
    "remainder of integers": (aten.remainder.Scalar, i64, reals),
    "rsub": (aten.rsub.Scalar, f32, reals, wholes),
    "addcmul": (aten.addcmul.default, f32, f32 + 1, f32 - 1, reals),
    "addcmul of integers": (aten.addcmul.default, i64, i64 + 1, i64, wholes),
    "addcdiv": (aten.addcdiv.default, f32, f32 + 1, f32 + 4, reals),
    "addmm": (aten.addmm.default, square, square + 1, square - 1, Number(1.0, 0.0, 0.5), Number(1.0, 2.0, 0.0)),
    "addmm, NaN left out": (aten.addmm.default, square * math.nan, square, square, Number(0), Number(1)),
    "addmm of a vector": (aten.addmm.default, square[0], square, square, Number(1, 0), Number(1, 2)),
    "baddbmm": (aten.baddbmm.default, square[None], square[None], square[None], Number(1.0, 0.0), Number(1.0, 2.0)),
    "clamp": (aten.clamp.default, f32, Number(-1.0, 0.0), Number(1.0, 0.5)),
    "clamp of integers": (aten.clamp.default, i64, Number(-1, 0), None),
    "clamp_min": (aten.clamp_min.default, f32, Number(0.5, -1.0)),
    "pow": (aten.pow.Tensor_Scalar, f32.abs(), Number(2.0, 0.5, -1.0)),
    "pow of integers": (aten.pow.Tensor_Scalar, i64, Number(2, 3, 0)),
    "pow of integers by a real": (aten.pow.Tensor_Scalar, i64.abs(), Number(2.0, 0.5)),
    "pow of a number": (aten.pow.Scalar, Number(2.0, 3.0), f32),
    "fill": (aten.fill.Scalar, f32, reals),
    "full": (aten.full.default, [2, 3], reals, None, None, None, None),
    "full of f64": (aten.full.default, [2, 3], Number(0.1, 1 / 3), 7, None, None, None),
    "where": (aten.where.ScalarOther, flags, f32, reals),
    "where, of two numbers": (aten.where.Scalar, flags, reals, Number(1.0, 7.5)),
    "masked_fill": (aten.masked_fill.Scalar, f32, flags, reals),
    "masked_fill of integers": (aten.masked_fill.Scalar, i64, flags, wholes),
    "threshold": (aten.threshold.default, f32, Number(0.0, 1.0), reals),
    "threshold_backward": (aten.threshold_backward.default, f32 + 1, f32, Number(0.0, 1.0)),
    "elu": (aten.elu.default, f32, Number(1.0, 0.5), Number(1.0, 2.0), Number(1.0, 0.25)),
    "elu_backward": (aten.elu_backward.default, f32 + 1, Number(1.0, 0.5), Number(1.0, 2.0), Number(1.0), False, f32),
    "leaky_relu": (aten.leaky_relu.default, f32, Number(0.01, 0.5)),
    "leaky_relu_backward": (aten.leaky_relu_backward.default, f32 + 1, f32, Number(0.01, 0.5), False),
    "softplus": (aten.softplus.default, f32, Number(1.0, 2.0), Number(20.0, 1.0)),
    "softplus_backward": (aten.softplus_backward.default, f32 + 1, f32, Number(1.0, 2.0), Number(20.0, 1.0)),
    "constant_pad_nd": (aten.constant_pad_nd.default, f32, [1, 2, 0, -1], reals),
    "constant_pad_nd of integers": (aten.constant_pad_nd.default, i64, [1, 0], wholes),
    "norm": (aten.norm.ScalarOpt_dim, f32, Number(2.0, 1.0, 0.0, inf, -inf, 3.0, -1.0), [1], True),
    "std": (aten.std.correction, f32, [1], Number(1, 0, 2, 3), False),
    "std of f16": (aten.std.correction, f32.half(), None, Number(1, 0), False),
    "var_mean": (aten.var_mean.correction, f32, [0], Number(1.0, 0.0), True),
    "linspace": (aten.linspace.default, Number(0.0, -1.0), Number(1.0, 5.0), 7, None, None, None, None),
    "scalar_tensor": (aten.scalar_tensor.default, reals, 7, None, None, None),
    "lerp": (aten.lerp.Scalar, f32, f32 + 1, Number(0.25, 1.0)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_values_of_a_run(name):
    check(*NUMBERS[name])


def test_a_call_that_must_know_its_number_is_left_to_pytorch():
    program = check(aten.renorm.default, f32, Number(2.0, 1.0), 0, Number(1.0, 0.5), natively=False)
    assert left_to_pytorch(program) == ["aten.renorm.default: argument 'p' is only known at run time"]


# ---- structure -------------------------------------------------------------------------------------------------------


def parsed(text):
    return torch._C.parse_ir(text, parse_tensor_constants=True)


def check_text(text, function, *tensors):
    program = compiled(parsed(text), [type_of(tensor) for tensor in tensors])
    assert left_to_pytorch(program) == []
    results = program.run([as_tensor(tensor) for tensor in tensors])
    expected = function(*tensors)
    torch.testing.assert_close(results, list(expected) if isinstance(expected, tuple) else [expected])
    return results


def test_lists_and_none():
    check_text(
        """
        graph(%x : Tensor, %y : Tensor):
          %none : NoneType = prim::Constant()
          %dim : int = prim::Constant[value=1]()
          %list : Tensor[] = prim::ListConstruct(%x, %y)
          %joined : Tensor = aten::cat(%list, %dim)
          %dims : int[] = prim::ListConstruct(%dim)
          %false : bool = prim::Constant[value=0]()
          %sum : Tensor = aten::sum(%joined, %dims, %false, %none)
          return (%joined, %sum)""",
        lambda x, y: (torch.cat([x, y], 1), torch.cat([x, y], 1).sum(1)),
        f32,
        f32 + 1,
    )


def test_several_results():
    check_text(
        """
        graph(%x : Tensor):
          %dim : int = prim::Constant[value=1]()
          %false : bool = prim::Constant[value=0]()
          %values : Tensor, %places : Tensor = aten::max(%x, %dim, %false)
          return (%places, %values)""",
        lambda x: tuple(reversed(x.max(1))),
        f32,
    )


def test_a_dtype_is_an_integer_in_torchscript():
    check_text(
        """
        graph(%x : Tensor):
          %dtype : int = prim::Constant[value=7]()
          %false : bool = prim::Constant[value=0]()
          %none : NoneType = prim::Constant()
          %device : Device = prim::Constant[value="lazy"]()
          %y : Tensor = aten::to(%x, %dtype, %false, %false, %none)
          %z : Tensor = aten::_to_copy(%x, %dtype, %none, %device, %none, %false, %none)
          return (%y, %z)""",
        lambda x: (x.double(), x.double()),
        f32,
    )


def test_copies_of_views():
    check_text(
        """
        graph(%x : Tensor):
          %zero : int = prim::Constant[value=0]()
          %one : int = prim::Constant[value=1]()
          %two : int = prim::Constant[value=2]()
          %minus : int = prim::Constant[value=-1]()
          %sizes : int[] = prim::ListConstruct(%minus, %two)
          %a : Tensor = aten::transpose_copy(%x, %zero, %one)
          %b : Tensor = aten::view_copy(%a, %sizes)
          %c : Tensor = aten::slice_copy(%b, %zero, %one, %two, %one)
          return (%b, %c)""",
        lambda x: (x.t().reshape(-1, 2), x.t().reshape(-1, 2)[1:2]),
        f32,
    )


def test_a_tensor_as_a_number():
    check_text(
        """
        graph(%x : Tensor, %s : Tensor):
          %factor : Scalar = aten::ScalarImplicit(%s)
          %y : Tensor = aten::mul(%x, %factor)
          return (%y)""",
        lambda x, s: x * s.item(),
        i64,
        torch.tensor(2.5, dtype=torch.float64),
    )


@pytest.mark.parametrize(("kind", "number"), [("float", 2.5), ("int", 3)])
def test_an_input_that_is_a_number(kind, number):
    text = f"graph(%x : Tensor, %s : {kind}):\n  %y : Tensor = aten::mul(%x, %s)\n  return (%y)"
    for tensor in (f32, i32, zero_dim, torch.tensor(3, dtype=torch.int32)):
        check_text(text, torch.mul, tensor, number)


def test_a_constant_tensor_as_a_number_is_known():
    """So that a linear layer, whose alpha and beta are 1, is one."""
    graph = parsed(
        """
        graph(%x : Tensor, %a : Tensor, %b : Tensor, %one : Tensor):
          %number : Scalar = aten::ScalarImplicit(%one)
          %y : Tensor = aten::addmm(%x, %a, %b, %number, %number)
          return (%y)"""
    )
    graph.setInsertPoint(next(iter(graph.nodes())))
    next(value for value in graph.inputs() if value.debugName() == "one").replaceAllUsesWith(
        graph.insertConstant(torch.tensor(1))
    )
    graph.eraseInput(3)
    tensors = [square, square + 1, square - 1]
    program = compiled(graph, [type_of(tensor) for tensor in tensors])
    assert re.findall(r"= (\w+)\(", str(program).partition("}")[0]) == ["addmm"]
    torch.testing.assert_close(program.run(tensors), [torch.addmm(*tensors)])


def test_a_result_that_is_an_input():
    results = check_text("graph(%x : Tensor, %y : Tensor):\n  return (%y, %x)", lambda x, y: (y, x), f32, i64)
    assert [result.data_ptr() for result in results] == [i64.data_ptr(), f32.data_ptr()]


def test_in_place_calls_are_values_here():
    check_text(
        """
        graph(%x : Tensor, %y : Tensor):
          %one : int = prim::Constant[value=1]()
          %z : Tensor = aten::mul(%x, %y)
          %w : Tensor = aten::add_(%z, %y, %one)
          return (%w, %z)""",
        lambda x, y: (x * y + y, x * y + y),
        f32,
        f32 + 1,
    )


# ---- numbers that were recorded as tensors ---------------------------------------------------------------------------


def test_the_declared_dtype_tells_numbers_from_tensors():
    """PyTorch records `x * 2.5` with a tensor of f64: only the dtype of the result says what was meant."""
    number = torch.tensor(2.5, dtype=torch.float64)
    for tensor in (i64, i64[0, 0].clone(), zero_dim):
        graph = graph_of(aten.mul.Tensor, tensor, number)
        next(graph.outputs()).inferTypeFrom(tensor * 2.5)
        program = compiled(graph, [type_of(tensor), type_of(number)])
        torch.testing.assert_close(program.run([tensor, number]), [tensor * 2.5])
        check(aten.mul.Tensor, tensor, number)


# ---- what the registry lacks -----------------------------------------------------------------------------------------


def test_a_call_that_only_pytorch_can_run():
    program = check(aten._linalg_slogdet.default, square, natively=False)
    assert left_to_pytorch(program) == ["aten._linalg_slogdet.default: not in the registry"]
    assert tenon.lazy.metrics()["fallbacks"] == {"aten::_linalg_slogdet": 1}


def test_the_fallback_gets_lists_of_tensors():
    """And where PyTorch does not say what a call gives without its data, the graph's own types count."""
    op, dense, offsets = aten._padded_dense_to_jagged_forward.default, torch.rand(2, 2, 3), torch.tensor([0, 2, 3])
    graph, types = graph_of(op, dense, [offsets], 3), [type_of(dense), type_of(offsets)]
    with pytest.raises(RuntimeError, match="PyTorch does not say what it gives"):
        compiled(graph, types)
    expected = op(dense, [offsets], 3)
    next(graph.outputs()).inferTypeFrom(expected)
    torch.testing.assert_close(compiled(graph, types).run([dense, offsets]), [expected])


def test_the_fallback_gets_numbers():
    check(aten._addmm_activation.default, square, square, square, reals, wholes, False, natively=False)
    check(aten.special_hermite_polynomial_h.n_scalar, f32, Number(2, 3), natively=False)


def test_a_failing_call_says_why():
    program = compiled(graph_of(aten._linalg_solve_ex.default, square, square, True, True), [type_of(square)] * 2)
    with pytest.raises(RuntimeError, match="singular"):
        program.run([torch.zeros(2, 2), square])


# ---- what cannot be translated ---------------------------------------------------------------------------------------


def test_complex_tensors_are_refused():
    with pytest.raises(RuntimeError, match=r"has no dtype torch.complex64: input 0"):
        compiled(parsed("graph(%x : Tensor):\n  return (%x)"), [(torch.complex64, (2,))])


def test_control_flow_is_refused():
    graph = parsed(
        """
        graph(%x : Tensor, %y : Tensor, %flag : bool):
          %z : Tensor = prim::If(%flag)
            block0():
              -> (%x)
            block1():
              -> (%y)
          return (%z)"""
    )
    with pytest.raises(RuntimeError, match=r"prim::If is not translated: a graph of the lazy device has ATen calls"):
        compiled(graph, [type_of(f32), type_of(f32), (torch.bool, ())])
