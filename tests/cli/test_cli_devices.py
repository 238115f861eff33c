"""The command line with devices: accelerators/loopback."""

import itertools
import json

import numpy as np
import pytest
import torch
from cli_binary import LOOPBACK
from torch import nn
from torch.export import export, save

RELU = ("--plugin", LOOPBACK, "--device", "loopback:ops=relu")


@pytest.fixture
def mlp(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), nn.ReLU(), nn.Softmax(-1))
    save(export(model.eval(), (torch.randn(4, 16),)), tmp_path / "mlp.pt2")
    return "mlp.pt2"


def test_explain_says_who_runs_each_node(tenon, mlp):
    done = tenon("explain", mlp, *RELU)
    assert done.code == 0, done.err
    rows = [line.split()[:3] for line in done.out.split("\n\n")[0].splitlines()[1:]]
    assert rows == [
        ["0", "cpu", "linear"],
        ["1", "loopback:ops=relu", "relu"],
        ["2", "cpu", "linear"],
        ["3", "loopback:ops=relu", "relu"],
        ["4", "cpu", "softmax"],
    ]
    assert "loopback:ops=relu declined 3 nodes\n  3 the option ops lacks it: linear %" in done.out


def test_explain_as_json_has_the_reasons_of_each_node(tenon, mlp):
    nodes = json.loads(tenon("explain", mlp, *RELU, "--json").out)["nodes"]
    assert [node["device"] for node in nodes] == ["cpu", RELU[3], "cpu", RELU[3], "cpu"]
    assert nodes[0]["declined"] == [{"device": RELU[3], "reason": "the option ops lacks it"}]
    assert nodes[1]["declined"] == []
    assert json.loads(tenon("inspect", mlp, *RELU, "--json").out)["placement"] == nodes


def test_inspect_shows_segments_and_reasons(tenon, mlp):
    done = tenon("inspect", mlp, *RELU)
    assert "Segment 1: loopback:ops=relu (1 op)" in done.out, done.err
    assert "loopback:ops=relu runs 2 of 5 nodes, in 2 segments" in done.out
    assert "3 the option ops lacks it" in done.out


def test_explain_needs_a_device(tenon, mlp):
    assert "--device is required" in tenon("explain", mlp).err
    assert "the CPU runs every node" in tenon("explain", mlp, "--device", "cpu").err
    assert "there is no backend 'npu'" in tenon("explain", mlp, "--device", "npu").err


TWO_BRANCHES = """graph branches(%x: f32[64]) {
  %a = tanh(%x)
  %b = exp(%x)
  return %a, %b
}"""


def test_a_profile_has_the_times_of_the_device(tenon, tmp_path):
    np.save(tmp_path / "x.npy", np.ones(64, np.float32))
    device = ("--plugin", LOOPBACK, "--device", "loopback:ops=tanh,delay=40000,seed=1")
    done = tenon("run", "g.tg", "--input", "x.npy", "--profile", "t.json", *device, files={"g.tg": TWO_BRANCHES})
    assert done.code == 0, done.err
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert sorted(tracks.values()) == [device[3], "tasks"]
    tasks = [event for event in events if event["ph"] == "X"]
    on_device = [task for task in tasks if tracks[task["tid"]] == device[3]]
    assert [task["cat"] for task in on_device] == ["transfer", "device", "transfer"]
    for before, after in itertools.pairwise(on_device):  # one after the other
        assert before["ts"] + before["dur"] <= after["ts"] + 1
    launch, kernel = on_device[1], next(task for task in tasks if task["cat"] == "kernel")
    assert launch["dur"] > 1000
    assert kernel["ts"] + kernel["dur"] < launch["ts"] + launch["dur"]  # nobody waited for the device


def test_a_device_is_checked_against_the_reference(tenon):
    machine = ("--options", "size=8,scratchpad=32KiB", "--random", "6")
    done = tenon("device", "check", LOOPBACK.with_name("atalla.so"), *machine)
    assert done.code == 0, done.err
    assert "6 graphs agree" in done.out
    assert " 0 differ" in done.out


def test_checking_a_device_needs_a_plugin(tenon):
    done = tenon("device", "check", "none.so")
    assert done.code == 1
    assert "none.so" in done.err
