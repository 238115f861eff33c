"""Tools for those who build devices: tenon device diff and trace, tenon run --dump inside of devices."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_binary import LOOPBACK, ROOT

sys.path.append(str(ROOT / "accelerators/atalla/tests"))
import rtl_bugs

ATALLA = LOOPBACK.with_name("atalla.so")
PLUGIN = ("--plugin", ATALLA)
PARAMS = ("--random-params", "1")

MLP = """graph mlp(%x: bf16[20, 40]) {
  %w: bf16[64, 40] = parameter "w"
  %b: bf16[64] = parameter "b"
  %w2: bf16[24, 64] = parameter "w2"
  %h: bf16[20, 64] = linear(%x, %w, %b) @ "mlp.py":3
  %r: bf16[20, 64] = relu(%h) @ "mlp.py":4
  %y: bf16[20, 24] = linear(%r, %w2, none) @ "mlp.py":5
  %z: bf16[20, 24] = softmax(%y) {dim=-1} @ "mlp.py":6
  return %z
}"""
FILES = {"mlp.tg": MLP}


@pytest.fixture
def rtl(tenon):
    done = tenon("device", "diff", *PLUGIN, "-a", "model", "-b", "rtl", "--random", "1")
    if "verilator was missing" in done.err:
        pytest.skip("verilator is not installed: `make rtl` installs it and builds the body rtl")
    assert done.code == 0, done.err


def diff(tenon, *args, **kwargs):
    return tenon("device", "diff", *PLUGIN, *args, **kwargs)


# ---- bodies that agree


def test_bodies_agree_command_by_command(tenon):
    done = diff(tenon, "-a", "model", "-b", "body=cycles", "mlp.tg", *PARAMS, files=FILES)
    assert done.code == 0, done.err
    assert done.out.startswith("atalla:model and atalla:body=cycles agree: ")
    assert int(done.out.split("agree: ")[1].split(" commands")[0]) > 10


def test_the_rtl_agrees(tenon, rtl):
    done = diff(tenon, "-a", "model", "-b", "rtl", "mlp.tg", *PARAMS, files=FILES)
    assert done.code == 0, done.err
    done = diff(tenon, "-a", "model", "-b", "rtl", "--random", "12", "--seed", "7")
    assert done.code == 0, done.out


def test_a_file_is_compared_as_its_graph(tenon):
    compiled = tenon("compile", "mlp.tg", *PARAMS, "-o", "mlp.tenon", files=FILES)
    assert compiled.code == 0, compiled.err
    done = diff(tenon, "-a", "model", "-b", "cycles", "mlp.tenon")
    assert done.code == 0, done.err
    assert " commands of 1 launches" in done.out


# ---- bodies that differ


def test_the_first_command_that_differs_is_named(tenon, rtl, tmp_path):
    """Bug 17: the last row of weights is never loaded."""
    args = ("-a", "model", "-b", "rtl,bug=17", "mlp.tg", *PARAMS)
    done = diff(tenon, *args, "--json", files=FILES)
    assert done.code == 1
    found = json.loads(done.out)["difference"]
    assert found["unit"] == "compute"
    assert found["text"].startswith("matmul float ")
    assert found["node"].endswith("= tile_layer")
    assert found["model"].startswith("mlp.py:")
    where = "; ".join(found["where"])
    assert "outer 0, inner 0, column" in where
    assert "reads from %x[0, 0]" in where
    assert "multiplies by the tile at " in where
    assert found["a"] != found["b"]
    shown = diff(tenon, *args, "--waves", "first", "--waves-file", "first.vcd")
    assert f"command {found['command']} of {found['commands']} differs" in shown.out
    assert f"  a        {found['a']}\n" in shown.out
    assert f"  b        {found['b']}\n" in shown.out
    assert "read_address" in (tmp_path / "first.vcd").read_text()
    assert "error: atalla:model and atalla:rtl,bug=17 differ" in shown.err


def test_waves_around_a_command(tenon, rtl, tmp_path):
    args = ("-a", "model", "-b", "rtl", "mlp.tg", *PARAMS)
    done = diff(tenon, *args, "--waves", "0:3", files=FILES)
    assert done.code == 0, done.err
    assert "waves of the command: waves.vcd" in done.out
    assert (tmp_path / "waves.vcd").read_text().count("#") > 50
    assert "launch 0 has " in diff(tenon, *args, "--waves", "100000").err
    assert "the model has 1 launches" in diff(tenon, *args, "--waves", "9:0").err
    assert "--waves is first, COMMAND or LAUNCH:COMMAND" in diff(tenon, *args, "--waves", "x").err


def test_waves_need_rtl(tenon):
    done = diff(tenon, "-a", "model", "-b", "cycles", "mlp.tg", *PARAMS, "--waves", "0", files=FILES)
    assert done.code == 1
    assert "only the body rtl writes waveforms" in done.err


@pytest.mark.parametrize("bug", [4, 8, 12, 26, 30])
def test_mistakes_of_the_rtl_are_found(tenon, rtl, bug):
    """`make rtl-bugs` looks for all of them."""
    done = diff(tenon, "-a", "model", "-b", f"rtl,bug={bug}", "--json")
    assert done.code == 1, done.err
    assert json.loads(done.out)["difference"]["unit"] in rtl_bugs.right_units(bug)


def test_check_finds_a_mistake_of_the_rtl(tenon, rtl):
    done = tenon("device", "check", ATALLA, "--options", "rtl,bug=17", "--random", "3")
    assert done.code == 1
    assert "graphs differ from the reference" in done.err


def test_machines_with_other_code_are_compared_by_results(tenon):
    args = ("-a", "model", "-b", "body=model,size=8", "mlp.tg", *PARAMS)
    done = diff(tenon, *args, "--tolerance", "0.05", files=FILES)
    assert done.code == 0, done.err
    assert "agree: results of 1 launches" in done.out


WIDE = """graph wide(%x: bf16[200, 900]) {
  %w: bf16[640, 900] = parameter "w"
  %h: bf16[200, 640] = linear(%x, %w, none) @ "mlp.py":3
  %r: bf16[200, 640] = relu(%h) @ "mlp.py":4
  return %r
}"""


def test_results_that_differ_are_narrowed_down_to_a_node(tenon):
    """Another array sums in another order: some result of 128000 differs in its last bit, and the node is named."""
    done = diff(tenon, "-a", "model", "-b", "body=model,size=8", "wide.tg", *PARAMS, files={"wide.tg": WIDE})
    assert done.code == 1, done.out
    assert "the results differ" in done.out
    assert "node     %h = linear\n" in done.out
    assert "model    mlp.py:3\n" in done.out


RELU = """graph relus(%x: f32[64]) {
  %a = tanh(%x) @ "relus.py":2
  %b = relu(%a) @ "relus.py":3
  return %b
}"""


def test_devices_without_commands(tenon):
    args = ("--plugin", LOOPBACK, "-a", "claim=1", "relus.tg")
    done = tenon("device", "diff", *args, "-b", "claim=1,seed=2", files={"relus.tg": RELU})
    assert done.code == 0, done.err
    assert "agree: results of " in done.out


SQUARES = """graph squares(%x: f32[64]) {
  %a = mul(%x, %x) @ "squares.py":2
  %b = mul(%a, %a) @ "squares.py":3
  %c = mul(%b, %b) @ "squares.py":4
  return %c
}"""


@pytest.fixture
def counting(tmp_path):
    """A device that is no tile machine, and tells what its commands do."""
    library = tmp_path / "counting.so"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
    subprocess.run(["cc", *flags, "-o", library, Path(__file__).with_name("counting_device.c")], check=True)
    return library


def test_commands_of_any_device_are_compared(tenon, counting):
    args = ("--plugin", counting, "-a", "counting", "squares.tg")
    done = tenon("device", "diff", *args, "-b", "bug=9", files={"squares.tg": SQUARES})
    assert done.code == 0, done.err
    assert "agree: 3 commands of 1 launches" in done.out
    found = json.loads(tenon("device", "diff", *args, "-b", "bug=1", "--json").out)["difference"]
    assert (found["command"], found["node"], found["model"]) == (1, "%b = mul", "squares.py:3")
    assert found["text"].startswith("square 100")
    assert found["where"][0] == "write 0 of 1"
    assert found["where"][1].endswith(" of memory, scratch")
    last = json.loads(tenon("device", "diff", *args, "-b", "bug=2", "--json").out)["difference"]
    assert last["command"] == 2
    assert last["where"][1].endswith(" of memory, buffer 1: %c")
    assert "it has no clock and no waves" in tenon("device", "diff", *args, "-b", "bug=0", "--waves", "first").err


def test_bad_devices_are_clear_errors(tenon):
    assert "'-1' is no integer from 0 to" in diff(tenon, "-a", "model", "-b", "cycles", "--random", "-1").err
    assert "-a and -b are the same device" in diff(tenon, "-a", "model", "-b", "model").err
    assert 'no body "fast"' in diff(tenon, "-a", "model", "-b", "fast").err
    assert "begins with no device, and there are 0 plug-ins" in tenon("device", "diff", "-a", "x", "-b", "y").err
    done = diff(tenon, "-a", "model", "-b", "cycles", "relus.tg", files={"relus.tg": RELU})
    assert "runs no node of the model" in done.err


# ---- traces


def trace(tenon, tmp_path, device):
    args = ("--device", device, "mlp.tg", *PARAMS, "-o", "trace.json")
    done = tenon("device", "trace", *PLUGIN, *args, files=FILES)
    assert done.code == 0, done.err
    return done.out, json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_trace_has_the_units_of_the_device(tenon, tmp_path):
    shown, events = trace(tenon, tmp_path, "cycles")
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    wanted = {"host", "transfers", "atalla:cycles", "DMA in", "compute", "DMA out", "stalls"}
    assert set(tracks.values()) == wanted
    bars = {name: [e for e in events if e["ph"] == "X" and tracks[e["tid"]] == name] for name in wanted}
    (launch,) = bars["atalla:cycles"]
    assert launch["dur"] * 1000 == pytest.approx(launch["args"]["cycles"])  # at 1 GHz
    assert f"1 launches, {launch['args']['cycles']} cycles" in shown
    for name, opcodes in {"DMA in": {"load"}, "compute": {"matmul"}, "DMA out": {"store", "epilogue"}}.items():
        assert {bar["name"] for bar in bars[name]} <= opcodes
        for bar in bars[name]:
            assert bar["args"]["begin cycle"] < bar["args"]["end cycle"] <= launch["args"]["cycles"]
            assert launch["ts"] - 1e-6 <= bar["ts"]
            assert bar["ts"] + bar["dur"] <= launch["ts"] + launch["dur"] + 2e-3
        for before, after in zip(bars[name], bars[name][1:], strict=False):
            assert before["ts"] + before["dur"] <= after["ts"] + 2e-3
    assert bars["compute"][0]["args"]["model"] == "mlp.py:3"
    assert bars["stalls"][0]["name"] == "waits for DMA in"
    assert [bar["cat"] for bar in bars["host"]] == ["kernel"]
    assert "tile_layer  mlp.py:5" in shown


def test_cycles_agree_with_the_rtl(tenon, rtl, tmp_path):
    _, cycles = trace(tenon, tmp_path, "cycles")
    _, rtl = trace(tenon, tmp_path, "rtl")
    timed = [[e["args"] for e in events if "begin cycle" in e.get("args", ())] for events in (cycles, rtl)]
    assert timed[0] == timed[1]


def test_a_trace_needs_a_device_with_time(tenon):
    done = tenon("device", "trace", *PLUGIN, "--device", "model", "mlp.tg", *PARAMS, "-o", "t.json", files=FILES)
    assert done.code == 1
    assert "the body model keeps no time: say body=cycles or body=rtl" in done.err


# ---- values on the way


def dumped(tenon, tmp_path, *args):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20, 40)).astype(np.float32))
    done = tenon("run", *args, "--output", "out.npz")
    assert done.code == 0, done.err
    return dict(np.load(tmp_path / "out.npz"))


F32 = MLP.replace("bf16", "f32")


def test_dumps_have_what_devices_compute(tenon, tmp_path):
    (tmp_path / "f32.tg").write_text(F32)
    device = ("--plugin", LOOPBACK, "--device", "loopback:ops=linear+relu")
    given = ("f32.tg", *PARAMS, "--input", "x.npy", "--dump", "all")
    on_device, on_cpu = dumped(tenon, tmp_path, *given, *device), dumped(tenon, tmp_path, *given)
    assert np.array_equal(on_device["task0.to loopback:ops=linear+relu"], np.load(tmp_path / "x.npy"))
    last = [value for name, value in on_cpu.items() if name.startswith("task")][-2]  # before softmax
    assert any(value.shape == last.shape and np.allclose(value, last, atol=1e-5) for value in on_device.values())


def test_dumps_have_layers_inside_of_segments(tenon, tmp_path):
    """A layer's result is in no buffer of the launch: the CPU says what it must be."""
    model = MLP.replace("%x: bf16", "%x32: f32").replace("  %h", "  %x = cast(%x32) {dtype=bf16}\n  %h")
    both = model.replace("return %z", "%r32 = cast(%r) {dtype=f32}\n  return %z, %r32")
    (tmp_path / "mlp.tg").write_text(model)
    (tmp_path / "both.tg").write_text(both)
    device = (*PLUGIN, "--device", "atalla")
    given = (*PARAMS, "--input", "x.npy", *device)
    listed = dumped(tenon, tmp_path, "mlp.tg", *given, "--dump", "all")
    inner = [name for name in listed if name.count(".") == 2]
    assert len(inner) == 1, list(listed)
    wanted = dumped(tenon, tmp_path, "both.tg", *given)
    bits = listed[inner[0]].view(np.uint16).reshape(20, 64)  # NumPy has no bf16
    assert np.array_equal((bits.astype(np.uint32) << 16).view(np.float32), wanted["r32"])
    done = tenon("run", "mlp.tg", *given, "--dump", "nothing*")
    assert "--dump: no task is called 'nothing*'" in done.err
