"""The bench of whole models, on small ones and without the peers that need installing."""

import copy
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

from bench.kernels.harness import Block
from bench.models import __main__ as command
from bench.models import cases, engines, picture, report, rounds, worker
from bench.models.cases import CASES
from bench.models.worker import Cost, Latency


@pytest.fixture(autouse=True)
def keep_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def blocks(*seconds, quiet=True):
    return [Block(each, quiet) for each in seconds]


def a_latency(engine, ratio, model="mlp", threads=1, **changes):
    return Latency(model, engine, threads, seconds=ratio, ratio=ratio, low=ratio, high=ratio, rounds=3, **changes)


def work(**changes):
    return {"model": "mlp", "threads": 1, "small": True, **changes}


# ---- rounds ---------------------------------------------------------------------------------------------------------


def test_each_has_its_turn_in_every_round_and_another_is_first_in_each():
    seen = []
    calls = {name: lambda name=name: seen.append(name) for name in "abc"}
    found = rounds.time_in_turns(calls, 1, rounds.Effort(rounds=3, block_s=1e-9, fewest_calls=1))
    order = [name for place, name in enumerate(seen) if place == 0 or seen[place - 1] != name]
    assert order == list("abcbcacab")
    assert {name: len(own) for name, own in found.items()} == {"a": 3, "b": 3, "c": 3}


def test_no_calls_have_no_rounds():
    assert rounds.time_in_turns({}, 1, rounds.Effort(rounds=3)) == {}


def test_a_ratio_is_the_median_of_those_of_the_rounds():
    found = rounds.compare(blocks(1, 2, 10), blocks(2, 2, 15))  # 2, 1, 1.5
    assert (found.ratio, found.low, found.high, found.rounds) == (1.5, 1, 2, 3)
    assert not found.is_disturbed


def test_rounds_that_were_not_quiet_do_not_count_where_others_do():
    mine = blocks(1, 1, 1) + blocks(50, quiet=False)
    theirs = blocks(2, 3, 4, 1)
    assert (rounds.compare(mine, theirs).ratio, rounds.compare(mine, theirs).rounds) == (3, 3)
    assert rounds.typical(mine) == 1
    found = rounds.compare(blocks(5, 1, 7, quiet=False), blocks(9, 8, 2))
    assert (found.ratio, found.is_disturbed) == (2 / 1, True)


# ---- a worker -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_model_of_the_bench_has_arguments_that_fit(name):
    module, args = CASES[name].make(True)
    with torch.no_grad():
        assert all(result.isfinite().all() for result in engines.results_of(module(*args)))


def test_latency_has_a_row_for_each_engine(tmp_path):
    question = {"work": work(), "engines": ["tenon", "eager"], "folder": str(tmp_path)}
    found = worker.answer({"what": "latency", **question, "rounds": 3, "block_s": 0.002})
    assert [(row["engine"], row["error"], row["rounds"]) for row in found] == [("tenon", "", 3), ("eager", "", 3)]
    assert found[0]["ratio"] == found[0]["low"] == found[0]["high"] == 1
    assert found[1]["low"] <= found[1]["ratio"] <= found[1]["high"]


@pytest.mark.parametrize("dtype", ["bf16", "f16", "int8"])
def test_a_model_is_measured_in_other_dtypes_and_batches(tmp_path, dtype):
    module, args = CASES["mlp"].make_as(True, dtype, 3)
    assert args[0].shape == (3 * 64, 784)
    assert {tensor.dtype for tensor in (*args, *module.parameters())} == {cases.DTYPES[dtype]}
    question = {"work": work(dtype=dtype, batch=3), "engines": ["tenon", "eager"], "folder": str(tmp_path)}
    found = worker.answer({"what": "latency", **question, "rounds": 1, "block_s": 0.002})
    assert [(row["error"], row["dtype"], row["batch"]) for row in found] == [("", dtype, 3)] * 2
    assert report.title_of(Latency(**found[0])) == f"{CASES['mlp'].title}, {dtype}, batch x3"


def test_each_way_to_run_a_model_has_its_own_verdict():
    ways = [{"dtype": "f32"}, {"dtype": "bf16"}, {"dtype": "bf16", "batch": 8}]
    rows = [
        a_latency(engine, ratio, **way)
        for way, ratios in zip(ways, (1.2, 0.9, 1.5), strict=True)
        for engine, ratio in (("tenon", 1.0), ("eager", ratios))
    ]
    assert [each["result"] for each in report.judge_latency(rows)] == ["PASS", "MISS", "PASS"]
    assert [each["to_torch"] for each in report.standings(rows)] == [1.2, 0.9, 1.5]
    assert picture.draw(rows).count("thread<") == 3


def test_cost_is_the_time_and_the_memory_of_a_first_result(tmp_path):
    asked = {"work": work(), "engine": "tenon", "folder": str(tmp_path)}
    (found,) = worker.answer({"what": "cost", **copy.deepcopy(asked)})
    assert found["error"] == ""
    assert 0 < found["compile_s"] < 60
    assert 0 < found["compile_cpu_s"] < 60
    assert found["file_bytes"] > 4 * (784 * 32 + 32 * 32 + 32 * 10)  # the weights
    (loaded,) = worker.answer({"what": "load", **asked})
    assert 0 < loaded["load_s"] < 60


def test_cpu_time_is_that_of_child_processes_too():
    before = worker.cpu_seconds()
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        during = worker.cpu_seconds()
        child.kill()
    assert during - before >= 0.25


def test_an_engine_with_other_results_is_no_rival(tmp_path, monkeypatch):
    wrong = replace(engines.ENGINES["eager"], make=lambda job: lambda: job.module(*job.args) * 1.01)
    monkeypatch.setitem(engines.ENGINES, "eager", wrong)
    asked = {"work": work(), "engines": ["tenon", "eager"], "folder": str(tmp_path)}
    found = worker.answer({"what": "latency", **asked, "rounds": 1, "block_s": 0.001})
    assert "differs from eager's by 0.01" in found[1]["error"]
    assert found[1]["ratio"] is None
    assert found[0]["seconds"] > 0


def test_a_process_that_fails_is_a_row(tmp_path):
    row = command.measured_cost(worker.Work("no such model", 1, small=True), "eager", tmp_path)
    assert "no such model" in row.error
    assert row.compile_s is None


# ---- bars -----------------------------------------------------------------------------------------------------------


def test_the_bars_count_the_better_of_eager_and_inductor():
    rows = [
        a_latency("tenon", 1.0),
        a_latency("eager", 1.44),
        a_latency("inductor", 1.5),
        a_latency("onnxruntime", 0.9),
        a_latency("tenon", 1.0, model="bert"),
        a_latency("eager", 1.2, model="bert"),
        a_latency("inductor", 1.0, model="bert"),
        Latency("bert", "openvino", 1, error="not installed"),
    ]
    mlp, bert = report.standings(rows)
    assert (mlp["to_torch"], mlp["torch"], mlp["to_best"], mlp["best"]) == (1.44, "eager", 0.9, "onnxruntime")
    assert (bert["to_torch"], bert["best"]) == (1.0, "inductor")
    (verdict,) = report.judge_latency(rows)
    assert (verdict["minimum"], verdict["slowest"], verdict["result"]) == (1.0, "bert", "PASS")
    assert math.isclose(verdict["geomean"], 1.2)


@pytest.mark.parametrize("ratio", [0.99, None])
def test_a_bar_is_missed_by_one_model(ratio):
    rows = [a_latency("tenon", 1.0), a_latency("eager", 3.0), a_latency("tenon", 1.0, model="bert")]
    rows.append(a_latency("eager", ratio, model="bert") if ratio else Latency("bert", "eager", 1, error="failed"))
    assert [verdict["result"] for verdict in report.judge_latency(rows)] == ["MISS"]


def test_cold_compile_is_judged_by_model():
    costs = [Cost(model, "inductor", compile_s=20.0, compile_cpu_s=30.0) for model in ("mlp", "bert")]
    costs += [Cost("mlp", "tenon", compile_s=2.0, compile_cpu_s=2.0)]
    costs += [Cost("bert", "tenon", compile_s=2.1, compile_cpu_s=2.0)]
    assert [each["result"] for each in report.judge_compile(costs)] == ["PASS", "MISS"]
    assert [each["cpu_ratio"] for each in report.judge_compile(costs)] == [15, 15]


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_tables_show_what_there_is_and_nothing_else():
    shown = report.cost_line(Cost("mlp", "tenon", compile_s=1.5, peak_bytes=3 * 2**20))
    assert shown.split() == ["Tenon", "1.50", "s", "-", "3.0", "MiB", "-", "-", "-"]
    assert report.latency_line(a_latency("eager", 2.0)).split() == ["eager", "1", "2.00", "s", "2.00x", "2.00..2.00"]
    assert report.latency_line(a_latency("eager", 2.0, is_disturbed=True)).split()[4] == "2.00~"
    assert report.latency_line(Latency("mlp", "eager", 1, error="failed")).split() == ["eager", "1", "failed"]


def test_the_picture_has_a_bar_for_each_row_as_long_as_the_engine_is_fast():
    rows = [a_latency("tenon", 1.0), a_latency("eager", 2.0), a_latency("openvino", 4.0)]
    drawn = ElementTree.fromstring(picture.draw(rows))
    lengths = {}
    for shape in drawn.iter("{http://www.w3.org/2000/svg}rect"):
        if shape.get("height") == str(picture.BAR - 1):
            lengths[shape.get("fill")] = float(shape.get("width"))
    eager = lengths[picture.COLORS["eager"]]
    assert lengths[picture.COLORS["tenon"]] == 2 * eager
    assert lengths[picture.COLORS["openvino"]] == pytest.approx(eager / 2, abs=0.1)
    assert picture.speed("inductor", {row.engine: row for row in rows}) is None


def test_the_command_writes_what_it_read(tmp_path, capsys):
    rows = [a_latency("tenon", 1.0), a_latency("eager", 2.0)]
    seconds = {"tenon": 1.0, "inductor": 11.0}
    costs = [Cost("mlp", name, compile_s=each, compile_cpu_s=each) for name, each in seconds.items()]
    first, second, drawn = (tmp_path / name for name in ("first.json", "second.json", "out.svg"))
    first.write_text(json.dumps(report.as_json(rows, costs, {}, 0.0)))
    command.main(["--read", str(first), "--json", str(second), "--svg", str(drawn)])
    assert json.loads(second.read_text())["latencies"] == json.loads(first.read_text())["latencies"]
    assert drawn.read_text().startswith("<svg")
    output = capsys.readouterr().out
    assert "2.00x eager" in output
    assert "1/11.0" in output


# ---- the machine ----------------------------------------------------------------------------------------------------


def test_threads_may_be_all(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    options = command.complete(command.arguments(["--threads", "all", "--threads", "1", "--threads", "3"]))
    assert options.threads == [1, 3]
    with pytest.raises(SystemExit):
        command.arguments(["--threads", "0"])


def test_the_machine_is_told(capsys):
    command.main(["--machine"])
    found = capsys.readouterr().out
    assert report.machine()["cpu"] in found
    assert f"{os.cpu_count()} CPUs" in found


def test_every_engine_has_a_color():
    assert set(picture.COLORS) == set(engines.ENGINES)


def test_results_of_quantized_models_are_judged_as_a_whole():
    torch.manual_seed(0)
    theirs = torch.randn(1000)
    far = theirs.clone()
    far[0] += 4  # one value that rounding moved
    worker.check([far], [theirs], "int8")
    with pytest.raises(worker.WrongResultError, match="differs from eager's by 1 of the norm"):
        worker.check([torch.zeros(1000)], [theirs], "int8")
    with pytest.raises(worker.WrongResultError, match="of the largest value"):
        worker.check([far], [theirs], "f32")


def test_signals_of_mobilenet_reach_its_end():
    module, args = CASES["mobilenet_v2"].make(True)
    with torch.no_grad():
        assert 0.01 < module(*args)[0].std() < 100
