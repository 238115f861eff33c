"""torch.compile(backend="tenon"): found without an import, right in inference and training, compiled once."""

import math
import subprocess
import sys

import pytest
import tenon
import torch
from tenon import torch_backend
from tenon.capture.admissible import Admissible
from torch import nn

RNG = torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def compiled_graphs(monkeypatch):
    """How many graphs the backend was asked for so far."""
    count = [0]
    original = torch_backend.Backend.__call__

    def counting(self, *args, **kwargs):
        count[0] += 1
        return original(self, *args, **kwargs)

    monkeypatch.setattr(torch_backend.Backend, "__call__", counting)
    return count


def relu_matmul_softmax(x, w):
    return torch.softmax(torch.relu(x) @ w, dim=-1)


def check(function, *args, **options):
    compiled = torch.compile(function, backend="tenon", **options)
    torch.testing.assert_close(compiled(*args), function(*args))
    return compiled


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.down = nn.Linear(8, 3)

    def forward(self, x):
        return self.down(torch.tanh(self.norm(self.up(x))))


# ---- the door -------------------------------------------------------------------------------------------------------


def test_found_by_entry_point_without_an_import():
    script = """
import sys, torch
assert "tenon" in torch._dynamo.list_backends()
f = torch.compile(lambda x: torch.sin(x) + torch.cos(x), backend="tenon")
x = torch.arange(4.0)
torch.testing.assert_close(f(x), torch.sin(x) + torch.cos(x))
assert "tenon" in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_one_backend_object():
    from torch._dynamo.backends.registry import lookup_backend

    assert lookup_backend("tenon") is torch_backend.backend


def test_a_second_call_compiles_nothing(compiled_graphs):
    compiled = check(relu_matmul_softmax, torch.randn(4, 8), torch.randn(8, 16))
    assert compiled_graphs == [1]
    for _ in range(3):
        compiled(torch.randn(4, 8), torch.randn(8, 16))
    assert compiled_graphs == [1]


@pytest.mark.parametrize("mode", torch_backend.MODES)
def test_modes(mode):
    check(relu_matmul_softmax, torch.randn(4, 8), torch.randn(8, 16), mode=mode)


def test_options():
    check(relu_matmul_softmax, torch.randn(4, 8), torch.randn(8, 16), options={"threads": 1, "fallback": False})


def test_an_unknown_option():
    compiled = torch.compile(relu_matmul_softmax, backend="tenon", options={"treads": 1})
    with pytest.raises(Exception, match="no option 'treads': the options are threads, fallback"):
        compiled(torch.randn(4, 8), torch.randn(8, 16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": "two"}, "option 'threads' must be an int, got 'two'"),
        ({"threads": -1}, "option 'threads' must be in"),
        ({"fallback": "no"}, "option 'fallback' must be True or False, got 'no'"),
    ],
)
def test_an_option_that_does_not_fit(options, message):
    compiled = torch.compile(torch.sin, backend="tenon", options=options)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message):
        compiled(torch.ones(2))


def test_a_mistake_is_placed_in_the_code_of_the_user():
    compiled = torch.compile(torch.sin, backend="tenon", options={"thread": 2})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(torch.ones(2))
    assert caught.value.inner_exception.file.endswith("test_torch_compile.py")


def test_an_unknown_mode():
    with pytest.raises(tenon.Error, match="no mode 'fast'"):
        torch_backend.backend(None, [], mode="fast")


# ---- inference ------------------------------------------------------------------------------------------------------


def test_a_module():
    with torch.no_grad():
        check(Mlp(), torch.randn(2, 4))


def test_graph_breaks(compiled_graphs):
    def model(x):
        y = torch.sin(x) * 2
        torch._dynamo.graph_break()
        return torch.cos(y) + x

    check(model, torch.randn(5))
    assert compiled_graphs == [2]


def test_sizes_are_called_by_input_and_dimension(monkeypatch):
    graphs = []
    compile_program = torch_backend.compile_program

    def noted(graph, **options):
        graphs.append(graph)
        return compile_program(graph, **options)

    monkeypatch.setattr(torch_backend, "compile_program", noted)
    compiled = torch.compile(lambda x, n: x.relu() * n, backend="tenon", dynamic=True)
    torch.testing.assert_close(compiled(torch.ones(4, 6), 3), torch.full((4, 6), 3.0))
    tensor = graphs[0].inputs[0].name
    assert {f"{tensor}.0", f"{tensor}.1"} <= graphs[0].symbols.keys()
    assert all(name.partition(".")[0] in [leaf.name for leaf in graphs[0].inputs] for name in graphs[0].symbols)


def test_dynamic_sizes(compiled_graphs):
    compiled = torch.compile(relu_matmul_softmax, backend="tenon", dynamic=True)
    for rows in (2, 3, 17):
        x, w = torch.randn(rows, 8), torch.randn(8, 16)
        torch.testing.assert_close(compiled(x, w), relu_matmul_softmax(x, w))
    assert compiled_graphs == [1]


@pytest.mark.parametrize(
    "size",
    {
        "ceil": lambda n: math.ceil(n / 4.0),
        "floor": lambda n: math.floor((n - 0.5) * 1.5 / 7.0),
        "trunc": lambda n: int((n + 3.0) / (n - 2.0)),
        "arange": lambda n: torch.arange(0.5, n, 1.5).shape[0],
    }.items(),
    ids=lambda item: item[0],
)
def test_sizes_that_are_rounded_floats(size):
    def model(x):
        return x.new_ones(size[1](x.shape[0])) + x.sum()

    torch_backend.reports.clear()
    compiled = torch.compile(model, backend="tenon", dynamic=True)
    for n in (5, 16, 25):
        torch.testing.assert_close(compiled(torch.ones(n)), model(torch.ones(n)))
    assert {report.failure for report in torch_backend.reports} == {""}  # no whole graph runs in PyTorch


def test_sizes_of_which_tensors_tell_only_the_product():
    """The backward graph has tensors of h*w rows, and h and w as numbers."""

    def model(weight, h, w):
        x = (torch.ones(h * w, 3) * weight).tanh()
        return x * h + x.sin() * w

    compiled = torch.compile(model, backend="tenon", dynamic=True, options={"fallback": False})
    for h, w in ((3, 4), (5, 7)):
        weight = torch.randn(3, requires_grad=True)
        found, expected = compiled(weight, h, w), model(weight, h, w)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*(torch.autograd.grad(result.sum(), weight)[0] for result in (found, expected)))


# Functions of tensors of several sizes. Guards say what makes their sizes fit: that a size is even, say.
BY_GUARDS = {
    "view": (lambda x: x.view(2, -1) * 2, [[(6,)], [(8,)], [(250,)]]),
    "two views": (lambda x: x.view(-1, 3, 2).sum(1).view(2, -1), [[(12,)], [(24,)], [(36,)]]),
    "view of a product": (lambda x: x.reshape(-1, 6).sum(0), [[(4, 9)], [(10, 3)], [(6, 8)]]),
    "heads": (lambda x: x.view(x.shape[0], -1, 4).transpose(0, 1) + 1, [[(3, 8)], [(5, 20)]]),
    "patches": (
        lambda x, w, p: torch.nn.functional.conv2d(x, w, stride=14).flatten(2) + p,
        [[(2, 3, 28, 28), (4, 3, 14, 14), (1, 4, 4)], [(3, 3, 28, 28), (4, 3, 14, 14), (1, 4, 4)]],
    ),
    "product": (lambda x, w: x.view(x.shape[0], -1) @ w, [[(3, 2, 8), (16, 5)], [(4, 2, 8), (16, 5)]]),
    "halves": (
        lambda x, y: torch.cat([part * y for part in x.split(x.shape[0] // 2)]),
        [[(6, 5), (3, 5)], [(8, 5), (4, 5)]],
    ),
    "windows": (
        lambda x: x.view(x.shape[0], x.shape[1] // 4, 4, x.shape[2] // 4, 4).transpose(2, 3).reshape(-1, 16).sum(0),
        [[(2, 8, 12)], [(3, 16, 8)]],
    ),
    "three sizes": (
        lambda x, y, z: x.view(y.shape[0], z.shape[0]) + y[:, None] * z,
        [[(12,), (3,), (4,)], [(35,), (5,), (7,)]],
    ),
    "sizes in numbers": (lambda x, y: x.view(y.shape[0], 2) + y, [[(6,), (3, 2)], [(14,), (7, 2)]]),
}


@pytest.mark.parametrize("name", BY_GUARDS)
def test_sizes_that_fit_by_guards(name):
    """Nothing is left to PyTorch, in the forward and in the backward graph."""
    function, cases = BY_GUARDS[name]
    compiled = torch.compile(function, backend="tenon", dynamic=True, options={"fallback": False})
    for shapes in cases:
        arguments = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
        found, expected = (each(*arguments) for each in (compiled, function))
        torch.testing.assert_close(found, expected)
        cotangent = torch.randn_like(expected)
        gradients = [torch.autograd.grad(result, arguments, cotangent) for result in (found, expected)]
        torch.testing.assert_close(*gradients)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*arguments), expected.detach())


def test_sizes_that_fit_by_guards_need_no_other_graph(compiled_graphs):
    compiled = torch.compile(lambda x: x.view(2, -1).sum(1), backend="tenon", dynamic=True)
    for size in (6, 8, 100, 2048):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), x.view(2, -1).sum(1))
    assert compiled_graphs == [1]
    with pytest.raises(RuntimeError, match="shape"):
        compiled(torch.randn(7))


def test_numbers_beside_sizes_that_fit_by_guards():
    """PyTorch knows no bounds of a number."""
    compiled = torch.compile(lambda x, n: x.view(2, -1) * n, backend="tenon", dynamic=True, options={"fallback": False})
    for size, number in ((6, 3), (8, 5), (10, 4)):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x, number), x.view(2, -1) * number)


def test_negative_numbers_run_in_pytorch():
    """Ints travel as the sizes of tensors."""
    compiled = torch.compile(lambda x, n: x.relu() * n, backend="tenon", dynamic=True)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x, 3), x.relu() * 3)
    with pytest.warns(UserWarning, match="an int is negative"):
        torch.testing.assert_close(compiled(x, -2), x.relu() * -2)
    torch.testing.assert_close(compiled(x, 5), x.relu() * 5)


@pytest.mark.parametrize(
    "model",
    [
        lambda x, n: x.relu().sum(n),
        lambda x, n: x.relu().view(2 * x.shape[0], n),
        lambda x, n: x[:, n:].relu(),
        lambda x, n: x.relu().expand(2, n, n),
    ],
)
def test_a_negative_dimension_is_a_constant(model):
    compiled = torch.compile(model, backend="tenon", dynamic=True, options={"fallback": False})
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x, -1), model(x, -1))


def test_a_negative_number_without_fallback_is_an_error():
    compiled = torch.compile(lambda x, n: x.relu() * n, backend="tenon", dynamic=True, options={"fallback": False})
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x, 3), x.relu() * 3)
    with pytest.raises(tenon.Error, match="an int is negative"):
        compiled(x, -2)


def test_sizes_for_which_a_graph_is_wrong_run_in_pytorch(monkeypatch):
    """Where the search for sizes that pass the guards finds too few, more are called equal than are."""
    monkeypatch.setattr(Admissible, "_own_values", lambda self, symbol: [self._hints[symbol]])
    torch_backend.reports.clear()
    compiled = torch.compile(lambda x: x.view(2, -1) * 2, backend="tenon", dynamic=True)
    torch.testing.assert_close(compiled(torch.arange(6.0)), torch.arange(6.0).view(2, -1) * 2)
    assert [report.failure for report in torch_backend.reports] == [""]
    with pytest.warns(UserWarning, match="its sizes differ from those that it was compiled for"):
        torch.testing.assert_close(compiled(torch.arange(8.0)), torch.arange(8.0).view(2, -1) * 2)
    torch.testing.assert_close(compiled(torch.arange(6.0)), torch.arange(6.0).view(2, -1) * 2)


def test_sizes_as_values(compiled_graphs):
    def model(x, n):
        return x.reshape(-1) * n + x.shape[0], x.shape[0] * n

    compiled = torch.compile(model, backend="tenon", dynamic=True)
    for rows, n in ((3, 5), (4, 7), (9, 11)):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x, n), model(x, n))
    assert compiled_graphs == [1]


def test_arguments_are_written():
    def model(x):
        x.mul_(2)
        return x + 1

    x = torch.ones(3)
    result = torch.compile(model, backend="tenon")(x)
    torch.testing.assert_close(x, torch.full((3,), 2.0))
    torch.testing.assert_close(result, torch.full((3,), 3.0))


def test_views_of_arguments_stay_views():
    x = torch.randn(3, 4)
    result = torch.compile(lambda x: x.t(), backend="tenon")(x)
    assert result.data_ptr() == x.data_ptr()
    torch.testing.assert_close(result, x.t())


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "views",
    [
        lambda y: (y.view(-1), y),
        lambda y: (y[0], y.t()),
        lambda y: (y[0], y[:2, 1:]),
        lambda y: (y.chunk(2, dim=1)[0], y.t().unsqueeze(0)),
        lambda y: (y, y.detach()),
    ],
)
def test_results_that_are_views_of_one_tensor_share_memory(views, dynamic):
    def function(x):
        written, read = views(torch.sin(x) @ x.t())
        torch._dynamo.graph_break()
        written.add_(1)
        return written, read

    check(function, torch.randn(4, 4), dynamic=dynamic)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 1:],
        lambda x: x.chunk(2, dim=1)[1],
        lambda x: x.expand(2, *x.shape),
        lambda x: x.add_(1)[1:, ::2],
        lambda x: (x.t()[1:], x * 2),
    ],
)
@pytest.mark.parametrize("grad", [False, True])
def test_views_of_arguments_of_dynamic_sizes(function, grad):
    compiled = torch.compile(function, backend="tenon", dynamic=True)
    with torch.set_grad_enabled(grad):
        for shape in ((3, 4), (5, 7)):
            x = torch.randn(shape, generator=RNG)
            # Slices, so that the memory of an argument begins elsewhere.
            mine, theirs = torch.cat([x, x])[shape[0] :], x.clone()
            torch.testing.assert_close(compiled(mine), function(theirs))
            torch.testing.assert_close(mine, theirs)


def test_results_without_gradients_share_memory_while_training():
    def function(x, w):
        y = torch.sin(x)
        return y.view(-1), y, y @ w

    w = torch.randn(4, 3, requires_grad=True)
    written, read, _ = torch.compile(function, backend="tenon")(torch.zeros(4, 4), w)
    written.add_(1)
    torch.testing.assert_close(read, torch.ones(4, 4))


def test_what_needs_a_size_that_the_fallback_finds_out():
    def function(x):
        values = x.unique()
        return values, torch.arange(len(values)) * 2, torch.ones(len(values)).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = check(function, torch.tensor([1.0, 0.0, 2.0]))
        x = torch.tensor([1.0, 1.0, 2.0])
        torch.testing.assert_close(compiled(x), function(x))


def test_strides_are_those_of_pytorch():
    def model(x):
        return (x * 2).permute(1, 0), torch.relu(x)

    for x in (torch.randn(3, 4), torch.randn(4, 3).t()):
        results = torch.compile(model, backend="tenon")(x)
        assert [r.stride() for r in results] == [r.stride() for r in model(x)]


def test_strides_of_dynamic_sizes():
    compiled = torch.compile(lambda x: torch.relu(x).permute(2, 0, 1), backend="tenon", dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4, 6)
        result = compiled(x)
        torch.testing.assert_close(result, torch.relu(x).permute(2, 0, 1))
        assert result.stride() == torch.relu(x).permute(2, 0, 1).stride()


def test_random_numbers():
    dropout = torch.compile(nn.Dropout(0.5).train(), backend="tenon")
    torch.manual_seed(1)
    first, second = dropout(torch.ones(1000)), dropout(torch.ones(1000))
    torch.manual_seed(1)
    assert torch.equal(first, dropout(torch.ones(1000)))
    assert not torch.equal(first, second)
    assert 400 < int((first == 0).sum()) < 600


def test_fallback_runs_in_pytorch():
    def model(x):
        return torch.fft.ifft(torch.fft.fft(torch.relu(x))).real + 1

    check(model, torch.randn(8))
    refused = torch.compile(model, backend="tenon", options={"fallback": False})
    with pytest.raises(Exception, match=r"aten._fft_\w+.default: it gives a tensor of complex64"):
        refused(torch.randn(9))


# ---- training -------------------------------------------------------------------------------------------------------


def gradients(model, x):
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters()]


def test_gradients():
    model, x = Mlp(), torch.randn(6, 4)
    expected = gradients(model, x)
    model.forward = torch.compile(model.forward, backend="tenon")
    torch.testing.assert_close(gradients(model, x), expected)


def test_gradients_of_dynamic_sizes():
    model = Mlp()
    compiled = torch.compile(model, backend="tenon", dynamic=True)
    for rows in (3, 8, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(gradients(compiled, x), gradients(model, x))


def test_a_training_loop():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    reference = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    reference.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend="tenon")
    x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
    for step in (compiled, reference):
        optimizer = torch.optim.SGD(step.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.cross_entropy(step(x), y).backward()
            optimizer.step()
    torch.testing.assert_close(model.state_dict(), reference.state_dict(), rtol=1e-4, atol=1e-5)


def rows_of_two(y):
    return y.as_strided((y.size(0) // 2, y.size(1)), (y.stride(0) * 2, y.stride(1))) * 2


def windows(y):
    return y.as_strided((y.size(0) - 1, 2, y.size(1)), (y.size(1), y.size(1), 1)) * 2


# PyTorch keeps the strides of an operand: x.t() + 1 is transposed in memory, too.
STRIDED = {
    "in order": lambda x: rows_of_two(x + 1),
    "transposed": lambda x: rows_of_two(x.t() + 1),
    "transposed view": lambda x: (x + 1).t().as_strided((x.size(1), x.size(0) // 2), (1, 2 * x.size(1))),
    "three dimensions": lambda x: windows(torch.stack([x, x + 1]).permute(1, 0, 2).flatten(0, 1)),
    "permuted": lambda x: (torch.stack([x, x + 1]).permute(2, 0, 1) + 1).as_strided((x.size(0), 2), (2, 1)),
    "perhaps empty": lambda x: rows_of_two(x.mean(1, keepdim=True).expand(-1, x.size(1) // 4) + 1),
    "part": lambda x: windows((x + 1)[1:]),
    "part of transposed": lambda x: (x.t() + 1)[:, 1:].as_strided((3, 2), (1, x.size(1)), x.size(1)) * 2,
    "beside a part": lambda x: (x + 1).t()[1:3].as_strided((3, 2), (x.size(1), 1)) * 2,
    "beside a piece of a split": lambda x: (x + 1).split(2, 1)[1].as_strided((3, 2), (x.size(1), 1), 0),
    "reshaped": lambda x: (x.t() + 1).reshape(-1).as_strided((x.size(0),), (2,)),
    "copy": lambda x: torch.as_strided_copy(x.t() + 1, (x.size(0), 2), (x.size(1), 1)),
    "scatter": lambda x: torch.as_strided_scatter(x.t() + 1, torch.zeros(3, 2), (3, 2), (1, x.size(1))),
    "no element": lambda x: (x[:, ::2] + 1).as_strided((0, 2), (9, 9)).sum() + x,
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", STRIDED)
def test_as_strided_reads_memory_as_pytorch_has_it(name, dynamic):
    model = STRIDED[name]
    compiled = torch.compile(model, backend="tenon", dynamic=dynamic, fullgraph=True, options={"fallback": False})
    for x in (torch.randn(4, 6), torch.randn(8, 10)):
        torch.testing.assert_close(compiled(x), model(x))


def test_as_strided_of_memory_with_gaps_runs_in_pytorch():
    def model(x):
        return x.new_empty_strided((3,), (2,)).zero_().as_strided((2,), (2,)) + x[0, :2]

    x = torch.randn(4, 6)
    torch.testing.assert_close(torch.compile(model, backend="tenon")(x), model(x))


def wrapped(function):
    class Wrapped(nn.Module):
        def forward(self, x, y):
            return function(x, y)

    return Wrapped()


def square_grid(x):
    side = int(x.shape[1] ** 0.5)
    grid = x[:, : side * side].reshape(x.shape[0], side, side, -1).permute(0, 3, 1, 2)
    return torch.nn.functional.avg_pool2d(grid, 2).flatten(2) * side + torch.zeros(side).sum()


def test_a_size_may_be_a_square_root():
    torch_backend.reports.clear()
    compiled = torch.compile(square_grid, backend="tenon", dynamic=True)
    for sizes in ((2, 16, 4), (3, 36, 4), (2, 26, 6), (5, 80, 3)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(x), square_grid(x))
    assert torch_backend.reports
    assert not any(report.failure for report in torch_backend.reports)


def test_a_write_that_pytorch_computes_reaches_the_argument():
    """That both sides have equal sizes cannot be proved: the copy is left to PyTorch."""
    dims = torch.export.Dim.DYNAMIC
    program = torch.export.export(
        wrapped(lambda x, y: (x * 2, y * 2)),
        (torch.randn(6), torch.randn(2, 3)),
        dynamic_shapes=({0: dims}, {0: dims, 1: dims}),
    )
    x_value, y_value = (node.meta["val"] for node in program.graph.find_nodes(op="placeholder"))
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    x.meta["val"], y.meta["val"] = x_value, y_value
    flat = graph.call_function(torch.ops.aten.reshape.default, (y, [-1]))
    flat.meta["val"] = y_value.reshape(-1)
    copied = graph.call_function(torch.ops.aten.copy_.default, (x, flat))
    result = graph.call_function(torch.ops.aten.neg.default, (flat,))
    copied.meta["val"], result.meta["val"] = x_value, flat.meta["val"]
    graph.output((result,))
    run = torch_backend._compile("inference", torch.fx.GraphModule({}, graph), torch_backend.Options(), 0)
    given, source = torch.randn(8), torch.randn(4, 2)
    (result,) = run([given, source])
    torch.testing.assert_close(result, -source.reshape(-1))
    torch.testing.assert_close(given, source.reshape(-1))
