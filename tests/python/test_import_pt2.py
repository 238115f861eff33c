"""Graphs made of .pt2 files compute what the models do."""

import json
import os
import subprocess

import numpy as np
import pytest
import tenon
import torch
from tenon.capture.fx import import_exported_program
from torch.export import Dim, export, load, save

TENON = os.environ.get("TENON", "build/bin/tenon")


@torch.library.custom_op("tenon_test::halves", mutates_args=())
def halves(x: torch.Tensor) -> list[torch.Tensor]:
    return [x[:1].clone(), x[1:].clone()]


@halves.register_fake
def _(x):
    return [x[:1].clone(), x[1:].clone()]


@torch.library.custom_op("tenon_test::told", mutates_args=())
def told(x: torch.Tensor) -> None:
    pass


@told.register_fake
def _(x):
    return None


class Telling(torch.nn.Module):
    def forward(self, x):
        torch.ops.tenon_test.told(x * 2)
        return x + 1


class Pointwise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))

    def forward(self, x, weight):
        return (x + self.weight * 2 - weight).relu().sin(), weight, x.shape[0] * 2 + 1


class Transposed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4).t()[1:3])

    def forward(self, x):
        return x.permute(1, 0) + self.weight


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(3))

    def forward(self, x):
        self.steps.add_(x)
        y = self.steps * 2
        x.mul_(3)
        return y, None, 7


class Foreign(torch.nn.Module):
    def forward(self, x):
        low, high = torch.ops.tenon_test.halves(x.sin())
        return low + 1, high.cos()


def imported(tmp_path, program):
    path = tmp_path / "model.pt2"
    save(program, path)
    return tenon.import_pt2(str(path))


def assert_equal(results, expected):
    for result, reference in zip(results, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(result), reference.detach())


def test_one_graph_serves_all_sizes(tmp_path):
    model, n = Pointwise(), Dim("n", min=2, max=64)
    shapes = ({0: n}, {0: n})
    model_in_c = imported(tmp_path, export(model, (torch.randn(5, 4), torch.randn(5, 4)), dynamic_shapes=shapes))
    assert not model_in_c.unsupported
    graph = model_in_c.graph
    assert list(graph.symbols.values()) == [(2, 64)]
    for size in (2, 5, 64):
        args = torch.randn(size, 4), torch.randn(size, 4)
        result, number = graph.evaluate(*args)
        assert_equal([result], model(*args)[:1])
        assert int(number) == size * 2 + 1
    with pytest.raises(tenon.Error, match="65"):
        graph.evaluate(torch.randn(65, 4), torch.randn(65, 4))


def test_an_input_may_be_named_like_a_weight(tmp_path):
    program = imported(tmp_path, export(Pointwise(), (torch.randn(5, 4), torch.randn(5, 4))))
    assert program.inputs == [("x", 0, ("as_tensor", "x")), ("weight", 1, ("as_tensor", "weight"))]
    assert program.outputs[1] == (None, 1, None, ("as_tensor", "weight"))
    assert {leaf.name for leaf in program.graph.leaves} >= {"weight", "weight_", "x"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_keep_their_strides(tmp_path):
    model = Transposed()
    program = imported(tmp_path, export(model, (torch.randn(6, 2),)))
    x = torch.randn(6, 2)
    assert_equal(program.graph.evaluate(x), [model(x)])
    assert program.graph.leaf("weight").data.strides == (1, 4)


@pytest.mark.parametrize("functional", [False, True])
def test_what_the_model_writes_is_written(tmp_path, functional):
    model = Counting()
    exported = export(model, (torch.ones(3),))
    program = imported(tmp_path, exported.run_decompositions({}) if functional else exported)
    assert [output[0] for output in program.outputs] == [0, None, None]
    assert [output[3] for output in program.outputs[1:]] == [("as_none", None), ("as_int", 7)]
    x, reference = torch.arange(3.0), torch.arange(3.0)
    graph = program.graph
    assert len(graph.updates) == 2
    for _ in range(3):
        assert_equal(graph.evaluate(x), model(reference)[:1])
        torch.testing.assert_close(x, reference)
    torch.testing.assert_close(torch.from_dlpack(graph.leaf("steps").data), model.steps)


def test_calls_that_the_registry_lacks_are_external(tmp_path):
    program = imported(tmp_path, export(Foreign(), (torch.randn(3, 2),)))
    ((target, reason, location),) = program.unsupported
    assert target == "tenon_test.halves.default"
    assert reason == "not in the registry"
    assert location.file == __file__
    node = next(node for node in program.graph.nodes if node.op.name == "external")
    assert [str(result.type) for result in node.results] == ["f32[1, 2]", "f32[2, 2]"]


class Bounded(torch.nn.Module):
    def forward(self, x):
        torch.ops.aten._assert_async.msg(x.amax() < 100, "too large")
        n = x.sum().item()
        torch._check(n != 7, lambda: "not seven")
        torch.ops.aten.sym_constrain_range(n, min=2, max=40)
        return x * n


@pytest.mark.parametrize("decomposed", [False, True])
def test_assertions_are_results(tmp_path, decomposed):
    exported = export(Bounded(), (torch.tensor([1, 2]),))
    program = imported(tmp_path, exported.run_decompositions({}) if decomposed else exported)
    assert program.unsupported == []

    def broken(x):
        results = program.graph.evaluate(x)
        return [message for message, index, *_ in program.assertions if index is not None and not results[index]]

    assert broken(torch.tensor([1, 2])) == []
    assert "too large" in broken(torch.tensor([200, -190]))
    assert any("n != 7" in message or "Ne(u0, 7)" in message for message in broken(torch.tensor([3, 4])))
    assert broken(torch.tensor([0, 1]))
    assert broken(torch.tensor([40, 1]))


class Factored(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x)


def test_a_failed_factorization_is_a_broken_assertion(tmp_path):
    program = imported(tmp_path, export(Factored(), (torch.eye(2),)).run_decompositions())
    ((message, index, *_),) = program.assertions
    assert message.startswith("linalg.cholesky")
    assert str(program.graph.outputs[index].type) == "bool[]"


def test_calls_without_results_stay(tmp_path):
    program = imported(tmp_path, export(Telling(), (torch.ones(2),)))
    assert [str(output.type) for output in program.graph.outputs] == ["f32[2]", "u8[0]"]
    assert [node.op.name for node in program.graph.nodes].count("external") == 1


def test_what_a_trace_says_of_unread_results_does_not_matter(tmp_path):
    """PyTorch's trace has sizes for the bags of an embedding that its kernel leaves empty."""
    model = torch.nn.EmbeddingBag(10, 3, mode="sum")
    args = (torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 5]))
    program = imported(tmp_path, export(model, args))
    assert program.unsupported == []
    assert tenon.compile(model, args).unsupported == []
    assert_equal(program.graph.evaluate(*args), [model(*args)])


class Scaled(torch.nn.Module):
    def forward(self, x, k: int):
        return x * k


def test_an_integer_that_no_size_gives_comes_as_a_size(tmp_path):
    program = imported(tmp_path, export(Scaled(), (torch.randn(3), 5), dynamic_shapes=(None, Dim.DYNAMIC)))
    assert [name for name, *_ in program.inputs] == ["x", "k"]
    x, k = torch.randn(3), torch.empty(7, dtype=torch.uint8)
    assert_equal(program.graph.evaluate(x, k), [x * 7])


class Complex(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("turn", torch.randn(3, dtype=torch.complex64))

    def forward(self, x):
        return torch.view_as_real(torch.view_as_complex(x.sin()) * self.turn) * 2


class Checked(torch.nn.Module):
    def forward(self, x, y):
        torch.ops.aten._assert_async.msg(x.sum() > -1000, "the sum is too small")
        with torch.no_grad():
            z = x * 2
        return z + y, x


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x.sin(), (x,))


class Chosen(torch.nn.Module):
    def forward(self, x):
        places = x.nonzero()
        return places * 2, places.shape[0]


n = Dim("n", min=2, max=64)
MODELS = {
    "pointwise": (Pointwise(), (torch.randn(5, 4), torch.randn(5, 4)), None),
    "dynamic": (Pointwise(), (torch.randn(5, 4), torch.randn(5, 4)), ({0: n}, {0: n})),
    "derived": (Pointwise(), (torch.randn(6, 4), torch.randn(6, 4)), ({0: 2 * n}, {0: 2 * n})),
    "transposed": (Transposed(), (torch.randn(6, 2),), None),
    "counting": (Counting(), (torch.randn(3),), None),
    "foreign": (Foreign(), (torch.randn(3, 2),), None),
    "scaled": (Scaled(), (torch.randn(3), 5), (None, Dim.DYNAMIC)),
    "complex": (Complex(), (torch.randn(3, 2),), None),
    "checked": (Checked(), (torch.randn(5), torch.randn(5)), ({0: n}, {0: n})),
    "bounded": (Bounded(), (torch.tensor([1, 2]),), None),
    "telling": (Telling(), (torch.ones(2),), None),
    "cholesky": (Factored(), (torch.eye(2),), None),
    "cond": (Cond(), (torch.randn(3),), None),
    "chosen": (Chosen(), (torch.randint(0, 2, (8,)),), None),
    "layers": (
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).eval(),
        (torch.randn(3, 4),),
        ({0: n},),
    ),
    "convolution": (
        torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        (torch.randn(2, 3, 8, 8),),
        None,
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_walker_in_python_gives_the_same_graph(tmp_path, name, decomposed):
    model, args, shapes = MODELS[name]
    exported = export(model, args, dynamic_shapes=shapes)
    exported = exported.run_decompositions() if decomposed else exported
    program = imported(tmp_path, exported)
    captured = import_exported_program(load(tmp_path / "model.pt2"))  # in memory, sizes have the names of Dims
    assert program.graph == captured.graph, f"{program.graph}\n{captured.graph}"
    assert [target for target, *_ in program.unsupported] == [target for target, *_ in captured.unsupported]
    assert len(program.assertions) == len(captured.assertions)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_the_command_line_checks_assertions(tmp_path):
    class Guarded(torch.nn.Module):
        def forward(self, x):
            torch.ops.aten._assert_scalar(x.shape[0] % 2 == 0, "an even size")
            torch.ops.aten._assert_async.msg(x.sum() > 0, "the sum is positive")
            return x + 1

    save(export(Guarded(), (torch.ones(4),), dynamic_shapes=({0: Dim.AUTO},)), tmp_path / "model.pt2")

    def run(x):
        np.save(tmp_path / "x.npy", x)
        command = [TENON, "run", tmp_path / "model.pt2", "--input", tmp_path / "x.npy", "--json"]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    (output,) = json.loads(run(np.ones(6, np.float32)).stdout)["outputs"]
    assert output["data"] == [2.0] * 6
    assert "the sum is positive" in run(-np.ones(6, np.float32)).stderr
    assert "an even size" in run(np.ones(3, np.float32)).stderr
