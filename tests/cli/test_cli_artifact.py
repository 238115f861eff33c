"""tenon compile -o model.tenon, and what run, verify, inspect and bench do with such a file."""

import itertools
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_binary import TENON
from cli_models import Returning
from torch.export import Dim, export, save

LEVELS = "x86-64-v3,x86-64-v4"


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(32, 64)
        self.scores = torch.nn.Linear(64, 10)

    def forward(self, image, scale):
        return torch.softmax(self.scores(torch.relu(self.hidden(image))), -1) * scale, image.sum(-1)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a model, its compiled file, an input of five rows, and what PyTorch gives for it."""
    folder = tmp_path_factory.mktemp("artifact")
    torch.manual_seed(0)
    model = Classifier()
    batch = Dim("batch", min=1, max=64)
    given = (torch.randn(5, 32), torch.tensor(3.0))
    save(export(model, given, dynamic_shapes=({0: batch}, None)), folder / "model.pt2")
    command = [TENON, "compile", "model.pt2", "-o", "model.tenon", "--cpu", LEVELS]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    np.save(folder / "image.npy", given[0].numpy())
    np.save(folder / "scale.npy", given[1].numpy())
    np.savez(folder / "all.npz", image=given[0].numpy(), scale=given[1].numpy())
    return folder, [part.detach().numpy() for part in model(*given)]


@pytest.fixture
def files(shop, tmp_path):
    """The same, in the folder that the command line runs in."""
    for file in shop[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


GIVEN = ("-i", "image.npy", "-i", "scale.npy")


def size_name(tenon):
    (symbol,) = json.loads(tenon("inspect", "model.tenon", "--json").out)["symbols"]
    assert symbol["name"] == "image.0"  # a file of PyTorch's has not the name of the Dim
    return symbol["name"]


def results(folder, name="out.npz"):
    return np.load(folder / name)


# ---- compile --------------------------------------------------------------------------------------------------------


def test_compile_says_what_it_wrote(tenon, files):
    done = tenon("compile", "model.pt2", "-o", "again.tenon", "--cpu", LEVELS, "--threads", 1, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["bytes"] == (files / "again.tenon").stat().st_size
    assert [level["cpu"] for level in told["levels"]] == LEVELS.split(",")
    assert all(level["tasks"] > 0 for level in told["levels"])
    assert done.err == ""


def test_the_same_model_gives_the_same_file(tenon, files):
    assert tenon("compile", "model.pt2", "-o", "again.tenon", "--cpu", LEVELS).code == 0
    assert (files / "again.tenon").read_bytes() == (files / "model.tenon").read_bytes()


def test_compile_shows_progress_on_a_terminal(files):
    ours, theirs = pty.openpty()
    command = [TENON, "compile", "model.pt2", "-o", "again.tenon", "--cpu", LEVELS]
    done = subprocess.run(command, cwd=files, stderr=theirs, stdout=subprocess.PIPE, timeout=300, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "[#" in shown
    assert "compiling for x86-64-v4" in shown
    assert b"compiling" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    {
        "-o model.bin": "a compiled model is called NAME.tenon",
        "-o a.tenon --cpu pentium": "there is no CPU 'pentium'",
        "-o a.tenon --cpu nvptx64": "holds code for x86-64, aarch64 and wasm32",
        "-o a.tenon --cpu x86-64-v3,x86-64-v3": "x86-64-v3 is there twice",
        "-o a.tenon --cpu x86-64-v3,": "there is no CPU ''",
        "-o missing/a.tenon": "missing/a.tenon",
        "--json": "--json tells about the file",
    }.items(),
)
def test_compile_refuses(tenon, files, arguments, error):
    done = tenon("compile", "model.pt2", *arguments.split())
    assert done.code == 1
    assert error in done.err
    assert not (files / "a.tenon").exists()


def test_a_file_is_not_compiled_again(tenon, files):
    done = tenon("compile", "model.tenon", "-o", "again.tenon")
    assert done.code == 1
    assert "compiled already" in done.err


def test_what_the_model_returns_as_it_is_and_what_it_asserts(tenon, tmp_path):
    model = Returning()
    save(export(model, (torch.ones(3, 4),)), tmp_path / "model.pt2")
    done = tenon("compile", "model.pt2", "-o", "model.tenon")
    assert done.code == 0, done.err
    assert "does not check" not in done.err
    x = torch.randn(3, 4).abs() + 0.1
    np.save(tmp_path / "x.npy", x.numpy())
    done = tenon("run", "model.tenon", "-i", "x.npy", "-o", "out.npz")
    assert done.code == 0, done.err
    given = [results(tmp_path)[name] for name in results(tmp_path)]
    assert len(given) == 3
    for ours, theirs in zip(given, model(x), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy())
    np.save(tmp_path / "x.npy", -x.numpy())
    for options in ((), ("--no-native",)):
        done = tenon("run", "model.tenon", "-i", "x.npy", "-o", "broken.npz", *options)
        assert done.code == 1
        assert "cli_models.py:14: the first element is not positive" in done.err
    assert not (tmp_path / "broken.npz").exists()


# ---- run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [GIVEN, ("-i", "scale=scale.npy", "-i", "image.npy"), ("-i", "all.npz")])
def test_run_gives_what_pytorch_gives(tenon, shop, files, given):
    done = tenon("run", "model.tenon", *given, "-o", "out.npz")
    assert (done.code, done.out, done.err) == (0, "", "")
    ours = [results(files)[name] for name in results(files)]
    for mine, theirs in zip(ours, shop[1], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["model.tenon", "model.pt2"])
@pytest.mark.parametrize(
    "options", [["--no-native"], ["--threads", "2"], ["--budget", "1MiB"], ["--profile", "t.json"]]
)
def test_every_way_to_run_gives_the_same(tenon, shop, files, model, options):
    done = tenon("run", model, *GIVEN, "-o", "out/", *options)
    assert done.code == 0, done.err
    written = sorted(path.name for path in (files / "out").iterdir())
    names = [output["name"] for output in json.loads(tenon("run", "model.pt2", *GIVEN, "--json").out)["outputs"]]
    assert written == sorted(f"{name}.npy" for name in names)
    for name, theirs in zip(names, shop[1], strict=True):
        np.testing.assert_allclose(np.load(files / "out" / f"{name}.npy"), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error"),
    {
        "": "input 'image' (f32[",
        "-i image.npy": "input 'scale' (f32[]) is not given: add --input scale=FILE.npy",
        "-i image.npy -i scale.npy -i scale.npy": "scale.npy: error: the model takes 2 inputs, and more are given",
        "-i imagee=image.npy": "has no input 'imagee'; did you mean 'image'?",
        "-i double.npy -i scale.npy": "but the file has f64[5, 32]; cast the array before you save it",
        "-i flat.npy -i scale.npy": "flat.npy: error: input 'image' is f32[",
        "-i wide.npy -i scale.npy": "input 'image' must be f32[",
        "-i empty.npy -i scale.npy": "is 0, which is outside of [1, 64]",
        "-i missing.npy -i scale.npy": "missing.npy",
        "-i image.npy -i scale.npy --budget 12parsecs": "'12parsecs' is no number of bytes",
        "-i image.npy -i scale.npy --budget -1": "'-1' is no number of bytes",
        "-i image.npy -i scale.npy -p w=w.npy": "a .tenon file has its own parameters",
        "-i image.npy -i scale.npy --profile missing/t.json": "missing/t.json",
    }.items(),
)
def test_run_refuses(tenon, files, arguments, error):
    np.save(files / "double.npy", np.zeros((5, 32)))
    np.save(files / "flat.npy", np.zeros(5, np.float32))
    np.save(files / "wide.npy", np.zeros((5, 33), np.float32))
    np.save(files / "empty.npy", np.zeros((0, 32), np.float32))
    done = tenon("run", "model.tenon", *arguments.split())
    assert done.code == 1
    assert error in done.err


@pytest.mark.parametrize("model", ["model.tenon", "model.pt2"])
def test_a_budget_that_is_too_small_names_what_is_needed(tenon, files, model):
    done = tenon("run", model, *GIVEN, "--budget", "100")
    assert done.code == 1
    assert "and its budget is 100. Its largest tensors are:" in done.err
    assert re.search(r"\n  \d+ bytes: f32\[image\.0, 64\] of \w+", done.err), done.err
    need = 100
    while done.code == 1:
        need = int(re.search(r"needs at least (\d+) bytes", done.err)[1])
        done = tenon("run", model, *GIVEN, "--budget", need)
    assert tenon("run", model, *GIVEN, "--budget", need - 1).code == 1


@pytest.mark.parametrize("model", ["model.tenon", "model.pt2"])
def test_profile_is_a_trace_of_every_task(tenon, files, model):
    done = tenon("run", model, *GIVEN, "--profile", "trace.json", "--threads", 1)
    assert done.code == 0, done.err
    trace = json.loads((files / "trace.json").read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = [task["name"] for task in json.loads(tenon("inspect", "model.tenon", "--json").out)["tasks"]]
    assert [event["name"] for event in events] == names
    for before, after in itertools.pairwise(events):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.002
    assert {event["args"]["kind"] for event in events} == {"kernel"}
    assert all(event["dur"] > 0 and event["args"]["bytes"] > 0 and event["args"]["GB/s"] > 0 for event in events)
    first = next(event for event in events if event["args"]["flops"] > 2 * 5 * 32 * 64)
    assert first["args"]["flops"] < 2 * 2 * 5 * 32 * 64
    assert re.match(rf"{len(names)} tasks, .* in one run, with nothing warmed up\n", done.err)
    assert names[0] in done.err


def test_outputs_are_checked_before_the_run_and_each_is_tried(tenon, files):
    (files / "file").write_text("")
    for option, path in [("--profile", "no/t.json"), ("--states", "no/s.npz"), ("--output", "no/o.npz")]:
        kept = () if option == "--output" else ("--output", "lost.npz")
        done = tenon("run", "model.tenon", *GIVEN, *kept, option, path)
        assert (done.code, done.err) == (1, f"{path}: error: cannot write: No such file or directory\n")
    done = tenon("run", "model.tenon", *GIVEN, "--output", "file/folder")
    assert (done.code, done.err) == (1, "file/folder: error: cannot write: Not a directory\n")
    assert not (files / "lost.npz").exists()
    done = tenon("run", "model.tenon", *GIVEN, "--output", "kept.npz", "--profile", "/dev/full")
    assert done.code == 1
    assert done.err.startswith("/dev/full: error: cannot write: No space left on device\n")
    assert np.load(files / "kept.npz").files


def test_no_file_is_taken_for_a_standard_output_that_is_closed(files):
    command = f"{TENON} run model.tenon {' '.join(map(str, GIVEN))} --output closed.npz --json >&-"
    done = subprocess.run(["bash", "-c", command], cwd=files, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: cannot write to standard output: Bad file descriptor\n")
    assert np.load(files / "closed.npz").files


def test_state_starts_as_in_the_file(tenon, tmp_path):
    save(export(Counting(), (torch.zeros(2),)), tmp_path / "model.pt2")
    assert tenon("compile", "model.pt2", "-o", "model.tenon").code == 0
    np.save(tmp_path / "x.npy", np.zeros(2, np.float32))
    for _ in range(2):
        done = tenon("run", "model.tenon", "-i", "x.npy", "--json")
        assert json.loads(done.out)["outputs"][0]["data"] == [1.0, 1.0]


def test_random_numbers_come_from_the_seed(tenon, tmp_path):
    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    save(export(Noisy(), (torch.zeros(4),)), tmp_path / "model.pt2")
    assert tenon("compile", "model.pt2", "-o", "model.tenon").code == 0
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    for seed in (0, 7):
        runs = [tenon("run", model, "-i", "x.npy", "--json", "--seed", seed) for model in ("model.pt2", "model.tenon")]
        first, second = [json.loads(run.out)["outputs"][0]["data"] for run in runs]
        assert first == second


@pytest.mark.parametrize("cpu", ["sapphirerapids", "aarch64", "wasm32"])
def test_a_file_for_another_cpu_is_compiled_again(tenon, files, cpu):
    assert tenon("compile", "model.pt2", "-o", "other.tenon", "--cpu", cpu).code == 0
    level = json.loads(tenon("inspect", "other.tenon", "--json").out)["levels"][0]
    if level["runs_here"]:
        pytest.skip(f"this machine has all that a file for {cpu} needs")
    done = tenon("run", "other.tenon", *GIVEN, "-o", "other.npz")
    assert done.code == 0, done.err
    assert "the file has no code for this CPU" in done.err
    assert f"for {cpu} it lacks " in done.err
    assert "compiling its graph for this CPU" in done.err
    assert tenon("run", "model.tenon", *GIVEN, "-o", "out.npz").code == 0
    assert sorted(results(files)) == sorted(results(files, "other.npz"))
    for name in results(files):
        np.testing.assert_allclose(results(files, "other.npz")[name], results(files)[name], rtol=1e-5, atol=1e-6)
    quiet = tenon("run", "other.tenon", *GIVEN, "--no-native", "-o", "other.npz")
    assert (quiet.code, quiet.err) == (0, "")
    assert tenon("verify", "other.tenon").code == 0


# ---- verify ---------------------------------------------------------------------------------------------------------


def test_verify_lists_what_is_in_a_file(tenon, files):
    done = tenon("verify", "model.tenon", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["ok"] is True
    assert [section["kind"] for section in told["sections"]].count("native") == 2
    assert {section["kind"] for section in told["sections"]} == {"graph", "program", "native", "weights"}
    assert [program["name"] for program in told["programs"]] == LEVELS.split(",")
    assert all(
        program["kernels"] == level["kernels"] for program, level in zip(told["programs"], told["levels"], strict=True)
    )
    text = tenon("verify", "model.tenon").out
    assert text.endswith("model.tenon: ok\n")
    assert text.count(" ok\n") == len(told["sections"]) + 1


def test_damage_anywhere_is_found(tenon, files):
    whole = (files / "model.tenon").read_bytes()
    broken = files / "broken.tenon"
    for place in range(0, len(whole), len(whole) // 40):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        done = tenon("verify", "broken.tenon")
        assert done.code == 1, (place, done)
        assert "broken.tenon" in done.err
    for length in (0, 1, 63, 64, 100, len(whole) // 2, len(whole) - 1):
        broken.write_bytes(whole[:length])
        for command in (("verify",), ("run", *GIVEN), ("inspect",), ("bench",)):
            done = tenon(command[0], "broken.tenon", *command[1:])
            assert done.code == 1, (length, command, done)
            assert "broken.tenon" in done.err


def test_what_is_no_file_of_ours(tenon, files):
    (files / "folder.tenon").mkdir()
    (files / "text.tenon").write_text("not a model")
    (files / "zip.tenon").write_bytes((files / "model.pt2").read_bytes())
    for name in ("folder.tenon", "text.tenon", "zip.tenon", "missing.tenon"):
        for command in ("verify", "run", "inspect", "bench"):
            done = tenon(command, name)
            assert done.code == 1, (name, command, done)
            assert f"{name}: " in done.err


# ---- the cache ------------------------------------------------------------------------------------------------------


def test_a_cache_that_others_can_write_is_told(tenon, files, monkeypatch):
    (files / "cache").mkdir()
    (files / "cache").chmod(0o777)
    monkeypatch.setenv("TENON_CACHE", str(files / "cache"))
    done = tenon("compile", "model.pt2", "-o", "again.tenon", "--json")
    (warning,) = json.loads(done.out)["warnings"]
    assert "other users can write to" in warning["text"]
    assert warning["count"] > 1
    assert done.err.count(warning["text"]) == 1
    assert list((files / "cache").iterdir()) == []


def test_a_limit_on_the_size_of_files(files):
    (files / "cache").mkdir(mode=0o700)
    environment = {**os.environ, "TENON_CACHE": str(files / "cache")}

    def limited(limit, output):
        command = ["sh", "-c", f"ulimit -f {limit}; exec {TENON} compile model.pt2 -o {output}"]
        return subprocess.run(command, cwd=files, env=environment, capture_output=True, text=True, check=False)

    done = limited(1, "small.tenon")  # a limit that the file itself exceeds is an error, and no signal
    assert done.returncode == 1
    assert "small.tenon: error: cannot write: File too large" in done.stderr
    assert all(path.name.endswith(".tenon") for path in (files / "cache").iterdir())
    assert limited(1000, "large.tenon").returncode == 0


# ---- inspect --------------------------------------------------------------------------------------------------------


def test_inspect_tells_types_sizes_and_memory(tenon, files):
    size = size_name(tenon)
    told = json.loads(tenon("inspect", "model.tenon", "--json", "--size", f"{size}=64").out)
    assert told["inputs"] == [{"name": "image", "type": f"f32[{size}, 32]"}, {"name": "scale", "type": "f32[]"}]
    assert [output["type"] for output in told["outputs"]] == [f"f32[{size}, 10]", f"f32[{size}]"]
    assert told["symbols"] == [{"name": size, "low": 1, "high": 64}]
    assert told["plan"]["least_bytes"] >= 64 * 64 * 4
    assert told["plan"]["ratio"] <= 1.05
    assert told["file_bytes"] == (files / "model.tenon").stat().st_size
    assert told["weight_bytes"] >= 4 * (32 * 64 + 64 * 10)
    assert [level["cpu"] for level in told["levels"]] == LEVELS.split(",")
    text = tenon("inspect", "model.tenon", "--size", f"{size}=64").out
    assert f"{told['plan']['planned_bytes']} bytes planned, {told['plan']['least_bytes']} at least" in text


def test_inspect_of_both_plan_the_same(tenon, files):
    size = size_name(tenon)
    assert tenon("compile", "model.pt2", "-o", "native.tenon").code == 0
    plans = [
        json.loads(tenon("inspect", m, "--json", "--size", f"{size}=9").out)["plan"]
        for m in ("model.pt2", "native.tenon")
    ]
    assert plans[0] == plans[1]


def test_without_sizes_there_is_no_plan(tenon, files):
    assert json.loads(tenon("inspect", "model.tenon", "--json").out)["plan"] is None
    assert "say them with --size" in tenon("inspect", "model.tenon").out
    done = tenon("inspect", "model.tenon", "--size", "M=3")
    assert done.code == 1
    done = tenon("inspect", "model.tenon", "--size", f"{size_name(tenon)}=65")
    assert done.code == 1
    assert "it is in [1, 64]" in done.err


# ---- bench ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["model.tenon", "model.pt2"])
def test_bench_measures_each_thread_count(tenon, files, model):
    size = size_name(tenon)
    done = tenon("bench", model, "--size", f"{size}=4", "--threads", "1,2", "--rounds", 20, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["load_ms"] > 0
    assert [result["threads"] for result in told["results"]] == [1, 2]
    for result in told["results"]:
        assert 0 < result["p10_ns"] <= result["median_ns"] <= result["p90_ns"]
        assert result["first_ns"] > 0
        assert result["overhead_ns_per_task"] > 0
        assert result["peak_bytes"] > 0


def test_bench_takes_inputs(tenon, files):
    done = tenon("bench", "model.tenon", *GIVEN, "--rounds", 3)
    assert done.code == 0, done.err
    assert "3 rounds" in done.out


@pytest.mark.parametrize(
    ("arguments", "error"),
    {
        "": "in [1, 64]: say it with --size",
        "--size {}=0": "it is in [1, 64]",
        "--size {}=4 --threads two": "--threads two: say it as 1,2",
        "--size {}=4 --threads 1,,2": "--threads 1,,2: say it as 1,2",
        "--size {}": "say it as N=64",
    }.items(),
)
def test_bench_refuses(tenon, files, arguments, error):
    done = tenon("bench", "model.tenon", *arguments.format(size_name(tenon)).split())
    assert done.code == 1
    assert error in done.err


def test_bench_needs_a_round(tenon, files):
    assert tenon("bench", "model.tenon", "--rounds", 0).code == 2


# ---- states and entries ---------------------------------------------------------------------------------------------

TRAINING = Path(__file__).parents[1] / "golden/1.1/training.tenon"


def test_run_writes_what_a_model_keeps(tenon, tmp_path):
    save(export(Counting(), (torch.zeros(2),)), tmp_path / "model.pt2")
    np.save(tmp_path / "x.npy", np.zeros(2, np.float32))
    assert tenon("compile", "model.pt2", "-o", "model.tenon").code == 0
    assert tenon("run", "model.tenon", "-i", "x.npy", "--states", "after.npz", "-o", "out.npz").code == 0
    states = np.load(tmp_path / "after.npz")
    (name,) = states.files
    np.testing.assert_array_equal(states[name], np.ones(2))
    assert f"state    {name} " in tenon("inspect", "model.tenon").out
    for model, path, message in (("model.tenon", "after", "an .npz file"), ("model.pt2", "a.npz", "for .tenon files")):
        done = tenon("run", model, "-i", "x.npy", "--states", path)
        assert done.code == 1
        assert message in done.err


def test_an_entry_is_taken_by_its_name(tenon, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.ones((3, 4), np.float32), target=np.ones((3, 1), np.float32))
    done = tenon("run", TRAINING, "--entry", "eval", "-i", "in.npz", "--json")
    assert len(json.loads(done.out)["outputs"]) == 2
    described = json.loads(tenon("inspect", TRAINING, "--json").out)
    assert (described["entry"], described["entries"]) == ("step", ["step", "eval"])
    assert described["states"][0] == {"name": "line.weight", "type": "f32[4]"}
    assert len(json.loads(tenon("inspect", TRAINING, "--json", "--entry", "eval").out)["states"]) == 1
    assert "program for eval:x86-64-v2" in tenon("verify", TRAINING).out
    listed = tenon("verify", TRAINING.with_suffix(".states")).out
    assert "state    optimizer.momentum       f32[4]\n" in listed
    assert "note     epoch                    3\n" in listed
    done = tenon("run", TRAINING, "--entry", "x", "-i", "in.npz")
    assert done.code == 1
    assert "its entries are step, eval" in done.err


# ---- what tasks write -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["model.pt2", "model.tenon"])
def test_every_tensor_on_the_way_can_be_dumped(tenon, files, model):
    """Also those whose memory later tasks use again."""
    assert tenon("run", model, *GIVEN, "--dump", "all", "--output", "dumped.npz").code == 0
    dumped = np.load(files / "dumped.npz")
    names = [name for name in dumped.files if name.startswith("task")]
    assert len(names) >= 2
    assert names == sorted(names, key=lambda name: int(name.split(".")[0][4:]))
    results = [dumped[name] for name in dumped.files if name not in names]
    assert len(results) == 2
    assert any(np.array_equal(dumped[name], results[0]) for name in names)
    hidden = next(dumped[name] for name in names if dumped[name].shape[-1] == Classifier().hidden.out_features)
    assert (hidden >= 0).all()
    assert (hidden > 0).any()
    one = names[0].split(".")[1]
    assert tenon("run", model, *GIVEN, "--dump", one, "--output", "one.npz").code == 0
    assert np.array_equal(np.load(files / "one.npz")[names[0]], dumped[names[0]])
    done = tenon("run", model, *GIVEN, "--dump", "nobody*")
    assert done.code == 1
    assert "--dump: no task is called 'nobody*'" in done.err
