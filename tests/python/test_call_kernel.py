"""tenon_call_kernel: kernels of a program by their names, over the C interface of the library alone."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "build/lib/libtenon_runtime.so"
TENON = Path(os.environ.get("TENON_CLI", ROOT / "build/bin/tenon"))

spec = importlib.util.spec_from_file_location("pipeline", ROOT / "examples/pipeline.py")
pipeline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pipeline)

CHAIN = """graph g(%x: f32[4, 8]) {
  %w: f32[8, 16] = parameter "w"
  %a = relu(%x)
  %m = matmul(%a, %w)
  %t = tanh(%m)
  %r = relu(%t)
  %y = softmax(%r) {dim=-1}
  return %y
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    source = ROOT / "examples/devices/hello.c"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-I", ROOT / "include", "-o", folder / "hello.so", source, "-lm"], check=True
    )
    return folder


@pytest.fixture(scope="module")
def compiled(folder):
    """A function that compiles a graph for hello, with these parameters."""

    def compile_(name, text, device="hello", **parameters):
        (folder / f"{name}.tg").write_text(text)
        given = []
        for parameter, value in parameters.items():
            np.save(folder / f"{parameter}.npy", value)
            given += ["--param", f"{parameter}={folder / parameter}.npy"]
        plugin = ("--plugin", folder / "hello.so", "--device", device)
        command = [TENON, "compile", folder / f"{name}.tg", *given, *plugin, "-o", folder / f"{name}.tenon"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return pipeline.Runtime(LIBRARY, folder / "hello.so", folder / f"{name}.tenon")

    return compile_


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)


def test_kernels_of_a_device_and_of_the_cpu(compiled, weights):
    runtime = compiled("chain", CHAIN, w=weights)
    kernels = list(runtime.kernels())
    assert [device for _, device, _ in kernels] == ["hello", "cpu", "hello"]
    assert [shape for _, _, shape in kernels] == [[4, 16]] * 3
    assert len({name for name, _, _ in kernels}) == 3
    x = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    value = x
    for name, _, shape in kernels:
        value = runtime.call_kernel(name, value, shape=shape)
    wanted = torch.softmax(torch.relu(torch.tanh(torch.relu(torch.tensor(x)) @ torch.tensor(weights))), -1)
    torch.testing.assert_close(torch.from_numpy(value), wanted)


def test_kernels_of_the_same_name(compiled):
    text = (
        "graph g(%x: f32[4, 8]) {\n  %a = relu(%x)\n  %b = tanh(%a)\n  %c = relu(%b)\n  %d = tanh(%c)\n  return %d\n}"
    )
    runtime = compiled("same", text)
    names = [name for name, device, _ in runtime.kernels() if device == "cpu"]
    assert names[1] == names[0] + "#1"
    x = np.linspace(0, 1, 32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_allclose(runtime.call_kernel(names[1], x, shape=[4, 8]), np.tanh(x), rtol=1e-5)


def strided(array, strides):
    tensor = pipeline.as_tensor(array)
    tensor.strides = (ctypes.c_int64 * array.ndim)(*strides)
    return tensor


def test_any_strides(compiled, weights):
    runtime = compiled("chain", CHAIN, w=weights)
    name = next(iter(runtime.kernels()))[0]
    x = np.random.default_rng(2).normal(size=(8, 4)).astype(np.float32)
    transposed, result = strided(x, (1, 4)), np.zeros((16, 4), np.float32)
    transposed.shape = (ctypes.c_int64 * 2)(4, 8)
    output = strided(result, (1, 4))
    output.shape = (ctypes.c_int64 * 2)(4, 16)
    one = ctypes.c_uint64(1)
    call = (runtime.program, name.encode(), ctypes.byref(transposed), one, ctypes.byref(output), one)
    runtime.check(runtime.c.tenon_call_kernel(*call))
    np.testing.assert_allclose(result.T, np.maximum(x.T, 0) @ weights, rtol=1e-4, atol=1e-5)


def test_errors(compiled, weights):
    runtime = compiled("chain", CHAIN, w=weights)
    names = [name for name, _, _ in runtime.kernels()]
    x = np.zeros((4, 8), np.float32)

    def refuses(message, name, *inputs, shape=(4, 16)):
        with pytest.raises(RuntimeError) as failure:
            runtime.call_kernel(name, *inputs, shape=shape)
        assert message in str(failure.value)

    refuses(f"the program has no kernel 'gelu'; its kernels are {', '.join(names)}", "gelu", x)
    refuses(f"kernel {names[0]} has 1 inputs, got 2", names[0], x, x)
    refuses(f"kernel {names[0]} has 1 inputs, got 0", names[0])
    refuses(f"kernel {names[0]} wants f32[4, 8] as input 0, got f32[8, 4]", names[0], x.reshape(8, 4))
    refuses(f"kernel {names[0]} wants f32[4, 16] as output 0, got f32[4, 8]", names[0], x, shape=(4, 8))
    narrow = pipeline.as_tensor(x)
    narrow.dtype = 2  # f16
    output, one = pipeline.as_tensor(np.zeros((4, 16), np.float32)), ctypes.c_uint64(1)
    call = (runtime.program, names[0].encode(), ctypes.byref(narrow), one, ctypes.byref(output), one)
    assert runtime.c.tenon_call_kernel(*call) == 1
    assert b"wants f32[4, 8] as input 0, got f16[4, 8]" in runtime.c.tenon_error()
    narrow.dtype = 99
    assert runtime.c.tenon_call_kernel(*call) == 1
    assert b"unknown dtype" in runtime.c.tenon_error()
    null = ctypes.c_void_p()
    assert runtime.c.tenon_call_kernel(runtime.program, null, null, one, null, one) == 1
    assert b"tenon_call_kernel needs a name" in runtime.c.tenon_error()
    assert runtime.c.tenon_call_kernel(runtime.program, names[0].encode(), null, one, ctypes.byref(output), one) == 1
    assert b"the tensors of a kernel are null" in runtime.c.tenon_error()
    assert runtime.c.tenon_call_kernel(null, b"x", null, one, null, one) == 1
    assert b"the program is null" in runtime.c.tenon_error()


def test_sizes_that_are_symbols(compiled):
    text = "graph g(%x: f32[N]) {\n  symbol N in [1, 64]\n  %y = tanh(%x)\n  return %y\n}"
    runtime = compiled("symbolic", text, device="cpu")
    name = next(iter(runtime.kernels()))[0]
    with pytest.raises(RuntimeError, match="whose sizes are symbols: compile the model for fixed sizes"):
        runtime.call_kernel(name, np.zeros(4, np.float32), shape=[4])


def test_an_error_of_the_model(compiled):
    text = "graph g(%x: f32[4], %i: i64[2]) {\n  %y = index_select(%x, %i) {dim=0}\n  return %y\n}"
    runtime = compiled("index", text, device="cpu")
    name = next(iter(runtime.kernels()))[0]
    index = np.array([1, 7])
    tensors = (pipeline.Tensor * 2)(pipeline.as_tensor(np.zeros(4, np.float32)), pipeline.as_tensor(index))
    tensors[1].dtype = 4  # i64
    output = pipeline.as_tensor(np.zeros(2, np.float32))
    counts = ctypes.c_uint64(2), ctypes.c_uint64(1)
    status = runtime.c.tenon_call_kernel(
        runtime.program, name.encode(), tensors, counts[0], ctypes.byref(output), counts[1]
    )
    assert status == 7
    assert b"7" in runtime.c.tenon_error()


def test_the_example_in_python():
    command = [sys.executable, ROOT / "examples/pipeline.py", LIBRARY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Partitioned into 3 segments" in done.stdout
    assert "sum 4.0000" in done.stdout
    assert "the program has no kernel 'gelu'" in done.stdout


def test_the_example_in_c(compiled, folder, weights):
    compiled("chain", CHAIN, w=weights)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "include"]
    link = [LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"]
    subprocess.run(["cc", *flags, "-o", folder / "call_kernel", ROOT / "examples/call_kernel.c", *link], check=True)
    done = subprocess.run(
        [folder / "call_kernel", folder / "chain.tenon", folder / "hello.so"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "segment0 on hello: 1 in, 1 out" in done.stdout
    assert "the sum of the result is 4.0000" in done.stdout  # a softmax of four rows
