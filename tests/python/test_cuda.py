"""PyTorch's doors for device "cuda", on machines without a GPU: what is captured of models on a GPU (as fake tensors),
and the device over a driver of our own, which keeps memory at other addresses (accelerators/cuda/tests/fake_cuda.cpp).
bench/cuda/checks.py runs models on a GPU.
"""

import contextlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import tenon
import torch
import transformers
import zoo
from tenon import device_names
from tenon.capture.captured import Captured, Input, Output
from tenon.capture.fallback import Fallback, FallbackCall, Result, Slot
from tenon.capture.fx import import_graph_module
from tenon.cuda_graphs import GraphedRun, _Graph
from tenon.runner import executor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "build/lib/libfake_cuda.so"


def on_fake_gpu(program, **variables):
    """Runs Python in a process whose driver is ours; what it prints."""
    environment = os.environ | {"TENON_CUDA_DRIVER": str(FAKE), "TENON_CUBLASLT": str(FAKE)} | variables
    done = subprocess.run(
        [sys.executable, "-c", "import tenon, torch\n" + program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def captured(function, *types):
    with FakeTensorMode():
        values = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in types]
        module = make_fx(function)(*values)
    return import_graph_module(module)


# ---- capture --------------------------------------------------------------------------------------------------------


def test_a_model_on_a_gpu_is_captured_like_one_on_the_cpu():
    def function(x, w, b):
        return [torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)) + torch.ones(3, device=x.device).sum()]

    shapes = [(4, 8), (16, 8), (16,)]
    there = captured(function, *((shape, torch.float32, "cuda") for shape in shapes))
    here = captured(function, *((shape, torch.float32, "cpu") for shape in shapes))
    assert str(there.graph) == str(here.graph)
    assert there.gpu == 0
    assert here.gpu is None
    assert [output.device for output in there.outputs] == [torch.device("cuda", 0)]


def test_results_are_where_the_model_has_them():
    both = captured(lambda x: [x + 1, (x * 2).cpu()], ((4,), torch.float32, "cuda"))
    assert [output.device.type for output in both.outputs] == ["cuda", "cpu"]
    kept = []

    class Executable:
        def run(self, inputs, device, results, in_torch):
            kept.append((device, results, in_torch))
            return list(inputs)

    executor(both, Executable())([1, 2])
    assert kept == [("cuda", {0}, True)]


def test_a_run_that_needs_the_host_is_no_cuda_graph():
    class Executable:
        def run(self, inputs, device, results, in_torch):
            return [*inputs, device, results, in_torch]

    run = GraphedRun(Executable(), "cuda", {0})
    key = torch.zeros(2, dtype=torch.int64)  # of random numbers, on the host
    assert run([key])[1:] == ["cuda", {0}, True]
    assert run([torch.zeros(3)])[1:] == ["cuda", {0}, True]


def test_a_graph_is_captured_on_the_gpu_of_its_model(monkeypatch):
    """Which need not be PyTorch's current one."""
    current, seen = [0], []

    @contextlib.contextmanager
    def device(number):
        before, current[0] = current[0], number
        yield
        current[0] = before

    class Own:
        def run(self, inputs, device, results):
            seen.append(current[0])
            return []

    monkeypatch.setattr(torch.cuda, "device", device)
    for name in ("Stream", "current_stream", "stream", "CUDAGraph", "graph"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    for name in ("cuda:1", "cuda"):
        _Graph(Own(), [], name, set())
    assert seen == [1] * 3 + [0] * 3  # to warm up, and the capture


def test_graphs_are_for_models_whose_results_stay_on_the_gpu():
    all_there = captured(lambda x: [x + 1], ((4,), torch.float32, "cuda"))
    some_there = captured(lambda x: [x + 1, (x * 2).cpu()], ((4,), torch.float32, "cuda"))
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenon.runner.GraphedRun", lambda *given: made.append(given[1:]) or (lambda inputs: inputs))
        for model in (all_there, some_there):
            executor(model, None, graphs=True)
    assert made == [("cuda", {0})]


def test_a_model_on_several_gpus_is_refused():
    places = [Input("x", "tensor", device=torch.device("cuda", i)) for i in (0, 2)]
    model = Captured(None, places, [Output("result", device=None)], Fallback(), [0, 1], False)
    with pytest.raises(tenon.Error, match="the model is on several GPUs: cuda:0, cuda:2"):
        model.gpu  # noqa: B018


def test_a_call_that_tenon_lacks_is_of_the_gpu():
    there = captured(lambda x: [torch.fft.rfft(x).abs()], ((4,), torch.float32, "cuda"))
    assert [call.device for call in there.fallback.calls.values()] == [torch.device("cuda", 0)] * 2


def test_the_fallback_brings_operands_to_its_device():
    seen = []

    def function(x):
        seen.append(x.device.type)
        return x

    fallback = Fallback()
    fallback.calls[0] = FallbackCall(function, [Slot(0)], {}, [Result()], torch.device("meta"))
    with pytest.raises(NotImplementedError, match="meta"):  # there is no way back from this device
        fallback(0, [torch.zeros(3)])
    assert seen == ["meta"]


@pytest.mark.parametrize(
    ("named", "gpu", "expected"),
    [
        ((), None, []),
        ((), 0, ["cuda"]),
        ((), 1, ["cuda:1"]),
        ("cuda:0", None, ["cuda"]),
        ("interpreter", 0, ["interpreter"]),
    ],
)
def test_the_devices_of_a_model(named, gpu, expected):
    assert device_names.devices_for(named, gpu) == expected


# ---- the device -----------------------------------------------------------------------------------------------------


def test_the_device_is_found_by_its_name():
    program = """
t = tenon.to_device(torch.arange(12.0).reshape(3, 4), "cuda")
print(t, *map(int, t.__dlpack_device__()), torch.equal(t.cpu(), torch.arange(12.0).reshape(3, 4)), tenon.devices())
"""
    assert on_fake_gpu(program) == "<tenon.DeviceTensor f32[3, 4] on cuda> 2 0 True ['cuda']"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TENON_CUDA_DRIVER": "/nowhere/libcuda.so.1"}, "no driver for NVIDIA GPUs: /nowhere/libcuda.so.1 cannot"),
        ({"FAKE_CUDA_VERSION": "11080"}, "is for CUDA 11.8; Tenon needs one for CUDA 12.4 or newer"),
    ],
)
def test_a_machine_without_a_gpu_is_told_so(variables, expected):
    program = """
for work in (lambda: tenon.to_device(torch.zeros(2), "cuda"),
             lambda: tenon.compile(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), device="cuda")):
    try:
        work()
    except tenon.Error as error:
        print(error.message)
"""
    told = on_fake_gpu(program, **variables).splitlines()
    assert len(told) == 2
    assert all(expected in line for line in told)


def test_programs_and_devices_may_live_until_the_process_ends():
    """The kernels do nothing there: what counts is how the process ends."""
    program = """
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
program = tenon.compile(model, (torch.zeros(2, 64),), device="cuda")
own = program._executable.in_own_context()
tensor = tenon.to_device(torch.zeros(3), "cuda")
print(program(torch.ones(2, 64)).shape, {task["kind"] for task in program.kernels} >= {"device"})
tenon._tenon.check_cuda_graphs()
"""
    assert on_fake_gpu(program, TENON_CACHE="off") == "torch.Size([2, 64]) True"


def test_the_doctor_tells_of_gpus():
    program = "from tenon import doctor; print(doctor._gpu().text)"
    assert on_fake_gpu(program) == 'device "cuda" works: Fake GPU, with a driver for CUDA 13.0'
    missing = on_fake_gpu(program, TENON_CUDA_DRIVER="/nowhere/libcuda.so.1")
    assert missing.startswith('none for device "cuda": this machine has no driver for NVIDIA GPUs')


def tenon_command(*args, cwd, driver):
    environment = os.environ | {"TENON_CUDA_DRIVER": str(driver), "TENON_CUBLASLT": str(FAKE), "TENON_CACHE": "off"}
    command = [ROOT / "build/bin/tenon", *args]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_file_for_gpus_is_made_without_one(tmp_path):
    """Its only task on the GPU is a product, which the fake driver computes."""
    model, x = torch.nn.Linear(64, 48).eval(), torch.randn(32, 64)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    nowhere = "/nowhere/libcuda.so.1"

    made = tenon_command("compile", "model.pt2", "--device", "cuda", "-o", "model.tenon", cwd=tmp_path, driver=nowhere)
    assert made.returncode == 0, made.stderr
    assert "cuda and " in made.stdout

    run = ("run", "model.tenon", "--input", "x.npy", "--output", "out")
    refused = tenon_command(*run, "--device", "cuda", cwd=tmp_path, driver=nowhere)
    assert refused.returncode != 0
    assert "no program of the file runs on cuda here" in refused.stderr
    assert "no driver for NVIDIA GPUs" in refused.stderr

    for device, driver in ((), nowhere), (("--device", "cuda"), FAKE):
        done = tenon_command(*run, *device, cwd=tmp_path, driver=driver)
        assert done.returncode == 0, done.stderr
        (result,) = (tmp_path / "out").glob("*.npy")
        assert np.allclose(np.load(result), model(x).detach().numpy(), atol=1e-5)
        result.unlink()


def narrow_model(name):
    if name != "gpt2":
        made = getattr(zoo, name)(True)
        return made.module, made.args
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=501, use_cache=False)  # no multiple
    return zoo.Outputs(zoo.made(transformers.GPT2LMHeadModel, config), "logits"), (zoo.tokens(2, 24, 501),)


def kernels_on_cuda(name, folder):
    """The scheduled kernels of a model in bf16, as text."""
    module, args = narrow_model(name)
    args = tuple(arg.bfloat16() if arg.is_floating_point() else arg for arg in args)
    torch.export.save(torch.export.export(module.bfloat16(), args), folder / "model.pt2")
    options = ("--device", "cuda", "--emit", "schedules")
    done = tenon_command("compile", "model.pt2", *options, cwd=folder, driver="/nowhere/libcuda.so.1")
    assert done.returncode == 0, done.stderr
    kernels = [part.split("prepare")[0] for part in done.stdout.split("tenon loops 1\n      kernel ")[1:]]
    return [kernel for kernel in kernels if not kernel.split()[0].endswith("_ahead")]  # runs once, on the CPU


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit"])
def test_no_product_and_no_long_loop_of_a_model_is_left_to_one_thread(name, tmp_path):
    products = 0
    for kernel in kernels_on_cuda(name, tmp_path):
        sizes = {var: int(size) for var, size in re.findall(r"var (\w+) = (\d+)\n", kernel)}
        count = lambda names: math.prod(sizes[each.removeprefix("new ")] for each in names if each)  # noqa: B023, E731
        muls = {ref: rest for ref, *rest in re.findall(r"(%\w+): \w+\[(.*?)\] = mul\((%\w+), (%\w+)\)", kernel)}
        for line in kernel.splitlines():
            loops = line.partition(" for ")[2].split(", ")
            folded = re.search(r"= reduce add\((%\w+)\)", line)
            dims, a, b = muls.get(folded[1], ("", "", "")) if folded else ("", "", "")
            if a != b and count(dims.split(", ")) >= 1 << 14:  # no sum of squares
                assert '"cublaslt"' in line, kernel
                products += 1
            if re.search(r": (f32|bf16)\[.*\] = (?!constant|read)", line):
                assert loops != [""], f"a launch for one number: {line}\n{kernel}"
            if not re.search("thread|block|tile", line):
                assert count(loops) <= 64, f"one thread: {line}\n{kernel}"
    assert products >= 5


def test_a_model_runs_on_no_gpu_that_is_not_there(tmp_path):
    model, x = torch.nn.Linear(64, 48).eval(), torch.randn(32, 64)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    run = ("run", "model.pt2", "--device", "cuda", "--input", "x.npy")
    done = tenon_command(*run, cwd=tmp_path, driver="/nowhere/libcuda.so.1")
    assert done.returncode != 0
    assert "device cuda needs a CUDA device" in done.stderr


def test_the_command_line_lists_the_device():
    environment = os.environ | {"TENON_CUDA_DRIVER": "/nowhere/libcuda.so.1"}
    done = subprocess.run(
        [ROOT / "build/bin/tenon", "backends"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("cuda "))
    assert "NVIDIA" in line
