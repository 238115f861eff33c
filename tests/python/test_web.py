"""The runtime for JavaScript, in Node: `make web` builds it."""

import base64
import functools
import http.server
import json
import os
import queue
import random
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import tenon
import torch
from torch import nn
from torch.export import Dim

from tests.python import container

ROOT = Path(__file__).parents[2]
WEB = ROOT / "build/web"
GOLDEN = ROOT / "tests/golden"
DTYPES = {"f64": "<f8", "f32": "<f4", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "i1", "u8": "u1", "bool": "?"}

pytestmark = [
    pytest.mark.skipif(not (WEB / "tenon.wasm").exists(), reason="there is no build/web/tenon.wasm: say make web"),
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node"),
]


def drive(*steps, flags=(), threads=1):
    """The results of steps of web_driver.mjs: a dictionary with an `error` where one throws."""
    command = ["node", *flags, Path(__file__).with_name("web_driver.mjs"), WEB / "tenon.mjs"]
    environment = {**os.environ, "THREADS": str(threads)}
    text = json.dumps(steps)
    done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def encoded(array, shape=True):
    array = np.ascontiguousarray(array)
    dtype = next(name for name, code in DTYPES.items() if np.dtype(code) == array.dtype)
    data = {"dtype": dtype, "base64": base64.b64encode(array.tobytes()).decode()}
    return {**data, "shape": array.shape} if shape else data


def decoded(result):
    assert "error" not in result, result
    return np.frombuffer(base64.b64decode(result["base64"]), DTYPES[result["dtype"]]).reshape(result["shape"])


def run(*inputs):
    return {"step": "run", "inputs": [encoded(each) for each in inputs]}


def opened(path):
    return {"step": "open", "path": str(path)}


def error_of(result):
    assert result is not None
    assert result["error"]["name"] == "TenonError", result
    return result["error"]["status"], result["error"]["message"]


# ---- files of every released version --------------------------------------------------------------------------------


def golden_runs(name):
    """[(inputs, outputs)] of NAME.txt: dtype, rank, shape and elements of each."""
    words = iter((GOLDEN / f"{name}.txt").read_text().split())
    runs = []
    for role in words:
        if role == "run":
            runs.append(([], []))
            continue
        dtype, rank = next(words), int(next(words))
        shape = [int(next(words)) for _ in range(rank)]
        values = [float(next(words)) for _ in range(int(np.prod(shape, dtype=int)))]
        runs[-1][role == "output"].append(np.array(values).astype(DTYPES[dtype]).reshape(shape))
    return runs


@pytest.mark.parametrize(
    "name",
    ["1.0/mlp", "1.0/symbolic", "1.0/library", "1.1/library", "1.1/training", "1.1/checked", "1.2/devices"],
)
def test_golden_files_run(name):
    runs = golden_runs(name)
    _, *results = drive(opened(GOLDEN / f"{name}.tenon"), *(run(*inputs) for inputs, _ in runs))
    for (_, wanted), got in zip(runs, results, strict=True):
        assert isinstance(got, list), got
        for each, result in zip(wanted, got, strict=True):
            np.testing.assert_allclose(decoded(result), each, rtol=1e-5, atol=1e-5)


def test_a_file_with_calls_of_the_host_says_which_are_missing():
    status, message = error_of(drive(opened(GOLDEN / "1.2/calls.tenon"))[0])
    assert status == "invalid argument"
    assert "golden.scale.default" in message


# ---- models ---------------------------------------------------------------------------------------------------------


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 3), nn.Softmax(-1))


class Cnn(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, groups=8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        )


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, tokens):
        return self.layer(self.embedding(tokens)), tokens.sum(-1) > 40


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total += x
        return self.total * 2


MODELS = {
    "mlp": (Mlp, torch.linspace(-2, 2, 12).reshape(3, 4)),
    "cnn": (Cnn, torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)),
    "transformer": (Transformer, torch.arange(14).reshape(2, 7)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("web")


def saved(folder, name, model, *inputs, **options):
    path = folder / f"{name}.tenon"
    tenon.compile(model, inputs, **options).save(path)
    return path


@pytest.mark.parametrize("name", MODELS)
def test_models_give_what_pytorch_gives(folder, name):
    make, x = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    wanted = model(x)
    _, got = drive(opened(saved(folder, name, model, x)), run(x.numpy()))
    for each, result in zip(wanted if isinstance(wanted, tuple) else [wanted], got, strict=True):
        np.testing.assert_allclose(decoded(result), each.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def dynamic(folder):
    torch.manual_seed(0)
    model = Mlp().eval()
    shapes = ({0: Dim("batch", min=1, max=64)},)
    return model, saved(folder, "dynamic", model, torch.zeros(3, 4), dynamic_shapes=shapes)


def test_sizes_that_are_known_when_the_program_runs(dynamic):
    model, path = dynamic
    inputs = [torch.linspace(-1, 1, 4 * batch).reshape(batch, 4) for batch in (3, 1, 7)]
    _, about, *results = drive(opened(path), {"step": "describe"}, *(run(x.numpy()) for x in inputs))
    assert about["inputs"] == [{"name": "input", "dtype": "f32", "shape": ["batch", 4]}]
    assert about["symbols"] == [{"name": "batch", "low": 1, "high": 64}]
    assert about["entries"] == ["main"]
    for x, [got] in zip(inputs, results, strict=True):
        np.testing.assert_allclose(decoded(got), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_inputs_come_by_name_and_as_numbers(dynamic):
    model, path = dynamic
    x = [[0.5, 1, -1, 2]]
    by_name = {"step": "run", "inputs": {"input": {"data": x[0], "shape": [1, 4]}}}
    _, [got] = drive(opened(path), by_name)
    np.testing.assert_allclose(decoded(got), model(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_states_stay_between_runs_and_are_read_and_written(folder):
    path = saved(folder, "counter", Counter(), torch.ones(3))
    one = np.ones(3, np.float32)
    _, about, [first], [second], state, _, [third], _, [last] = drive(
        opened(path),
        {"step": "describe"},
        run(one),
        run(one),
        {"step": "getState", "name": "total"},
        {"step": "setState", "name": "total", "value": encoded(np.full(3, 5, np.float32))},
        run(one),
        {"step": "reset"},
        run(one),
    )
    assert about["states"] == [{"name": "total", "dtype": "f32", "shape": [3]}]
    for result, wanted in [(first, 2), (second, 4), (state, 2), (third, 12), (last, 2)]:
        assert decoded(result).tolist() == [wanted] * 3


def test_a_training_of_several_entries_shares_its_states(folder):
    torch.manual_seed(0)
    model, x, target = nn.Linear(4, 2), torch.randn(8, 4), torch.randn(8, 2)
    training = tenon.Training(loss="mse", optimizer="sgd(lr=0.1)")
    trainer = tenon.compile(model, (x,), train=training)
    trainer.save(folder / "training.tenon")
    losses = [float(trainer.step(x, target=target)) for _ in range(3)]
    step = run(x.numpy(), target.numpy())
    _, about, *steps, _, [predicted] = drive(
        opened(folder / "training.tenon"),
        {"step": "describe"},
        step,
        step,
        step,
        {"step": "entry", "name": "predict"},
        run(x.numpy()),
    )
    assert about["entries"] == ["step", "evaluate", "predict"]
    np.testing.assert_allclose([decoded(got) for [got] in steps], losses, rtol=1e-5)
    states = dict(trainer.states.items())
    wanted = x @ states["weight"].T + states["bias"]
    np.testing.assert_allclose(decoded(predicted), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


class Random(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, training=True)


def test_random_numbers_follow_a_seed(folder):
    path, x = saved(folder, "random", Random(), torch.ones(64)), encoded(np.ones(64, np.float32))
    with_seed = {"step": "run", "inputs": [x], "seed": 7}
    _, [a], [b], [c] = drive(opened(path), with_seed, {"step": "run", "inputs": [x]}, with_seed)
    assert decoded(a).tolist() == decoded(c).tolist() != decoded(b).tolist()
    assert set(decoded(a).tolist()) == {0.0, 2.0}


class Writes(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1


def test_an_input_that_the_model_writes_to_is_written(folder):
    path = saved(folder, "writes", Writes(), torch.ones(3))
    given = encoded(np.arange(3, dtype=np.float32), shape=False)
    _, [after] = drive(opened(path), {"step": "runAndGiveInputs", "inputs": [given]})
    assert np.frombuffer(base64.b64decode(after["base64"]), np.float32).tolist() == [0, 2, 4]


# ---- code -----------------------------------------------------------------------------------------------------------


@functools.cache
def relaxed():
    """The flag that Node 20 and older want for relaxed SIMD."""
    flag = "--experimental-wasm-relaxed-simd"
    return (flag,) if subprocess.run(["node", flag, "-e", "0"], capture_output=True).returncode == 0 else ()


def compiled(folder, name, model, x, cpus):
    """By the command line, which compiles a file for several CPUs."""
    source, path = folder / f"{name}.pt2", folder / f"{name}-{cpus}.tenon"
    if not source.exists():
        torch.export.save(torch.export.export(model, x if isinstance(x, tuple) else (x,)), source)
    subprocess.run([ROOT / "build/bin/tenon", "compile", source, "-o", path, "--cpu", cpus], check=True)
    return path


@pytest.mark.parametrize("cpus", ["wasm32", "x86-64-v3,wasm32,wasm32-relaxed"])
@pytest.mark.parametrize("name", MODELS)
def test_code_for_webassembly_gives_what_pytorch_gives(folder, name, cpus):
    make, x = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    wanted = model(x)
    path = compiled(folder, name, model, x, cpus)
    for flags in [()] if cpus == "wasm32" else [(), relaxed()]:
        _, got, about = drive(opened(path), run(x.numpy()), {"step": "loadedCode"}, flags=flags)
        assert about > 0
        for each, result in zip(wanted if isinstance(wanted, tuple) else [wanted], got, strict=True):
            np.testing.assert_allclose(decoded(result), each.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_code_can_be_left_alone_and_its_places_are_used_again(folder):
    _, x = MODELS["mlp"]
    path = compiled(folder, "mlp", Mlp().eval(), x, "wasm32")
    code = {"step": "loadedCode"}
    first, again = opened(path), {**opened(path), "native": False}
    _, with_code, _, without, *_, after, _, fallen = drive(
        first, code, again, code, first, first, first, code, first, code
    )
    assert with_code > 0
    assert without == 0
    assert after == fallen == with_code


class Wide(nn.Module):
    """Ops that need constants in memory, functions of the C library, and scratch."""

    def forward(self, x):
        return torch.lgamma(x), torch.sin(x * 1e6), x.cumsum(0), torch.fmod(x, 0.7), x.half() * 3, x.to(torch.int8)


def test_code_uses_memory_and_functions_of_the_runtime(folder):
    x = torch.linspace(0.1, 30, 1000)
    path = compiled(folder, "wide", Wide(), x, "wasm32")
    _, got, about = drive(opened(path), run(x.numpy()), {"step": "loadedCode"})
    assert about > 0
    for each, result in zip(Wide()(x), got, strict=True):
        value = np.frombuffer(base64.b64decode(result["base64"]), each.numpy().dtype)
        np.testing.assert_allclose(value, each.numpy(), rtol=2e-3 if each.dtype == torch.half else 1e-4, atol=1e-5)


def test_code_of_convolutions_trains_with_any_batch(folder):
    """LLVM counts one of its loops by a product of 128 bits: a call of the compiler's library."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 2))
    x, shapes = torch.randn(3, 1, 8, 8), ({0: Dim("batch", min=1, max=64)},)
    source, path = folder / "convolution.pt2", folder / "convolution.tenon"
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=shapes), source)
    options = ["--train", "--loss", "mse", "--optimizer", "sgd(lr=0.1)", "--cpu", "wasm32"]
    subprocess.run([ROOT / "build/bin/tenon", "compile", source, "-o", path, *options], check=True)
    step = run(x.numpy(), np.zeros((3, 2), np.float32))
    _, *steps, about = drive(opened(path), *[step] * 4, {"step": "loadedCode"})
    _, *interpreted = drive({**opened(path), "native": False}, *[step] * 4)
    losses = [decoded(loss).item() for [loss] in steps]
    assert about > 0
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, [decoded(loss).item() for [loss] in interpreted], rtol=1e-4)


def test_an_error_inside_of_code_is_the_models(folder):
    path = compiled(folder, "lookup", Lookup(), torch.tensor([1, 2]), "wasm32")
    _, bad, [good] = drive(opened(path), run(np.array([1, 9])), run(np.array([1, 4])))
    status, message = error_of(bad)
    assert status == "run failed"
    assert "9" in message
    assert decoded(good).tolist() == [1, 4]


def test_damaged_code_is_an_error_and_never_a_trap(folder):
    _, x = MODELS["mlp"]
    data = compiled(folder, "mlp", Mlp().eval(), x, "wasm32").read_bytes()
    [(*_, offset, size, _)] = [section for section in container.sections(data) if section[0] == 4]
    draw, steps = random.Random(2), []
    for number in range(100):
        mutant = bytearray(data)
        mutant[offset + draw.randrange(size)] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        path = folder / f"code-{number}.tenon"
        path.write_bytes(container.sealed(mutant))
        steps.append(opened(path))
    results = drive(*steps)
    statuses = [error_of(result)[0] for result in results if result is not None]
    assert len(statuses) > 40
    assert set(statuses) <= {"bad file", "unsupported"}


def test_two_sections_of_data_in_one_object_are_refused(folder):
    """The bytes of the first were read from the second, past its end."""
    path = compiled(folder, "wide", Wide(), torch.linspace(0.1, 30, 1000), "wasm32")
    data = bytearray(path.read_bytes())
    name = bytes([len("target_features")]) + b"target_features"
    assert data.count(name) > 0
    at = data.index(name)
    while at >= 0:
        begin = at - 1  # of the size, which is padded or a byte
        while data[begin - 1] >= 0x80:
            begin -= 1
        assert data[begin - 1] == 0  # a custom section
        data[begin - 1], data[at] = 11, 0  # data, in no segments
        at = data.find(name)
    mutant = folder / "two-data.tenon"
    mutant.write_bytes(container.sealed(data))
    [result] = drive(opened(mutant))
    assert error_of(result)[0] == "bad file"


# ---- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("cpus", ["native", "wasm32"])
@pytest.mark.parametrize("name", MODELS)
def test_threads_give_what_one_gives(folder, name, cpus, threads):
    """Also more of them than the machine has, and in the interpreter, which has no code of the file to share."""
    make, x = MODELS[name]
    torch.manual_seed(0)
    path = compiled(folder, name, make().eval(), x, cpus)
    steps = [opened(path), *[run(x.numpy())] * 20]
    _, *alone = drive(*steps)
    _, *together = drive(*steps, threads=threads)
    for one, other in zip(alone, together, strict=True):
        for wanted, got in zip(one, other, strict=True):
            np.testing.assert_array_equal(decoded(got), decoded(wanted))


class Large(nn.Module):
    """Loops that are long enough for threads, with scratch and an error inside of them."""

    def forward(self, x, index):
        return torch.softmax(x @ x, -1).cumsum(0), x[index] * 2


def test_threads_run_long_loops_and_their_errors(folder):
    x, index = torch.randn(256, 256), torch.arange(256)
    path = compiled(folder, "large", Large(), (x, index), "wasm32")
    good = run(x.numpy(), index.numpy())
    bad = run(x.numpy(), np.full(256, 999))
    repeated = {"step": "repeat", "inputs": good["inputs"], "count": 200}
    _, first, error, again, grown, by_loads = drive(
        opened(path), good, bad, good, repeated, {"step": "reopen", "path": str(path), "count": 50}, threads=3
    )
    status, message = error_of(error)
    assert status == "run failed"
    assert "999" in message
    for results in (first, again):
        for wanted, got in zip(Large()(x, index), results, strict=True):
            np.testing.assert_allclose(decoded(got), wanted.numpy(), rtol=1e-3, atol=1e-4)
    assert (grown, by_loads) == (0, 0)


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_memory_stays_flat(dynamic):
    _, path = dynamic
    x = encoded(np.zeros((64, 4), np.float32))
    _, by_runs, by_loads = drive(
        opened(path),
        {"step": "repeat", "inputs": [x], "count": 1000},
        {"step": "reopen", "path": str(path), "count": 200},
    )
    assert (by_runs, by_loads) == (0, 0)


# ---- mistakes -------------------------------------------------------------------------------------------------------


def test_wrong_inputs_are_errors_and_the_program_runs_on(dynamic):
    _, path = dynamic
    good = np.zeros((2, 4), np.float32)
    _, *results = drive(
        opened(path),
        run(good.astype(np.float64)),
        run(np.zeros((2, 5), np.float32)),
        run(np.zeros((65, 4), np.float32)),
        run(),
        run(good, good),
        {"step": "run", "inputs": {"image": encoded(good)}},
        {"step": "run", "inputs": [encoded(good, shape=False)]},
        {"step": "run", "inputs": ["text"]},
        {"step": "entry", "name": "step"},
        {"step": "getState", "name": "total"},
        run(good),
    )
    messages = [error_of(result)[1] for result in results[:-1]]
    assert {error_of(result)[0] for result in results[:-1]} == {"invalid argument"}
    for message, wanted in zip(
        messages,
        [
            "input 'input' must be f32[batch, 4], got f64[2, 4]",
            "got f32[2, 5]",
            "65",
            "input 'input' is not set",
            "the program has 1 inputs, got 2",
            "there is no input 'image'; the inputs are input",
            "8 elements do not say which shape",
            "give a typed array, numbers, or {data, shape}",
            "the file has no entry 'step'; its entries are main",
            "there is no state 'total'",
        ],
        strict=True,
    ):
        assert wanted in message
    assert decoded(results[-1][0]).shape == (2, 3)


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(5.0))

    def forward(self, i):
        return self.table[i]


class Looks(nn.Module):
    def forward(self, table, i):
        return table[i]


def test_a_models_own_error_is_an_error(folder):
    path = saved(folder, "looks", Looks(), torch.arange(5.0), torch.tensor([1, 2]))
    table, far = np.arange(5, dtype=np.float32), np.array([1, 9])
    _, bad, [good] = drive(opened(path), run(table, far), run(table, np.array([1, 4])))
    assert error_of(bad)[0] == "run failed"
    assert "9" in error_of(bad)[1]
    assert decoded(good).tolist() == [1, 4]


class Table(nn.Module):
    def forward(self, x):
        return x[:, None] * x


def test_more_memory_than_there_is_is_an_error(folder):
    path = saved(folder, "table", Table(), torch.zeros(3), dynamic_shapes=({0: Dim("n", min=1)},))
    # The second wants 2^32 + 2^18 bytes, of which 32 bits would leave few.
    large = [run(np.zeros(n, np.float32)) for n in (50000, 32769)]
    _, *bad, [good] = drive(opened(path), *large, run(np.ones(2, np.float32)))
    assert [error_of(each)[0] for each in bad] == ["out of memory"] * 2
    assert decoded(good).tolist() == [[1, 1], [1, 1]]


def test_a_closed_program_says_so(dynamic):
    _, _, *results = drive(opened(dynamic[1]), {"step": "close"}, run(), {"step": "describe"}, {"step": "close"})
    assert [error_of(result)[1] for result in results[:2]] == ["the program is closed"] * 2
    assert results[2] is None


def mutants(data, count):
    """Files with a few bytes that are others, half of them sealed again, or of another length."""
    draw = random.Random(1)
    for i in range(count):
        mutant = bytearray(data)
        if i % 8 == 0:
            del mutant[draw.randrange(len(mutant)) :]
        for _ in range(draw.randint(1, 4)):
            if mutant:
                mutant[draw.randrange(len(mutant))] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        is_whole = len(mutant) == len(data) and mutant[:64] == data[:64]
        yield container.sealed(mutant) if i % 2 and is_whole else bytes(mutant)


def test_damaged_files_are_errors_and_never_traps(folder):
    sources = [GOLDEN / "1.0/mlp.tenon", GOLDEN / "1.0/symbolic.tenon", GOLDEN / "1.1/training.tenon"]
    steps = []
    for source in sources:
        for number, mutant in enumerate(mutants(source.read_bytes(), 340)):
            path = folder / f"{source.stem}-{number}.tenon"
            path.write_bytes(mutant)
            steps.append(opened(path))
    *results, _, [fine] = drive(*steps, opened(sources[0]), run(*golden_runs("1.0/mlp")[0][0]))
    statuses = [error_of(result)[0] for result in results if result is not None]
    assert len(results) > 1000
    assert len(statuses) > 700
    assert set(statuses) <= {"bad file", "unsupported", "out of memory"}
    np.testing.assert_allclose(decoded(fine), golden_runs("1.0/mlp")[0][1][0], rtol=1e-5, atol=1e-5)


CALL_RUN = """const code = new WebAssembly.Module(require("fs").readFileSync(process.argv[1]));
const system = Object.fromEntries(WebAssembly.Module.imports(code).map(({ name }) => [name, () => 0]));
const { exports } = new WebAssembly.Instance(code, { wasi_snapshot_preview1: system });
exports._initialize();
process.exit(exports.run());"""


def test_exceptions_are_those_of_cpp(tmp_path):
    sources = [Path(__file__).with_name("web_exceptions.cpp"), ROOT / "js/runtime/exceptions.cpp"]
    flags = ["--target=wasm32-wasi", "-std=c++20", "-O1", "-fno-rtti", "-fwasm-exceptions", "-mexec-model=reactor"]
    subprocess.run(["clang++-19", *flags, *sources, "-o", tmp_path / "checks.wasm"], check=True, timeout=300)
    done = subprocess.run(
        ["node", "-e", CALL_RUN, tmp_path / "checks.wasm"], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, ""), "the number of the check that fails"


# ---- a browser ------------------------------------------------------------------------------------------------------

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE = """<!doctype html><title>test</title><script type="module">
const report = (result) => fetch("/report", { method: "POST", body: JSON.stringify(result) });
try {
  const { Tenon } = await import("./tenon.mjs");
  const tenon = await Tenon.load();
  const program = tenon.open(await (await fetch("model.tenon")).arrayBuffer());
  const [{ data }] = program.run([Float32Array.from({ length: 12 }, (_, i) => i / 4 - 1)]);
  let refused;
  try {
    tenon.open(new Uint8Array(70));
  } catch (error) {
    refused = [error.name, error.status, error.message];
  }
  await report({ data: [...data], refused });
} catch (error) {
  await report({ error: `${error}` });
}
</script>"""


class Site(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and what the page reports."""

    reports = queue.Queue()

    def do_POST(self):
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def visit(tmp_path):
    """Opens index.html of tmp_path in a browser, and returns what the page reports."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser to open the page in: install one of {', '.join(BROWSERS)}")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"]
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        command = [browser, *flags, f"--user-data-dir={tmp_path / 'profile'}", address]

        def report():
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                try:
                    return Site.reports.get(timeout=300)
                finally:
                    running.terminate()

        yield report
        server.shutdown()


def test_a_page_runs_a_model(folder, tmp_path, visit):
    model, x = Mlp().eval(), torch.arange(12).reshape(3, 4) / 4 - 1
    shutil.copy(compiled(folder, "page", model, x, "wasm32"), tmp_path / "model.tenon")
    for name in ("tenon.mjs", "runtime.mjs", "tenon.wasm"):
        shutil.copy(WEB / name, tmp_path)
    (tmp_path / "index.html").write_text(PAGE)
    result = visit()
    assert "error" not in result, result
    np.testing.assert_allclose(result["data"], model(x).detach().numpy().ravel(), rtol=1e-4, atol=1e-5)
    assert result["refused"] == ["TenonError", "bad file", "this is not a Tenon file"]


# ---- the manual ------------------------------------------------------------------------------------------------------


def test_the_snippets_of_the_manual_run(folder):
    """Blocks build on each other: they are one script."""
    blocks = re.findall(r"^```js\n(.*?)^```$", (ROOT / "docs/web.md").read_text(), re.MULTILINE | re.DOTALL)
    script = folder / "manual.mjs"
    script.write_text("\n".join(blocks).replace('"./build/web/', f'"{WEB}/'))
    done = subprocess.run(["node", script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "f32 [ 2, 4 ] Float32Array(8)" in done.stdout
    assert "true invalid argument" in done.stdout


def test_the_version_is_that_of_the_project():
    assert json.loads((WEB / "package.json").read_text())["version"] == drive({"step": "version"})[0]
