"""The kernel bench, on rows that take no time."""

import json
from collections import Counter
from functools import partial
from math import prod

import pytest
import torch
from tenon import ops

from bench.kernels import __main__ as command
from bench.kernels import cases, harness, report
from bench.kernels.case import Case, random
from bench.kernels.harness import Block, Effort, Row

EFFORT = Effort(rounds=3, seconds=0.2)


def a_case(**changes) -> Case:
    fields = {
        "family": "chain3",
        "name": "8 1KB",
        "size": "1KB",
        "dtype": "f32",
        "inputs": lambda: {"x": random(4, 8), "y": random(4, 8, seed=1)},
        "graph": lambda x, y: ops.add(x, y),
        "reference": torch.add,
        "rivals": lambda i, out: {"add(out=)": partial(torch.add, i["x"], i["y"], out=out)},
    }
    return Case(**(fields | changes))


def a_row(ratio=1.0, **changes) -> Row:
    fields = {"family": "conv", "name": "a", "size": "1", "dtype": "f32", "threads": 1, "count": 1}
    return Row(**(fields | changes), ratio=ratio)


@pytest.fixture(autouse=True)
def keep_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    harness.tl.set_threads(None)


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_a_row_is_measured_for_each_number_of_threads():
    rows = harness.measure(a_case(), [1, 2], EFFORT)
    assert [(row.status, row.threads, row.rival) for row in rows] == [("ok", 1, "add(out=)"), ("ok", 2, "add(out=)")]
    for row in rows:
        assert row.bytes == 3 * 4 * 8 * 4
        assert row.rounds >= 3
        assert row.ratio_low <= row.ratio <= row.ratio_high or row.disturbed
        assert 0 < row.tenon_s < 1
        assert 0 < row.torch_s < 1
        assert row.compile_s > 0


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_contraction_is_measured(dtype):
    case = cases.linear("8x16x32", "8", 8, 16, 32, dtype, quick=False)
    (row,) = harness.measure(case, [1], EFFORT)
    assert (row.status, row.message) == ("ok", "")
    assert row.flops == 2 * 8 * 16 * 32
    assert row.rival in ("linear", "addmm(out=)")


def test_a_wrong_kernel_is_reported_and_not_timed():
    (row,) = harness.measure(a_case(graph=lambda x, y: ops.sub(x, y)), [1], EFFORT)
    assert row.status == "wrong"
    assert "differs from torch's" in row.message
    assert row.ratio is None
    assert "WRONG" in report.line(row)
    assert report.judge(report.BARS[-1], 1, [row])["result"] == "MISS"


def test_what_does_not_compile_is_a_row():
    (row,) = harness.measure(a_case(graph=lambda x, y: ops.sort(x)[0]), [1], EFFORT)
    assert row.status == "error"
    assert "sort is a library task" in row.message
    assert "ERROR" in report.line(row)


def test_a_rival_that_computes_something_else_is_no_rival():
    case = a_case(rivals=lambda i, out: {"mul(out=)": partial(torch.mul, i["x"], i["y"], out=out)})
    (row,) = harness.measure(case, [1], EFFORT)
    assert row.status == "error"
    assert "mul(out=)" in row.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.0])
def test_one_wrong_element_is_seen(value):
    expected = random(100).double()
    result = expected.float()
    assert harness.difference(result, expected) < 1
    result[37] = value
    assert harness.difference(result, expected) > 1


def test_integers_are_compared_exactly():
    assert harness.difference(torch.tensor([3], dtype=torch.int32), torch.tensor([3.0])) == 0
    assert harness.difference(torch.tensor([3], dtype=torch.int32), torch.tensor([4.0])) > 1


# ---- rounds ----------------------------------------------------------------------------------------------------------


def test_the_median_of_the_quiet_rounds_counts():
    row = a_row(None)
    quiet = [(Block(1.0, True), Block(seconds, True)) for seconds in (2.0, 3.0, 9.0)]
    harness.keep(row, [*quiet, (Block(1.0, True), Block(500.0, False))])
    assert (row.ratio, row.ratio_low, row.ratio_high) == (3.0, 2.0, 9.0)
    assert (row.tenon_s, row.torch_s, row.rounds, row.disturbed) == (1.0, 3.0, 3, False)


def test_without_quiet_rounds_the_fastest_are_compared():
    row = a_row(None)
    harness.keep(
        row, [(Block(ours, False), Block(theirs, False)) for ours, theirs in ((2.0, 50.0), (4.0, 3.0), (5, 5))]
    )
    assert (row.ratio, row.disturbed) == (1.5, True)
    assert "~" in report.line(row)


# ---- bars ------------------------------------------------------------------------------------------------------------


def conv_bar(*rows):
    (bar,) = (bar for bar in report.BARS if bar.families == ("conv",))
    return report.judge(bar, 1, list(rows))


def test_a_row_counts_as_often_as_the_model_has_it():
    assert conv_bar(a_row(8.0), a_row(1.0, count=2))["geomean"] == pytest.approx(2.0)


def test_bars_pass_and_miss():
    assert conv_bar(a_row(1.1))["result"] == "PASS"
    assert conv_bar(a_row(0.9, name="slow"), a_row(0.95))["result"] == "MISS"
    assert conv_bar(a_row(0.9, name="slow"), a_row(2.0))["minimum_row"] == "conv slow"
    assert conv_bar(a_row(1.1), a_row(None, status="error"))["result"] == "MISS"
    assert conv_bar(a_row(1.1), a_row(0.1, disturbed=True))["result"] == "UNSURE"
    assert conv_bar(a_row(1.1, threads=2)) is None


# ---- the list of rows ------------------------------------------------------------------------------------------------


def test_the_models_have_all_their_convolutions():
    counts = Counter()
    for case in cases.all_cases():
        counts[case.family] += case.count
    assert counts["conv"] == 53
    assert counts["depthwise"] == 17
    assert sum(case.flops * case.count for case in cases.convolutions()) == pytest.approx(2 * 4.09e9, rel=0.01)


def test_streams_have_the_size_they_say():
    for shapes in (cases.MATRICES, cases.BOXES):
        assert {size: prod(shape) for size, shape in shapes.items()} == cases.SIZES
    assert cases.SIZES["64MB"] * 4 == 64 << 20


def test_rows_have_names_of_their_own_and_every_bar_has_rows():
    rows = [(case.family, case.name, case.dtype) for case in cases.all_cases()]
    assert len(rows) == len(set(rows))
    for bar in report.BARS:
        for family in bar.families:
            assert any(case.family == family and case.dtype == bar.dtype for case in cases.all_cases())
            assert any(case.family == family and case.quick for case in cases.all_cases())


# ---- the command -----------------------------------------------------------------------------------------------------


def run_command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["bench", *map(str, arguments)])
    command.main()


def test_the_command_writes_tables_and_json(monkeypatch, capsys, tmp_path):
    file = tmp_path / "out.json"
    monkeypatch.setattr(command, "all_cases", lambda: [a_case(), a_case(name="wrong", graph=lambda x, y: x * y)])
    run_command(monkeypatch, "--threads", 1, "--rounds", 3, "--json", file)
    printed = capsys.readouterr().out
    assert "WRONG" in printed
    assert "streams" in printed
    written = json.loads(file.read_text())
    assert written["schema"] == 1
    assert [row["status"] for row in written["rows"]] == ["ok", "wrong"]
    assert written["rows"][0]["ratio"] > 0
    assert written["bars"][0]["name"] == "streams"
    assert written["bars"][0]["result"] == "MISS"
    assert written["settings"] == {"threads": [1], "rounds": 3, "measured": 2, "of": 2}
    assert written["versions"].keys() == {"tenon", "torch", "python"}
    assert written["machine"]["cpus"] > 0
    assert written["compile"]["median_s"] > 0


def test_the_command_says_when_rows_are_missing(monkeypatch, capsys):
    monkeypatch.setattr(command, "all_cases", lambda: [a_case(), a_case(size="2KB")])
    run_command(monkeypatch, "--threads", 1, "--rounds", 3, "--size", "2KB")
    assert "1 of 2 rows" in capsys.readouterr().out


def test_the_command_selects_rows(monkeypatch, capsys):
    run_command(monkeypatch, "--list", "--family", "matmul", "--size", 512, "--dtype", "bf16")
    assert capsys.readouterr().out == "matmul 512^3 bf16\n"
    with pytest.raises(SystemExit, match="no row fits"):
        run_command(monkeypatch, "--family", "nothing")
