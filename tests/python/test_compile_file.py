"""tenon.compile(path) of a .pt2 file gives the same program as the ExportedProgram that the file holds, and files of
compiled models are called as the models are, whoever wrote them."""

import collections
import json
import os
import subprocess

import numpy as np
import pytest
import tenon
import torch
import torch.utils._pytree as pytree
from torch.export import Dim, export, save

from tests.python.test_import_pt2 import MODELS

TENON = os.environ.get("TENON", "build/bin/tenon")
Pair = collections.namedtuple("Pair", "low high")
pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")  # else PyTorch does not save it


def saved(tmp_path, exported):
    path = tmp_path / "model.pt2"
    save(exported, path)
    return path


def assert_same(got, expected):
    """Numbers and structure."""
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key])
    elif isinstance(expected, (tuple, list)):
        assert isinstance(got, list) == isinstance(expected, list)
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
    else:
        assert type(got) is type(expected)
        assert got == expected


def copies(values):
    return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in values)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("cond",)])
def test_a_file_is_compiled_as_its_program_is(tmp_path, name):
    model, args, shapes = MODELS[name]
    exported = export(model, copies(args), dynamic_shapes=shapes)
    of_file = tenon.compile(saved(tmp_path, exported))  # first: the program shares its buffers with the model
    of_program = tenon.compile(exported)
    if shapes is None:  # else sizes have the names of the Dims, which a file does not know
        assert of_file.signature == of_program.signature
    if of_file.unsupported == []:  # else PyTorch decomposed what it could
        assert shapes is not None or of_file.graph == of_program.graph
        assert of_program.unsupported == []
    assert_same(of_file(*copies(args)), of_program(*copies(args)))
    assert "call_function" in str(of_file)


def test_a_branch_is_not_left_to_pytorch(tmp_path):
    model, args, shapes = MODELS["cond"]
    path = saved(tmp_path, export(model, args, dynamic_shapes=shapes))
    with pytest.raises(tenon.Error, match=r"higher_order.cond cannot be left to PyTorch"):
        tenon.compile(path)
    with pytest.raises(tenon.Error, match=r"fallback=False leaves nothing to PyTorch:\n.*higher_order\.cond"):
        tenon.compile(path, fallback=False)


class Strided(torch.nn.Module):
    """Reads the memory of tensors that PyTorch has in other orders."""

    def forward(self, x):
        in_order, transposed = x + 1, x.t() + 1  # PyTorch keeps the strides of an operand
        part = (x * 2)[1:]
        return (
            in_order.as_strided((2, 3), (6, 2)),
            in_order.view(2, 12).as_strided((2, 3), (6, 2)),
            transposed.as_strided((3, 2), (1, 6)),
            transposed.as_strided((2, 2), (1, 4), 3),
            part.as_strided((2, 2), (6, 1), 7),
            torch.as_strided_scatter(transposed, torch.zeros(3, 2), (3, 2), (1, 6)),
            (x + 1).t()[1:3].as_strided((3, 2), (x.size(1), 1), 0),
        )


@pytest.mark.parametrize("functional", [False, True])
def test_as_strided_reads_memory_as_pytorch_has_it(tmp_path, functional):
    x = torch.arange(24.0).reshape(4, 6)
    program = export(Strided(), (x,))
    program = program.run_decompositions({}) if functional else program
    for model in (program, saved(tmp_path, program)):
        compiled = tenon.compile(model, fallback=False)
        torch.testing.assert_close(compiled(x), Strided()(x))


class StridedWrite(torch.nn.Module):
    def forward(self, x):
        y = x.t() + 1
        y.as_strided((x.size(1), 2), (1, x.size(1))).mul_(3)
        return y


@pytest.mark.parametrize("shapes", [None, {"x": {0: torch.export.Dim("rows"), 1: torch.export.Dim("columns")}}])
def test_a_write_by_as_strided_reaches_memory_as_pytorch_has_it(tmp_path, shapes):
    x = torch.arange(24.0).reshape(4, 6)
    program = export(StridedWrite(), (x,), dynamic_shapes=shapes)
    for model in (program, saved(tmp_path, program)):
        compiled = tenon.compile(model, fallback=False)
        for given in (x,) if shapes is None else (x, torch.randn(7, 3)):
            torch.testing.assert_close(compiled(given), StridedWrite()(given))


class WithGaps(torch.nn.Module):
    def forward(self, x):
        return x.new_empty_strided((3,), (2,)).zero_().as_strided((2,), (2,)) + x[0, :2]


class OfArgument(torch.nn.Module):
    def forward(self, x):
        return x.t().as_strided((2, 3), (6, 2), 0)


def test_as_strided_of_memory_with_gaps_is_refused(tmp_path):
    program = export(WithGaps(), (torch.randn(4, 6),))
    for model in (program, saved(tmp_path, program)):
        with pytest.raises(tenon.Error, match="an operand with gaps between its elements"):
            tenon.compile(model)


def test_as_strided_of_an_argument_needs_all_of_its_memory(tmp_path):
    x = torch.randn(4, 6)
    program = export(OfArgument(), (x,))
    for model in (program, saved(tmp_path, program)):
        compiled = tenon.compile(model)
        torch.testing.assert_close(compiled(x), OfArgument()(x))
        with pytest.raises(tenon.Error, match="all of its memory in order"):
            compiled(torch.randn(6, 4).t())
    part = export(OfArgument(), (torch.randn(6, 4).t(),))
    for model in (part, saved(tmp_path, part)):
        with pytest.raises(tenon.Error, match="of which the example is a part"):
            tenon.compile(model)


class Nested(torch.nn.Module):
    """Takes and gives all that nests."""

    def forward(self, x, pair, table, flag: bool, *, scale, count: int):
        total = x + pair[0] * scale - pair[1]
        ordered = collections.OrderedDict(b=total, a=table["first"] + count)
        return {
            "sum": total,
            "x": x,
            "parts": [x, (pair[1], None)],
            "ordered": ordered,
            "pair": Pair(low=total.amin(), high=total.amax()),
            "numbers": (7, 0.5, True, "text", x.shape[0] * 2, flag),
            3: table["second"][0],
        }


def nested_call(rows=3):
    x = torch.randn(rows, 2)
    args = (x, (x * 2, x + 1), {"first": torch.randn(2), "second": [torch.randn(4)]}, True)
    return args, {"scale": torch.tensor(3.0), "count": 5}


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    """The program of the module, and one of its file; the file compiled by both front ends."""
    folder = tmp_path_factory.mktemp("nested")
    args, kwargs = nested_call()
    rows = Dim("rows", min=2, max=64)
    same = {0: rows}
    shapes = {"x": same, "pair": (same, same), "table": {"first": None, "second": [None]}}
    shapes |= {"flag": None, "scale": None, "count": None}
    exported = export(Nested(), args, kwargs, dynamic_shapes=shapes)
    save(exported, folder / "model.pt2")
    of_program = tenon.compile(exported)
    of_program.save(folder / "python.tenon")
    command = [TENON, "compile", folder / "model.pt2", "-o", folder / "cli.tenon"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return {
        "program": of_program,
        "pt2": tenon.compile(folder / "model.pt2"),
        "python": tenon.load(folder / "python.tenon"),
        "python, portable": tenon.load(folder / "python.tenon", native=False),
        "cli": tenon.load(folder / "cli.tenon"),
    }


DOORS = ["program", "pt2", "python", "python, portable", "cli"]


@pytest.mark.parametrize("door", DOORS)
def test_every_door_is_called_as_the_model_is(nested, door):
    for rows in (3, 5):
        args, kwargs = nested_call(rows)
        expected = Nested()(*args, **kwargs)
        results = nested[door](*args, **kwargs)
        assert_same(results, expected)
        assert results["x"] is args[0]
        assert isinstance(results["ordered"], collections.OrderedDict)
        assert results["pair"]._fields == ("low", "high")
    (x, pair, table, flag), kwargs = nested_call()
    by_name = nested[door](x, pair=pair, table=dict(reversed(table.items())), flag=flag, **kwargs)
    assert_same(by_name, Nested()(x, pair, table, flag, **kwargs))


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_calls_that_do_not_fit(nested, door):
    (x, pair, table, flag), kwargs = nested_call()
    program = nested[door]
    for args, named in [
        ((x, pair, table), kwargs),
        ((x, [*pair], table, flag), kwargs),
        ((x, pair, {"first": table["first"]}, flag), kwargs),
        ((x, pair, table, False), kwargs),
        ((x, pair, table, flag), {**kwargs, "count": 6}),
        ((x, pair, table, flag), {**kwargs, "more": x}),
        ((x[:1], pair, table, flag), kwargs),
        ((x.double(), pair, table, flag), kwargs),
    ]:
        with pytest.raises(tenon.Error):
            program(*args, **named)


def test_a_file_says_how_it_is_called(nested):
    text = '(x=%0, pair=(%1, %2), table={"first": %3, "second": [%4]}, flag=True, *, scale=%5, count=5)'
    assert nested["python"]._artifact.notes["call"].startswith(text + " -> {")
    assert nested["python"]._artifact.notes == nested["cli"]._artifact.notes
    for of_python, of_cli in (
        (nested["python"].outputs, nested["cli"].outputs),
        (nested["python"].inputs, nested["cli"].inputs),
    ):
        assert [name for name, _ in of_python] == [name for name, _ in of_cli]


def test_arguments_of_a_class_are_taken_by_their_parts(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, pair):
            return Pair(pair.high, pair.low)

    given = Pair(torch.ones(2), torch.zeros(2))
    path = saved(tmp_path, export(Model(), (given,)))
    results = tenon.compile(path)(given)
    assert results.low is given.high
    assert results.high is given.low


class Sized(torch.nn.Module):
    def forward(self, x, rows: int, times: int):
        return x[:rows] * times, rows, times


def test_integers_are_given_as_integers(tmp_path):
    """One follows from the sizes of tensors, another does not."""
    shapes = ({0: Dim.DYNAMIC}, None, Dim.DYNAMIC)
    exported = export(Sized(), (torch.randn(3, 2), 2, 5), dynamic_shapes=shapes)
    path = saved(tmp_path, exported)
    of_program = tenon.compile(exported)
    of_program.save(tmp_path / "model.tenon")
    x = torch.randn(4, 2)
    for program in (of_program, tenon.compile(path), tenon.load(tmp_path / "model.tenon")):
        assert_same(program(x, 2, 7), Sized()(x, 2, 7))
        with pytest.raises(tenon.Error):
            program(x, 3, 7)
        with pytest.raises(tenon.Error):
            program(x, 2, 7.0)


# ---- random numbers -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dropout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dropout")
    program = tenon.compile(torch.nn.Dropout(0.5), (torch.ones(64),))
    program.save(folder / "python.tenon")
    save(export(torch.nn.Dropout(0.5), (torch.ones(64),)), folder / "model.pt2")
    command = [TENON, "compile", folder / "model.pt2", "-o", folder / "cli.tenon"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize("name", ["python", "cli"])
@pytest.mark.parametrize("native", [True, False])
def test_a_loaded_program_draws_its_own_random_numbers(dropout, name, native):
    loaded, x = tenon.load(dropout / f"{name}.tenon", native=native), torch.ones(64)
    torch.manual_seed(1)
    first, second = loaded(x), loaded(x)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(loaded(x), first)


def test_a_file_draws_the_numbers_of_its_program(dropout):
    x = torch.ones(64)
    results = []
    for program in (
        tenon.compile(dropout / "model.pt2"),
        *(tenon.load(dropout / f"{n}.tenon") for n in ("cli", "python")),
    ):
        torch.manual_seed(3)
        results.append(program(x))
    assert all(torch.equal(result, results[0]) for result in results)


def run_by_command_line(path, folder, x, *options):
    np.save(folder / "x.npy", x.numpy())
    command = [TENON, "run", path, "--input", folder / "x.npy", "--json", *options]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return [torch.tensor(output["data"]) for output in json.loads(told.stdout)["outputs"]]


@pytest.mark.parametrize("name", ["python", "cli"])
def test_the_command_line_draws_from_a_seed(dropout, tmp_path, name):
    path, x = dropout / f"{name}.tenon", torch.ones(64)
    (first,), (again,), (other,) = (run_by_command_line(path, tmp_path, x, "--seed", seed) for seed in ("1", "1", "2"))
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_command_line_gives_results_that_are_arguments_or_weights(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([5.0, 6.0]))

        def forward(self, x):
            return {"sum": x + self.weight, "x": x, "none": None, "weight": self.weight, "three": 3}

    x = torch.tensor([1.0, 2.0])
    program = tenon.compile(Model(), (x,))
    program.save(tmp_path / "model.tenon")
    results = tenon.load(tmp_path / "model.tenon")(x)
    assert_same(results, {key: v.detach() if key == "weight" else v for key, v in program(x).items()})
    assert list(results) == ["sum", "x", "none", "weight", "three"]
    shown = run_by_command_line(tmp_path / "model.tenon", tmp_path, x)
    assert [result.tolist() for result in shown] == [[6.0, 8.0], [1.0, 2.0], [5.0, 6.0]]


# ---- training -------------------------------------------------------------------------------------------------------


def test_a_file_is_trained_as_its_program_is(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    model[3].bias.requires_grad_(False)
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    exported = export(model.train(), (x,))
    path = saved(tmp_path, exported)
    settings = {"loss": "cross_entropy", "optimizer": tenon.SGD(lr=0.1)}
    trainers = [tenon.LocalTrainingInstance(source, **settings) for source in (exported, path)]
    trainers.append(tenon.compile(path, train=tenon.Training(**settings)))
    losses = [[trainer.step(x, target=y).item() for _ in range(3)] for trainer in trainers]
    assert losses[0] == losses[1] == losses[2]
    assert trainers[0].trained == trainers[1].trained
    assert "3.bias" not in trainers[1].trained
    for name, value in trainers[0].state_dict().items():
        torch.testing.assert_close(trainers[1].state_dict()[name], value)
    torch.testing.assert_close(trainers[1].eval().forward(x)[0], trainers[0].eval().forward(x)[0])
