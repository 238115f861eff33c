"""tenon compile --train, and tenon train with such a file: what it trains, keeps, resumes and refuses."""

import csv
import json
import os
import pty
import random
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from cli_binary import TENON
from torch import nn
from torch.export import Dim, export, save
from waiting import until

SAMPLES = 70
ADAMW = "adamw(lr=1e-2)"


class MLP(nn.Module):
    """Draws random numbers, and has a parameter that needs no gradient."""

    def __init__(self, dropout=0.2):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.dropout = nn.Dropout(dropout)
        self.scores = nn.Linear(16, 3)
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        return self.scores(self.dropout(torch.relu(self.hidden(x)))) * self.scale


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.scores = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(16, 3)

    def forward(self, image):
        return self.scores(torch.relu(self.norm(self.conv(image))).flatten(1))


def compile_training(folder, model, name, *arguments, optimizer=ADAMW):
    command = [TENON, "compile", model, "-o", name, "--train", "--loss", "cross_entropy", "--optimizer", optimizer]
    done = subprocess.run([*command, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Models in files and compiled, data of three classes that can be told apart."""
    folder = tmp_path_factory.mktemp("train")
    batch = ({0: Dim("batch")},)
    for name, model in {"mlp": MLP(), "plain": MLP(0.0)}.items():
        torch.manual_seed(0)
        nn.init.normal_(model.hidden.weight), nn.init.normal_(model.scores.weight, std=0.1)
        save(export(model, (torch.zeros(4, 4),), dynamic_shapes=batch), folder / f"{name}.pt2")
    torch.manual_seed(0)
    save(export(CNN(), (torch.zeros(8, 1, 4, 4),)), folder / "cnn.pt2")
    compile_training(folder, "mlp.pt2", "mlp.tenon")
    compile_training(folder, "cnn.pt2", "cnn.tenon")
    subprocess.run([TENON, "compile", "mlp.pt2", "-o", "infer.tenon"], cwd=folder, check=True, capture_output=True)
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, SAMPLES)
    x = (rng.normal(size=(SAMPLES, 4)) + np.eye(4)[target] * 3).astype(np.float32)
    np.savez(folder / "train.npz", x=x, target=target)
    np.savez(folder / "test.npz", x=x[:30], target=target[:30])
    np.savez(folder / "images.npz", image=rng.normal(size=(SAMPLES, 1, 4, 4)).astype(np.float32), target=target)
    np.save(folder / "x.npy", x)
    return folder


@pytest.fixture
def files(shop, tmp_path):
    for file in shop.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


TRAIN = ("train", "mlp.tenon", "--data", "train.npz")


def newest(folder):
    return max(Path(folder).glob("step-*.states"))


def rows_of(path, kind=None):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if kind in (None, row["kind"])]


def without_rates(path):
    return [{key: value for key, value in row.items() if key != "samples_per_second"} for row in rows_of(path)]


def safetensors(path):
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    types = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    return {
        name: np.frombuffer(body[slice(*info["data_offsets"])], types[info["dtype"]]).reshape(info["shape"])
        for name, info in header.items()
        if name != "__metadata__"
    }


# ---- compile --train ------------------------------------------------------------------------------------------------


def test_compile_makes_a_file_of_three_programs(tenon, files):
    out = json.loads(compile_training(files, "mlp.pt2", "again.tenon", "--json"))
    assert [entry["name"] for entry in out["entries"]] == ["step", "evaluate", "predict"]
    assert set(out["trained"]) == {"hidden.weight", "hidden.bias", "scores.weight", "scores.bias"}
    assert tenon("verify", "again.tenon").code == 0
    kinds = {"step": (["x", "target"], 1), "evaluate": (["x", "target"], 2), "predict": (["x"], 1)}
    for entry, (inputs, outputs) in kinds.items():
        info = json.loads(tenon("inspect", "again.tenon", "--entry", entry, "--json").out)
        assert [given["name"] for given in info["inputs"]] == inputs
        assert len(info["outputs"]) == outputs


def test_compile_says_what_it_wrote(files):
    out = compile_training(files, "mlp.pt2", "again.tenon", "--frozen", "hidden.*", "--cpu", "x86-64-v3,x86-64-v4")
    assert "again.tenon" in out
    assert "trains 2 parameters" in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    {
        "--train -o a.tenon": "--train needs --loss",
        "--train --loss mse -o a.tenon": "--train needs --optimizer",
        "--train --loss mse --optimizer sgd": "say which with -o NAME.tenon",
        "--loss mse -o a.tenon": "--loss is for --train",
        "--train --loss msee --optimizer sgd -o a.tenon": "msee",
        "--train --loss mse --optimizer sgd(rate=1) -o a.tenon": "rate",
        "--train --loss mse --optimizer sgd --frozen conv.* -o a.tenon": "no parameter is called 'conv.*'",
    }.items(),
)
def test_compile_refuses(tenon, files, arguments, error):
    done = tenon("compile", "mlp.pt2", *arguments.split())
    assert done.code == 1
    assert error in done.err


# ---- what it trains -------------------------------------------------------------------------------------------------


def test_it_learns_and_says_so(tenon, files):
    done = tenon(*TRAIN, "--validate", "test.npz", "--epochs", 20, "--batch", 16, "--checkpoint", "run")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[-2].startswith("epoch 20: loss 0.")
    assert float(lines[-2].split("accuracy ")[1].split("%")[0]) > 95
    assert lines[-1].endswith("run/step-00000100.states")
    assert [file.name for file in sorted((files / "run").iterdir())] == [
        f"step-{step:08}.states" for step in (90, 95, 100)
    ]


def test_inspect_reads_a_checkpoint(tenon, files):
    assert tenon(*TRAIN, "--epochs", 1, "--batch", 16, "--checkpoint", "run").code == 0
    done = tenon("inspect", "run/step-00000005.states")
    assert done.code == 0, done.err
    first, *lines = done.out.splitlines()
    assert first.startswith("checkpoint of step 5: ")
    states = dict(line.split(maxsplit=2)[1:] for line in lines if line.startswith("state "))
    assert states["hidden.weight"] == "f32[16, 4]"
    told = json.loads(tenon("inspect", "run/step-00000005.states", "--json").out)
    assert {state["name"] for state in told["states"]} == set(states)
    weight = next(state for state in told["states"] if state["name"] == "hidden.weight")
    assert (weight["dtype"], weight["shape"]) == ("f32", [16, 4])
    assert told["notes"]["train.step"] == "5"
    done = tenon("inspect", "run/step-00000005.states", "--html", "page.html")
    assert (done.code, "is a checkpoint" in done.err) == (1, True)


def test_json_metrics_and_picture(tenon, files):
    done = tenon(
        *TRAIN,
        "--validate",
        "test.npz",
        "--epochs",
        3,
        "--batch",
        16,
        "--json",
        "--metrics",
        "m.csv",
        "--plot",
        "m.svg",
    )
    told = json.loads(done.out)
    assert told["steps"] == 15
    assert told["checkpoint"] is None
    assert [epoch["epoch"] for epoch in told["epochs"]] == [1, 2, 3]
    assert "is not kept" in done.err
    steps, epochs = rows_of(files / "m.csv", "step"), rows_of(files / "m.csv", "epoch")
    assert [int(row["step"]) for row in steps] == list(range(1, 16))
    assert [float(row["validation_loss"]) for row in epochs] == [epoch["validation_loss"] for epoch in told["epochs"]]
    sizes = [16, 16, 16, 16, SAMPLES - 64]
    mean = np.average([float(row["loss"]) for row in steps[:5]], weights=sizes)
    assert float(epochs[0]["loss"]) == pytest.approx(mean, rel=1e-12)
    root = ElementTree.parse(files / "m.svg").getroot()
    lines = [line for line in root if line.tag.endswith("polyline") and line.get("class") == "steps"]
    assert len(lines[0].get("points").split()) == 15


def test_a_terminal_shows_how_far_it_is(files):
    ours, theirs = pty.openpty()
    command = [TENON, *TRAIN, "--epochs", "30"]
    done = subprocess.run(command, cwd=files, stderr=theirs, stdout=subprocess.PIPE, timeout=300, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "epoch 1, step 1 of 90, loss" in shown
    assert "samples/s" in shown
    assert b"step 1 of" not in done.stdout


def test_every_sample_is_used_once_in_an_epoch(tenon, files):
    """With a rate of 0 the mean loss over the steps of an epoch is the loss of the whole data."""
    compile_training(files, "plain.pt2", "still.tenon", optimizer="sgd(lr=0)")
    arguments = ("-d", "train.npz", "--validate", "train.npz", "-e", 3, "-b", 16, "--json", "--metrics", "m.csv")
    for epoch in json.loads(tenon("train", "still.tenon", *arguments).out)["epochs"]:
        assert epoch["loss"] == pytest.approx(epoch["validation_loss"], rel=1e-6)
    losses = [row["loss"] for row in rows_of(files / "m.csv", "step")]
    assert losses[:5] != losses[5:10] != losses[10:], "each epoch has an order of its own"


def test_the_seed_is_the_order(tenon, files):
    losses = {}
    for name, seed in {"a": 0, "b": 0, "c": 1}.items():
        assert tenon(*TRAIN, "-e", 2, "-b", 16, "--seed", seed, "--metrics", f"{name}.csv").code == 0
        losses[name] = [row["loss"] for row in rows_of(files / f"{name}.csv", "step")]
    assert losses["a"] == losses["b"]
    assert losses["a"] != losses["c"]


def test_validation_measures_loss_and_accuracy_as_pytorch_does(tenon, files):
    done = tenon(*TRAIN, "--validate", "test.npz", "-e", 2, "-b", 16, "--export", "w.safetensors", "--json")
    told = json.loads(done.out)["epochs"][-1]
    model, weights = MLP().eval(), safetensors(files / "w.safetensors")
    model.load_state_dict({name: torch.tensor(weights[name]) for name in model.state_dict()})
    data = np.load(files / "test.npz")
    scores, target = model(torch.tensor(data["x"])), torch.tensor(data["target"])
    assert told["validation_loss"] == pytest.approx(nn.functional.cross_entropy(scores, target).item(), rel=1e-5)
    assert told["accuracy"] == (scores.argmax(1) == target).double().mean().item()


def test_the_last_batch_is_smaller_or_left_out(tenon, files):
    assert json.loads(tenon(*TRAIN, "-b", 16, "--json").out)["samples_used"] == SAMPLES
    fixed = ("train", "cnn.tenon", "-d", "images.npz", "--json")
    told = json.loads(tenon(*fixed).out)
    assert (told["batch"], told["steps"], told["samples_used"]) == (8, SAMPLES // 8, SAMPLES // 8 * 8)
    done = tenon(*fixed, "--batch", 16)
    assert done.code == 1
    assert "exported with a batch of 8, and trains with that size only" in done.err


def test_frozen_parameters_stay(tenon, files):
    compile_training(files, "mlp.pt2", "frozen.tenon", "--frozen", "hidden.*")
    assert tenon("train", "frozen.tenon", "-d", "train.npz", "--export", "w.safetensors").code == 0
    program, weights = torch.export.load(files / "mlp.pt2"), safetensors(files / "w.safetensors")
    changed = {name for name, value in program.state_dict.items() if not np.array_equal(value.detach(), weights[name])}
    assert changed == {"scores.weight", "scores.bias"}


def test_a_step_in_parts_is_a_step_of_all(tenon, files):
    compile_training(files, "plain.pt2", "whole.tenon", optimizer="sgd(lr=0.1, momentum=0.9)")
    compile_training(files, "plain.pt2", "parts.tenon", "--accumulate", "2", optimizer="sgd(lr=0.1, momentum=0.9)")
    entries = [line for line in tenon("inspect", "parts.tenon").out.splitlines() if line.startswith("this is entry")]
    assert entries == ["this is entry part of part, update, evaluate, predict"]
    data = dict(np.load(files / "train.npz"))
    np.savez(files / "even.npz", **{name: array[:64] for name, array in data.items()})
    tenon("train", "whole.tenon", "-d", "even.npz", "-b", 16, "-e", 3, "--export", "whole.safetensors")
    tenon("train", "parts.tenon", "-d", "even.npz", "-b", 8, "-e", 3, "--export", "parts.safetensors")
    whole, parts = safetensors(files / "whole.safetensors"), safetensors(files / "parts.safetensors")
    assert parts["optimizer.step"] == whole["optimizer.step"] == 12
    for name in ("hidden.weight", "scores.bias"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-4, atol=1e-6)
        assert not parts[f"gradient.{name}"].any()


def test_bf16_and_a_budget(tenon, files):
    compile_training(files, "plain.pt2", "half.tenon", "--precision", "bf16")
    done = tenon("train", "half.tenon", "-d", "train.npz", "--validate", "test.npz", "-e", 20, "-b", 16, "--json")
    assert json.loads(done.out)["epochs"][-1]["accuracy"] > 0.9
    assert tenon(*TRAIN, "--budget", "1MiB").code == 0
    done = tenon(*TRAIN, "--budget", "16")
    assert done.code == 1
    assert "budget" in done.err


def test_targets_of_a_sequence_may_be_flat(tenon, files):
    """Each sample has as many rows of the target as the flattened output of the model has."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Linear(4, 3)

        def forward(self, x):
            return self.scores(x).flatten(0, 1)

    save(export(Tagger(), (torch.zeros(2, 5, 4),), dynamic_shapes=({0: Dim("batch")},)), files / "tags.pt2")
    compile_training(files, "tags.pt2", "tags.tenon")
    target = np.arange(20 * 5) % 3
    np.savez(files / "tags.npz", x=np.eye(4, dtype=np.float32)[target].reshape(20, 5, 4), target=target)
    arguments = ("train", "tags.tenon", "-d", "tags.npz", "--validate", "tags.npz", "-b", 6, "-e", 150, "--json")
    told = json.loads(tenon(*arguments).out)
    assert told["steps"] == 4 * 150
    assert told["epochs"][-1]["accuracy"] == 1


# ---- checkpoints ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_used_by_run(tenon, files):
    tenon(*TRAIN, "-e", 3, "--checkpoint", "run", "--export", "w.safetensors")
    model, weights = MLP().eval(), safetensors(files / "w.safetensors")
    model.load_state_dict({name: torch.tensor(weights[name]) for name in model.state_dict()})
    expected = model(torch.tensor(np.load(files / "x.npy"))).detach().numpy()
    for given in ("run", newest(files / "run")):
        arguments = ("--entry", "predict", "--checkpoint", given, "-i", "x.npy", "-o", "out.npz")
        assert tenon("run", "mlp.tenon", *arguments).code == 0
        (result,) = np.load(files / "out.npz").values()
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    done = tenon("run", "mlp.tenon", "--entry", "predict", "--checkpoint", ".", "-i", "x.npy")
    assert done.code == 1
    assert "there is no checkpoint in this folder" in done.err


@pytest.mark.parametrize("model", ["mlp", "parts"])
def test_resuming_is_as_if_nothing_had_happened(tenon, files, model):
    """100 steps, and 100 more in another process, are 200: states, the order of samples, random numbers, metrics."""
    if model == "parts":
        compile_training(files, "mlp.pt2", "parts.tenon", "--accumulate", "3")
    common = ("train", f"{model}.tenon", "-d", "train.npz", "--validate", "test.npz", "-b", 16, "--threads", 1)
    assert tenon(*common, "--steps", 200, "--checkpoint", "once", "--metrics", "once.csv").code == 0
    for steps in (97, 100, 200):
        done = tenon(*common, "--steps", steps, "--checkpoint", "more", "--metrics", "more.csv", "--resume")
        assert done.code == 0, done.err
    assert newest(files / "once").name == newest(files / "more").name == "step-00000200.states"
    assert newest(files / "once").read_bytes() == newest(files / "more").read_bytes()
    assert without_rates(files / "once.csv") == without_rates(files / "more.csv")
    assert len(rows_of(files / "more.csv", "step")) == 200


def test_whoever_is_killed_loses_no_checkpoint(tenon, files):
    """Killed again and again, at any moment, and resumed: in the end it is as if it had run once. Half of the kills
    wait for a checkpoint; the others may come before the first one."""
    kills = int(os.environ.get("TENON_KILLS", "60"))

    def step():
        return max((int(file.name[5:13]) for file in (files / "killed").glob("step-*.states")), default=0)

    def wait_for_a_checkpoint(child, after):
        until(lambda: step() > after or child.poll() is not None)

    command = [str(part) for part in (TENON, *TRAIN, "-b", 8, "--steps", 20000, "--checkpoint-steps", 1, "-t", 1)]
    resumed = [*command, "--checkpoint", "killed", "--metrics", "killed.csv", "--resume"]
    rng, reached = random.Random(0), [0]
    for number in range(kills):
        child = subprocess.Popen(resumed, cwd=files, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if number % 2:
            wait_for_a_checkpoint(child, reached[-1])
        time.sleep(rng.uniform(0, 0.1))
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL, child.stderr.read()
        child.stderr.close()
        assert step() >= reached[-1] + number % 2
        reached.append(step())
    assert tenon("verify", newest(files / "killed")).code == 0
    end = reached[-1] + 5
    common = (*TRAIN, "-b", 8, "-t", 1, "--steps", end, "--checkpoint-steps", end)
    assert tenon(*common, "--checkpoint", "killed", "--metrics", "killed.csv", "--resume").code == 0
    assert tenon(*common, "--checkpoint", "once", "--metrics", "once.csv").code == 0
    assert newest(files / "once").read_bytes() == newest(files / "killed").read_bytes()
    assert without_rates(files / "once.csv") == without_rates(files / "killed.csv")
    assert not list((files / "killed").glob("*.tmp.*")), "half written files stay"


def interrupted(files, *arguments):
    """Trains until some steps are done, then presses Ctrl-C."""
    command = [str(part) for part in (TENON, *TRAIN, "-b", 8, "-t", 1, "--steps", 10**7, *arguments)]
    child = subprocess.Popen(command, cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.readline()  # of the first epoch
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 130
    return out, err


def test_ctrl_c_finishes_the_step_and_says_how_to_go_on(tenon, files):
    _, err = interrupted(files, "--checkpoint", "more", "--metrics", "more.csv", "--export", "more.safetensors")
    step = int(newest(files / "more").name[5:13])
    assert err == f"interrupted after step {step} of 10000000: the same command with --resume goes on\n"
    assert len(rows_of(files / "more.csv", "step")) == step
    assert safetensors(files / "more.safetensors")["hidden.weight"].shape == (16, 4)
    common = (*TRAIN, "-b", 8, "-t", 1, "--steps", step + 3)
    assert tenon(*common, "--checkpoint", "more", "--resume").code == 0
    assert tenon(*common, "--checkpoint", "once").code == 0
    assert newest(files / "once").read_bytes() == newest(files / "more").read_bytes()


def test_ctrl_c_without_checkpoints_says_what_would_have_helped(files):
    out, err = interrupted(files)
    assert "--checkpoint DIR it could go on from here" in err
    assert "steps of 8 samples" in out


# ---- what cannot be written -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--plot", "--metrics", "--export", "--checkpoint"])
def test_outputs_are_checked_before_the_first_step(tenon, files, option):
    (files / "file").write_text("")
    (files / "folder").mkdir()
    wrong = {"file/x": "Not a directory"}
    if option != "--checkpoint":
        wrong |= {"missing/x": "No such file or directory", "folder": "Is a directory", "folder/": "Is a directory"}
    for path, why in wrong.items():
        kept = () if option == "--export" else ("--export", "weights.safetensors")
        done = tenon(*TRAIN, "--steps", 100_000_000, *kept, option, path)
        assert done.code == 1
        assert done.err == f"{path}: error: cannot write: {why}\n"
    assert not (files / "weights.safetensors").exists()


def test_one_output_that_fails_does_not_lose_the_others(tenon, files):
    outputs = ("--metrics", "loss.csv", "--export", "weights.safetensors", "--checkpoint", "run", "--plot", "/dev/full")
    done = tenon(*TRAIN, "--epochs", 2, *outputs)
    assert done.code == 1
    assert done.err == "/dev/full: error: cannot write: No space left on device\n"
    assert safetensors(files / "weights.safetensors")["hidden.weight"].shape == (16, 4)
    assert len(rows_of(files / "loss.csv", "epoch")) == 2
    assert newest(files / "run").exists()
    assert "epoch 2: loss" in done.out


def test_what_it_says_is_no_reason_to_stop(files):
    command = [TENON, *TRAIN, "--epochs", "2", "--export"]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, "a"], cwd=files, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: cannot write to standard output: No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*command, "b"], cwd=files, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert (files / "a").read_bytes() == (files / "b").read_bytes()


# ---- what it refuses ------------------------------------------------------------------------------------------------


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def bad_data(folder):
    good = dict(np.load(folder / "train.npz"))
    x, target = good["x"], good["target"]
    np.savez(folder / "names.npz", X=x, target=target)
    np.savez(folder / "lacks.npz", x=x)
    np.savez(folder / "double.npz", x=x.astype(np.float64), target=target)
    np.savez(folder / "flat.npz", x=x[:, 0], target=target)
    np.savez(folder / "wide.npz", x=np.zeros((SAMPLES, 5), np.float32), target=target)
    np.savez(folder / "fewer.npz", x=x, target=target[:-1])
    np.savez(folder / "empty.npz", x=x[:0], target=target[:0])
    np.savez(folder / "class.npz", x=x, target=target + 3)
    np.savez_compressed(folder / "zipped.npz", x=x, target=target)
    np.savez(folder / "nan.npz", x=np.full_like(x, np.nan), target=target)


@pytest.mark.parametrize(
    ("data", "error"),
    {
        "missing.npz": "missing.npz",
        "names.npz": "there is no array 'x', which is to be f32[",
        "lacks.npz": "there is no array 'target', which is to be i64[",
        "double.npz": "but the array is f64[70, 4]; cast it before you save it",
        "flat.npz": "but the array is f32[70]",
        "wide.npz": "but the array is f32[70, 5]",
        "fewer.npz": "'target' has 69 rows, but 'x' has 70 samples",
        "empty.npz": "there are no samples in it",
        "zipped.npz": "compress",
        "nan.npz": "the loss of step 1 is not a number",
        "class.npz": "",
        "x.npy": "x.npy",
    }.items(),
)
def test_data_that_does_not_fit(tenon, files, data, error):
    bad_data(files)
    done = tenon("train", "mlp.tenon", "-d", data, "--checkpoint", "run")
    assert done.code == 1
    assert error in done.err
    assert "error: " in done.err
    assert not list(files.glob("run/*.states"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    {
        "infer.tenon -d train.npz": "has no step to train with: `tenon compile --train` makes",
        "mlp.pt2 -d train.npz": "is no .tenon file: compile it first",
        "missing.tenon -d train.npz": "missing.tenon",
        "cnn.tenon -d train.npz": "there is no array 'image'",
        "mlp.tenon -d train.npz --resume": "--resume goes on from the checkpoints of --checkpoint DIR",
        "mlp.tenon -d train.npz --checkpoint-steps 5": "--checkpoint-steps needs --checkpoint DIR",
        "mlp.tenon -d train.npz --checkpoint train.npz": "cannot write: Not a directory",
        "mlp.tenon -d train.npz --metrics missing/m.csv": "missing/m.csv",
        "mlp.tenon -d train.npz --validate names.npz": "names.npz: error: there is no array 'x'",
    }.items(),
)
def test_what_cannot_be(tenon, files, arguments, error):
    bad_data(files)
    done = tenon("train", *arguments.split())
    assert done.code == 1
    assert error in done.err


def test_checkpoints_that_do_not_fit(tenon, files):
    def run(model="mlp.tenon", *extra, d="train.npz", e=2, b=16):
        return tenon("train", model, "-d", d, "-e", e, "-b", b, "--checkpoint", "run", *extra)

    def refused(model="mlp.tenon", *extra, **settings):
        done = run(model, *extra, **settings)
        assert done.code == 1
        return done.err

    assert run().code == 0
    assert "there are checkpoints in this folder, up to step 10: --resume" in refused()
    again = ("mlp.tenon", "--resume")
    assert "was saved with --batch 16, and now it is 8" in refused(*again, b=8)
    assert "was saved with --seed 0, and now it is 1" in refused(*again, "--seed", 1)
    assert "a number of samples of 70, and now it is 30" in refused(*again, d="test.npz")
    compile_training(files, "mlp.pt2", "other.tenon", optimizer="sgd(lr=0.1)")
    assert "step-00000010.states: the file has a state 'optimizer.exp_avg" in refused("other.tenon", "--resume")
    damage(newest(files / "run"))
    assert "step-00000010.states: " in refused(*again, e=3)
    newest(files / "run").unlink()
    assert run(*again).code == 0  # from the one before
    Path(files / "run/step-00000099.states").write_bytes((files / "mlp.tenon").read_bytes())
    assert "step-00000099.states: " in refused(*again, e=3)
