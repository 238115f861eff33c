"""tenon.compile: a Program gives what the model gives, checks its arguments, shares the model's memory, and leaves to
PyTorch what Tenon lacks."""

import inspect
import threading

import pytest
import tenon
import torch
from small_models import Mlp
from tenon.capture import fallback
from tenon.capture.fx import import_graph_module
from torch import fx, nn
from torch.export import Dim, export


def check(model, *args, **options):
    program = tenon.compile(model, args, **options)
    torch.testing.assert_close(program(*args), model(*args))
    return program


def error_of(function):
    with pytest.raises(tenon.Error) as info:
        function()
    return info.value.message


# ---- forms of models ------------------------------------------------------------------------------------------------


def test_a_module():
    check(Mlp(), torch.randn(2, 4))


def test_an_exported_program():
    model, x = Mlp(), torch.randn(2, 4)
    program = tenon.compile(export(model, (x,)))
    torch.testing.assert_close(program(x), model(x))
    assert "arguments along" in error_of(lambda: tenon.compile(export(model, (x,)), (x,)))


def test_a_file(tmp_path):
    model, x = Mlp(), torch.randn(2, 4)
    path = tmp_path / "mlp.pt2"
    torch.export.save(export(model, (x,)), path)
    for form in (path, str(path)):
        torch.testing.assert_close(tenon.compile(form)(x), model(x))
    with pytest.raises(tenon.Error, match=r"no\.pt2: error: cannot open"):
        tenon.compile("no.pt2")


def test_a_function():
    check(lambda x, y: torch.sin(x) + y, torch.randn(3), torch.randn(3))


def test_a_function_where_pytorch_takes_no_anchors(monkeypatch):
    monkeypatch.delattr(fx.proxy, "_register_stack_trace_anchor", raising=False)
    x = torch.randn(3, 4)
    torch.testing.assert_close(tenon.compile(torch.exp, (x,))(x), x.exp())


def test_a_graph_module_of_aten_calls():
    from torch.fx.experimental.proxy_tensor import make_fx

    model, x = Mlp(), torch.randn(2, 4)
    check(make_fx(model)(x), x)
    check(fx.symbolic_trace(model), x)


def test_what_is_no_model():
    assert "a model of type int cannot be compiled" in error_of(lambda: tenon.compile(3))
    assert "must be a tuple" in error_of(lambda: tenon.compile(Mlp(), torch.randn(2, 4)))


# ---- arguments and results ------------------------------------------------------------------------------------------


def test_nested_arguments_and_results():
    def model(pair, *, options):
        a, b = pair
        return {"sum": a + b, "list": [a * options["scale"], None, 3], "same": a}

    pair = (torch.randn(3), torch.randn(3))
    options = {"scale": torch.tensor(2.0)}
    program = tenon.compile(model, (pair,), {"options": options})
    result = program(pair, options=options)
    torch.testing.assert_close(result, model(pair, options=options))
    assert result["same"] is pair[0]
    assert result["list"][1:] == [None, 3]


def test_arguments_by_name():
    model, x = Mlp(), torch.randn(2, 4)
    torch.testing.assert_close(tenon.compile(model, (x,))(x=x), model(x))


def test_strided_arguments():
    def model(x):
        return x * 2

    program = tenon.compile(model, (torch.randn(3, 4),))
    for x in (torch.randn(4, 3).t(), torch.randn(3, 8)[:, ::2], torch.randn(1, 4).expand(3, 4)):
        torch.testing.assert_close(program(x), x * 2)


def test_sizes_as_results():
    program = tenon.compile(
        lambda x: (x + 1, x.shape[0], x.shape[0] * 2), (torch.randn(3),), dynamic_shapes=({0: Dim("n")},)
    )
    result, size, double = program(torch.zeros(7))
    assert (size, double) == (7, 14)
    assert type(size) is int
    torch.testing.assert_close(result, torch.ones(7))


def test_results_belong_to_the_caller():
    program = tenon.compile(lambda x: x + 1, (torch.zeros(3),))
    first = program(torch.zeros(3))
    program(torch.ones(3))
    torch.testing.assert_close(first, torch.ones(3))


BATCH = Dim("B", min=2, max=64)


def dynamic_program():
    return tenon.compile(Mlp(), (torch.randn(5, 4),), dynamic_shapes={"x": {0: BATCH}})


MISTAKES = {
    "a wrong size": (lambda: torch.randn(5, 3), "got f32[5, 3]"),
    "out of range": (lambda: torch.randn(65, 4), "got f32[65, 4]"),
    "below the range": (lambda: torch.randn(1, 4), "got f32[1, 4]"),
    "a wrong dtype": (lambda: torch.randn(5, 4, dtype=torch.float64), "got f64[5, 4]"),
    "a wrong rank": (lambda: torch.randn(4), "got f32[4]"),
    "a wrong device": (lambda: torch.empty(5, 4, device="meta"), "got f32[5, 4] on meta"),
    "no tensor": (lambda: 3, "got 3"),
}


@pytest.mark.parametrize(("make", "got"), MISTAKES.values(), ids=MISTAKES.keys())
def test_an_argument_that_does_not_fit(make, got):
    program = dynamic_program()
    expected = f"input 'x' (args[0]): expected f32[B, 4] with B in [2, 64], {got}"
    assert error_of(lambda: program(make())) == expected


def test_the_error_is_where_the_user_called():
    program = dynamic_program()
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(tenon.Error) as info:
        program(torch.randn(5, 3))
    assert info.value.line == line
    assert info.value.file.endswith("test_compile.py")


def test_a_wrong_number_of_arguments():
    program = dynamic_program()
    assert "expected 1 positional argument, got 2" in error_of(lambda: program(torch.randn(5, 4), 1))
    assert "expected 1 positional argument, got 0" in error_of(lambda: program())
    assert "the model has no argument 'y'" in error_of(lambda: program(torch.randn(5, 4), y=1))
    assert "the model has no argument 'y'" in error_of(lambda: program(y=torch.randn(5, 4)))
    assert error_of(lambda: program([torch.randn(5, 4)])).endswith("got a list")


def test_arguments_that_nest_otherwise():
    program = tenon.compile(lambda pair: pair[0] + pair[1], ((torch.ones(2), torch.ones(2)),))
    assert "nest otherwise" in error_of(lambda: program((torch.ones(2),)))


def test_dicts_in_another_order():
    def model(given, *, last):
        return given["a"] - given["b"] * last["c"] + last["d"]

    a, b, c, d = torch.randn(4, 3)
    program = tenon.compile(model, ({"a": a, "b": b},), {"last": {"c": c, "d": d}})
    torch.testing.assert_close(program({"b": b, "a": a}, last={"d": d, "c": c}), a - b * c + d)
    message = error_of(lambda: program({"b": b, "e": a}, last={"d": d, "c": c}))
    assert "missing key(s): {'a'}; extra key(s): {'e'}; the model takes:" in message


def test_constants_must_be_those_of_the_trace():
    program = tenon.compile(lambda x, k, flag: x * k if flag else x, (torch.ones(2), 3, True))
    torch.testing.assert_close(program(torch.ones(2), 3, True), torch.full((2,), 3.0))
    assert error_of(lambda: program(torch.ones(2), 4, True)) == "input 'k' (args[1]): expected 3, got 4"
    assert "expected True, got 1" in error_of(lambda: program(torch.ones(2), 3, 1))


def test_sizes_that_must_agree():
    n = Dim("n", min=1, max=16)
    program = tenon.compile(lambda a, b: a + b, (torch.ones(3), torch.ones(3)), dynamic_shapes=({0: n}, {0: n}))
    torch.testing.assert_close(program(torch.ones(9), torch.ones(9)), torch.full((9,), 2.0))
    message = error_of(lambda: program(torch.ones(9), torch.ones(8)))
    assert message.startswith("input 'b' (args[1]): expected f32[")
    assert "got f32[8]" in message
    assert "= 9 from other inputs" in message


def test_sizes_that_follow_from_others():
    n = Dim("n", min=1, max=16)
    program = tenon.compile(
        lambda a, b: b[: a.shape[0]] + a + b[a.shape[0] :],
        (torch.ones(3), torch.ones(6)),
        dynamic_shapes=({0: n}, {0: 2 * n}),
    )
    torch.testing.assert_close(program(torch.ones(5), torch.ones(10)), torch.full((5,), 3.0))
    assert "input 'b'" in error_of(lambda: program(torch.ones(5), torch.ones(9)))


def test_names_of_sizes():
    batch, length = Dim("batch", max=64), Dim("length", max=64)
    program = tenon.compile(nn.ReLU(), (torch.ones(4, 6),), dynamic_shapes=({0: batch, 1: length},))
    assert "f32[batch, length]" in program.signature


def test_names_are_in_the_graph_and_its_loops():
    program = tenon.compile(nn.ReLU(), (torch.ones(4, 6),), dynamic_shapes=({0: Dim("batch", max=64)},))
    assert program.graph.symbols == {"batch": (0, 64)}
    assert "f32[batch, 6]" in str(program.graph)
    assert tenon.parse(str(program.graph)) == program.graph
    assert {row.type for row in program.nodes if row.op != "output"} == {"f32[batch, 6]"}
    assert "batch" in program._executable.loop_tree(0)


def test_an_exported_program_keeps_its_names(tmp_path):
    shapes = ({0: Dim("batch", max=64), 1: Dim.AUTO},)
    for strict in (False, True):
        exported = torch.export.export(nn.ReLU(), (torch.ones(4, 6),), dynamic_shapes=shapes, strict=strict)
        for program in (exported, exported.run_decompositions()):
            assert list(tenon.compile(program).graph.symbols) == ["batch", "input.1"]
    torch.export.save(exported, tmp_path / "model.pt2")  # a file has no names
    program = tenon.compile(tmp_path / "model.pt2")
    assert list(program.graph.symbols) == ["input.0", "input.1"]
    assert tenon.parse(str(program.graph)) == program.graph
    x = torch.randn(3, 5)
    torch.testing.assert_close(program(x), x.relu())
    assert "expected f32[input.0, input.1]" in error_of(lambda: program(torch.ones(3)))


def test_numbers_name_their_sizes():
    program = tenon.compile(
        lambda x, n: x.repeat(n) + n, (torch.ones(4), 3), dynamic_shapes=({0: Dim("n")}, Dim.DYNAMIC)
    )
    assert list(program.graph.symbols) == ["n", "n_2"]
    torch.testing.assert_close(program(torch.ones(2), 5), torch.full((10,), 6.0))


@pytest.mark.parametrize("name", ["min", "max", "none", "inf", "int", "for", "symbol", "größe", "i", "N", "nonzero0"])
def test_any_name_will_do(name):
    def model(x):
        return torch.softmax(x[:, 1:], 1).sum(0), x[x > 0]

    program = tenon.compile(model, (torch.ones(4, 6),), dynamic_shapes=({0: Dim(name, min=1), 1: Dim.AUTO},))
    assert tenon.parse(str(program.graph)) == program.graph
    x = torch.randn(3, 5)
    torch.testing.assert_close(program(x), model(x))


def test_assertions_have_the_names():
    def model(x, at):
        index = at.item()
        torch._check(index < x.shape[0])
        return x + index

    given = (torch.ones(4), torch.tensor(2))
    program = tenon.compile(model, given, dynamic_shapes=({0: Dim("batch", max=64)}, None))
    torch.testing.assert_close(program(*given), torch.full((4,), 3.0))
    message = error_of(lambda: program(torch.ones(15), torch.tensor(16)))
    assert "Runtime assertion failed for expression u0 < batch" in message


def test_names_of_derived_sizes():
    half = Dim("half", min=2, max=16)
    program = tenon.compile(nn.ReLU(), (torch.ones(6),), dynamic_shapes=({0: 2 * half},))
    assert "f32[2*half] with half in [2, 16]" in program.signature
    assert "half" in error_of(lambda: program(torch.ones(7)))


def test_names_of_sizes_of_nested_arguments():
    def model(given, *, other):
        return given["a"][0] + other

    n, m = Dim("rows", max=64), Dim("columns", max=64)
    x = torch.ones(4, 6)
    for shapes in (({"a": [{0: n, 1: m}]}, {0: n, 1: m}), {"given": {"a": [{0: n, 1: m}]}, "other": {0: n, 1: m}}):
        program = tenon.compile(model, ({"a": [x]},), {"other": x}, dynamic_shapes=shapes)
        assert program.signature.count("f32[rows, columns]") == 2


def test_sizes_as_arguments():
    program = tenon.compile(lambda x, n: x + n, (torch.ones(3), 4), dynamic_shapes=(None, Dim.DYNAMIC))
    for n in (2, 9, 100):
        torch.testing.assert_close(program(torch.ones(3), n), torch.ones(3) + n)
    assert "input 'n'" in error_of(lambda: program(torch.ones(3), 2.5))


@pytest.mark.parametrize("size", [0, 1, 2, 17])
def test_one_program_for_all_sizes(size):
    model = Mlp()
    program = tenon.compile(model, (torch.randn(5, 4),), dynamic_shapes={"x": {0: Dim("B", min=0, max=64)}})
    x = torch.randn(size, 4)
    torch.testing.assert_close(program(x), model(x))


# ---- transforms of torch.func ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.vmap(lambda row: torch.sin(row).sum())(x),
        torch.vmap(torch.vmap(torch.sin)),
        lambda x: torch.vmap(torch.mm, in_dims=(None, 0))(x, torch.ones(5, 4, 2)),
    ],
)
def test_vmap_in_a_model(model):
    assert not check(model, torch.randn(3, 4)).unsupported


def test_gradients_in_a_model():
    def model(x):
        return torch.func.grad(lambda y: torch.sin(y).sum())(x)

    x = torch.randn(3, 4)
    assert "torch.compile with backend='tenon'" in error_of(lambda: tenon.compile(model, (x,)))
    torch.testing.assert_close(torch.compile(model, backend="tenon")(x), model(x))


@pytest.mark.parametrize(
    "transform",
    [torch.vmap, lambda f: torch.func.grad(lambda x: f(x).sum()), torch.func.jacrev],
)
def test_a_program_cannot_be_transformed(transform):
    x = torch.randn(3, 4)
    program = tenon.compile(torch.sin, (x[0] if transform is torch.vmap else x,))
    assert "cannot look into a compiled program" in error_of(lambda: transform(program)(x))


# ---- the model's memory ---------------------------------------------------------------------------------------------


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        self.count.add_(1)
        return self.norm(x)


def test_buffers_are_updated_in_the_model():
    torch.manual_seed(0)
    model, reference = Counter(), Counter()
    x = torch.randn(5, 3)
    program = tenon.compile(model, (x,))
    model.load_state_dict(reference.state_dict())
    for _ in range(3):
        torch.testing.assert_close(program(x), reference(x))
    torch.testing.assert_close(model.state_dict(), reference.state_dict())
    assert int(model.count) == 3


def test_arguments_are_written():
    def model(x):
        x.mul_(2)
        return x + 1

    program = tenon.compile(model, (torch.ones(3),))
    x = torch.ones(3)
    torch.testing.assert_close(program(x), torch.full((3,), 3.0))
    torch.testing.assert_close(x, torch.full((3,), 2.0))


def test_what_is_written_and_returned_is_the_argument_itself():
    def model(x, y):
        x.add_(1)
        return x, y, x * y

    for traced in (model, export(tenon.capture.models._Function(model), (torch.ones(3), torch.ones(3)))):
        given = () if traced is not model else (torch.ones(3), torch.ones(3))
        program = tenon.compile(traced, given)
        x, y = torch.ones(3), torch.ones(3)
        results = program(x, y)
        assert results[0] is x
        assert results[1] is y
        torch.testing.assert_close(results, (torch.full((3,), 2.0), torch.ones(3), torch.full((3,), 2.0)))


def test_what_is_written_and_returned_beside_a_fallback():
    def model(x):
        x.add_(1)
        return x, torch.ops.tenon_test.ones_of(x, 4)

    program = tenon.compile(model, (torch.ones(3),))
    x = torch.ones(3)
    assert program(x)[0] is x
    torch.testing.assert_close(x, torch.full((3,), 2.0))


def test_a_view_of_what_is_written_is_not_the_argument():
    def model(x):
        x.add_(1)
        return x.view(3, 1), x + 0

    x = torch.ones(3)
    column, copy = tenon.compile(model, (torch.ones(3),))(x)
    assert column.shape == (3, 1)
    assert copy is not x


def test_a_buffer_that_is_written_and_returned_is_the_models_own():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count.add_(1)
            return self.count, x + self.count

    model = Model()
    program = tenon.compile(model, (torch.ones(2),))
    model.count.zero_()
    count, total = program(torch.ones(2))
    assert count.data_ptr() == model.count.data_ptr()
    torch.testing.assert_close((count, total), (torch.ones(2), torch.full((2,), 2.0)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [2, 3])
def test_squares_and_cubes_are_products_as_in_pytorch(dtype, exponent):
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-30, -1e30], dtype=dtype)
    x = torch.cat([special, torch.randn(1000, dtype=dtype)])
    program = tenon.compile(lambda x: x**exponent, (x,), fallback=False)
    torch.testing.assert_close(program(x), x**exponent, rtol=0, atol=0, equal_nan=True)


def test_a_program_keeps_its_weights_when_the_module_gets_others():
    module = torch.nn.BatchNorm1d(1000).eval()
    x = torch.randn(4, 1000)
    expected = module(x)
    program = tenon.compile(module, (x,))
    for _ in range(2):
        module.double().float()  # the memory of the parameters is freed, and taken by what comes next
        overwriting = [torch.full((1000,), float("nan")) for _ in range(8)]
    torch.testing.assert_close(program(x), expected)
    assert all(other.isnan().all() for other in overwriting)


def test_parameters_may_change_where_they_are_not_frozen():
    model, x = Mlp(), torch.randn(2, 4)
    program = tenon.compile(model, (x,), freeze=False)
    with torch.no_grad():
        model.up.weight.mul_(2)
    torch.testing.assert_close(program(x), model(x))


# ---- what PyTorch runs ----------------------------------------------------------------------------------------------


@torch.library.custom_op("tenon_test::twice_and_half", mutates_args=())
def twice_and_half(x: torch.Tensor, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    return x * 2 * factor, x / 2


@twice_and_half.register_fake
def _(x, factor):
    return torch.empty_like(x), torch.empty_like(x)


@torch.library.custom_op("tenon_test::ones_of", mutates_args=())
def ones_of(x: torch.Tensor, size: int) -> torch.Tensor:
    return x.new_ones(size)


@ones_of.register_fake
def _(x, size):
    return x.new_empty(size)


def test_a_call_that_the_registry_lacks():
    def model(x):
        a, b = torch.ops.tenon_test.twice_and_half(x + 1, 3.0)
        return torch.relu(a) - b

    program = check(model, torch.randn(5))
    assert [kind for kind, _ in program.segments] == ["cpu", "fallback", "cpu"]
    ((target, reason, location),) = program.unsupported
    assert (target, reason) == ("tenon_test.twice_and_half.default", "not in the registry")
    assert location.line == inspect.getsourcelines(model)[1] + 1


def test_sizes_reach_the_fallback():
    def model(x):
        return torch.ops.tenon_test.ones_of(x, x.shape[0] * 2) + 1

    program = tenon.compile(model, (torch.ones(3),), dynamic_shapes=({0: Dim("n")},))
    for size in (2, 9):
        torch.testing.assert_close(program(torch.ones(size)), torch.full((2 * size,), 2.0))


class NeverFunctional(torch.nn.Module):
    """PyTorch cannot trace some programs again whose sizes depend on data: the test says so for it."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x, mask):
        x = x.clone()
        x.mul_(3)
        y = self.call(x)
        y.add_(1)
        x.sub_(y)
        return (x - y)[mask]  # of a size that depends on data

    def compiled(self, monkeypatch, *args):
        def refuse(*_):
            raise AttributeError("'int' object has no attribute 'node'")

        program = torch.export.export(self, args)
        monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
        return tenon.compile(program)


def test_fallbacks_that_share_no_memory_need_no_other_trace(monkeypatch):
    model = NeverFunctional(lambda x: torch.ops.tenon_test.twice_and_half(x, 3.0)[0])
    args = torch.randn(5), torch.tensor([True, False, True, True, False])
    program = model.compiled(monkeypatch, *args)
    assert [target for target, _, _ in program.unsupported] == ["tenon_test.twice_and_half.default"]
    torch.testing.assert_close(program(*args), model(*args))


@torch.library.custom_op("tenon_test::add_one", mutates_args=("x",))
def add_one(x: torch.Tensor) -> None:
    x.add_(1)


def test_fallbacks_that_write_in_place_need_another_trace(monkeypatch):
    def call(x):
        y = x.clone()
        torch.ops.tenon_test.add_one(y)
        return y

    args = torch.randn(5), torch.ones(5, dtype=torch.bool)
    message = error_of(lambda: NeverFunctional(call).compiled(monkeypatch, *args))
    assert "(tenon_test.add_one.default)" in message
    assert "PyTorch says: 'int' object has no attribute 'node'" in message


def test_writes_are_seen_beside_fallbacks():
    def model(x):
        y = x.clone()
        y[0] = 7
        a, b = torch.ops.tenon_test.twice_and_half(y, 1.0)
        a.add_(1)
        return a, b, y

    check(model, torch.randn(4, 3))


def test_without_fallback_every_call_is_listed():
    def model(x):
        a, b = torch.ops.tenon_test.twice_and_half(x, 1.0)
        return torch.ops.tenon_test.ones_of(a + b, 4)

    line = inspect.getsourcelines(model)[1]
    message = error_of(lambda: tenon.compile(model, (torch.ones(3),), fallback=False))
    assert f"test_compile.py:{line + 1}: tenon_test.twice_and_half.default: not in the registry" in message
    assert f"test_compile.py:{line + 2}: tenon_test.ones_of.default: not in the registry" in message
    assert message.startswith("2 calls of the model cannot be compiled, and fallback=False leaves nothing to PyTorch:")


def test_a_number_of_threads():
    assert "threads must be in [0, 512], got -1" in error_of(
        lambda: tenon.compile(Mlp(), (torch.ones(2, 4),), threads=-1)
    )


def test_tensors_of_other_devices_are_named():
    program = tenon.compile(
        lambda x, y: x + y.shape[0] + (y * 2).shape[0], (torch.ones(3), torch.ones(3, device="meta"))
    )
    reasons = [reason for _, reason, _ in program.unsupported]
    assert all("a tensor of float32 on device meta" in reason for reason in reasons)


def test_decompositions_warn_of_nothing(recwarn):
    def model(x):
        y = x + 1
        torch.ops.tenon_test.add_one(y)  # it writes: PyTorch makes a program without writes of this one
        return y * 2

    check(model, torch.rand(3))
    assert not [str(warning.message) for warning in recwarn if "LeafSpec" in str(warning.message)]


def test_complex_tensors_stay_with_the_fallback():
    def model(x):
        spectrum = torch.fft.fft(x * 2)
        return torch.fft.ifft(spectrum * 1j).real + x, spectrum

    check(model, torch.randn(8))


def test_nothing_but_a_complex_result():
    check(torch.view_as_complex, torch.randn(3, 2))


def test_complex_arguments_and_weights():
    class Rotate(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("factor", torch.polar(torch.ones(4), torch.arange(4.0)))

        def forward(self, x, z):
            return torch.view_as_real(torch.view_as_complex(x * 2) * self.factor * z) + 1

    check(Rotate(), torch.randn(3, 4, 2), torch.randn(4, dtype=torch.complex64))


def test_what_the_fallback_keeps_outlives_the_memory_of_its_operand():
    def model(x):
        kept = torch.view_as_complex(torch.exp(x))  # shares memory with the operand, which the program reuses
        first, second = torch.ops.tenon_test.twice_and_half(torch.sin(x), 2.0)
        third, _ = torch.ops.tenon_test.twice_and_half(torch.cos(first + second), 2.0)
        return torch.view_as_real(kept) + third

    check(model, torch.randn(64, 2))


def test_threads_do_not_share_what_the_fallback_keeps():
    program = tenon.compile(lambda x: torch.fft.ifft(torch.fft.fft(x)).real, (torch.ones(64),))
    wrong = []

    def run(seed):
        x = torch.full((64,), float(seed))
        for _ in range(50):
            if not torch.allclose(program(x), x, atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_conditions_run_in_pytorch():
    def model(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))

    program = tenon.compile(model, (torch.ones(3),))
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(program(x), model(x))


def test_sizes_that_depend_on_data():
    def model(x):
        return torch.nonzero(x) * 2

    program = tenon.compile(model, (torch.tensor([1.0, 0, 2]),))
    for x in (torch.tensor([0.0, 0, 5]), torch.zeros(3), torch.ones(3)):
        torch.testing.assert_close(program(x), model(x))


def test_assertions_of_the_model_hold():
    def model(x):
        n = x.sum().item()
        torch._check(n >= 2)
        return x * n

    program = tenon.compile(model, (torch.tensor([1, 2]),))
    torch.testing.assert_close(program(torch.tensor([2, 3])), torch.tensor([10, 15]))
    assert error_of(lambda: program(torch.tensor([0, 1])))


def test_ranges_of_numbers_are_checked():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, dtype=torch.int64)
    n = graph.call_function(torch.ops.aten.item.default, (graph.call_function(torch.ops.aten.sum.default, (x,)),))
    graph.call_function(torch.ops.aten.sym_constrain_range.default, (n,), {"min": 2, "max": 4})
    y = graph.call_function(torch.ops.aten.mul.Tensor, (x, 2))
    y.meta["val"] = x.meta["val"]
    graph.output((y,))
    captured = import_graph_module(torch.fx.GraphModule({}, graph))
    assert [assertion.message for assertion in captured.assertions] == [
        "a number of the model must be >= 2",
        "a number of the model must be <= 4",
    ]
    for total, holds in ((1, [False, True]), (2, [True, True]), (4, [True, True]), (5, [True, False])):
        results = captured.graph.evaluate(torch.tensor([total, 0]))
        assert [bool(results[assertion.index]) for assertion in captured.assertions] == holds


def test_scattered_values_keep_their_order():
    """A last dimension of size 1 must not turn the loops around."""

    def model(x, places):
        return torch.ops.aten.max_unpool3d(x, places, [3, 6, 5], [3, 3, 3], [0, 0, 0])

    args = (torch.randn(1, 2, 1, 2, 1), torch.tensor([41, 85, 61, 81]).reshape(1, 2, 1, 2, 1))
    torch.testing.assert_close(tenon.compile(model, args)(*args), model(*args))


def test_asynchronous_assertions_are_checked():
    def model(x):
        torch.ops.aten._assert_async.msg(x.sum() > 0, "the sum is positive")
        return x + 1

    program = tenon.compile(model, (torch.ones(3),))
    torch.testing.assert_close(program(torch.ones(3)), torch.full((3,), 2.0))
    assert "the sum is positive" in error_of(lambda: program(-torch.ones(3)))


TOLD = []


@torch.library.custom_op("tenon_test::tell", mutates_args=())
def tell(x: torch.Tensor) -> None:
    TOLD.append(x.tolist())


@tell.register_fake
def _(x):
    return None


def test_calls_without_results_are_made():
    def model(x):
        torch.ops.tenon_test.tell(x * 2)
        return x + 1

    program = tenon.compile(model, (torch.ones(2),))
    assert [target for target, _, _ in program.unsupported] == ["tenon_test.tell.default"]
    TOLD.clear()
    for value in (1.0, 3.0):
        torch.testing.assert_close(program(torch.full((2,), value)), torch.full((2,), value + 1))
    assert TOLD == [[2.0, 2.0], [6.0, 6.0]]


def test_effects_are_kept_in_order_by_tokens():
    """Decomposed, a factorization is followed by a check, which a token ties to other effects."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.cholesky(x)

    exported = torch.export.export(Model(), (torch.eye(2),)).run_decompositions()
    assert any("with_effects" in str(node.target) for node in exported.graph.nodes)
    program = tenon.compile(exported)
    torch.testing.assert_close(program(4 * torch.eye(2)), 2 * torch.eye(2))
    assert "linalg.cholesky" in error_of(lambda: program(-torch.eye(2)))


def test_a_fallback_that_gives_too_little():
    call = fallback.FallbackCall(lambda: (), [], {}, [fallback.Result()])
    with pytest.raises(RuntimeError, match="gave 0 results"):
        call.run([], {})


# ---- random numbers -------------------------------------------------------------------------------------------------


def test_seeds_make_runs_repeatable():
    model = nn.Dropout(0.5).train()
    program = tenon.compile(model, (torch.ones(1000),))
    torch.manual_seed(1)
    first, second = program(torch.ones(1000)), program(torch.ones(1000))
    torch.manual_seed(1)
    again = program(torch.ones(1000))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert 400 < int((first == 0).sum()) < 600


def test_sizes_made_of_a_number_that_the_model_computes():
    """The size of the slice is not one that any tensor tells before PyTorch has made it."""

    def model(x, lengths):
        longest = lengths.max().item()
        torch._check(longest >= 0)
        torch._check(longest < 16)
        return x[: longest // 2 + 1] * 2

    x, lengths = torch.arange(32.0).reshape(16, 2), torch.tensor([3, 7])
    program = tenon.compile(model, (x, lengths))
    for given in (lengths, torch.tensor([0, 1]), torch.tensor([15, 2])):
        torch.testing.assert_close(program(x, given), model(x, given))
