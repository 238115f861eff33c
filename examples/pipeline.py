"""From a graph to a device and back, in four steps: partition, compile, serialize, and a runtime over the C interface.

    python examples/pipeline.py build/lib/libtenon_runtime.so

The runtime below needs neither PyTorch nor a compiler: it loads the file and calls its kernels by name, in order.
"""

import ctypes as c
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tenon
import torch

ROOT = Path(__file__).parents[1]

# ---- the runtime: include/tenon/tenon.h and device.h in ctypes ----


class Tensor(c.Structure):
    _fields_ = (
        ("data", c.c_void_p),
        ("dtype", c.c_int),
        ("rank", c.c_int32),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
    )


class Dim(c.Structure):
    _fields_ = (("size", c.c_int64), ("text", c.c_char_p))


class TensorInfo(c.Structure):
    _fields_ = (("name", c.c_char_p), ("dtype", c.c_int), ("rank", c.c_int32), ("dims", c.POINTER(Dim)))


class KernelInfo(c.Structure):
    _fields_ = (("name", c.c_char_p), ("device", c.c_char_p), ("inputs", c.c_uint64), ("outputs", c.c_uint64))


F32 = 1


def as_tensor(array):
    return Tensor(array.ctypes.data, F32, array.ndim, (c.c_int64 * array.ndim)(*array.shape), None)


class Runtime:
    """A .tenon file, by its kernels."""

    def __init__(self, library, plugin, model):
        self.c = c.CDLL(str(library))
        self.c.tenon_error.restype = c.c_char_p
        self.c.tenon_kernel_count.restype = c.c_size_t
        self.c.tenon_kernel_count.argtypes = (c.c_void_p,)
        self.program = c.c_void_p()
        self.check(self.c.tenon_load_plugin(str(plugin).encode(), None))
        self.check(self.c.tenon_load_file(str(model).encode(), None, c.byref(self.program)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.tenon_error().decode())

    def kernels(self):
        info = KernelInfo()
        for number in range(self.c.tenon_kernel_count(self.program)):
            self.check(self.c.tenon_describe_kernel(self.program, c.c_size_t(number), c.byref(info)))
            result = TensorInfo()
            self.check(
                self.c.tenon_kernel_argument(self.program, c.c_size_t(number), c.c_size_t(info.inputs), c.byref(result))
            )
            yield info.name.decode(), info.device.decode(), [result.dims[i].size for i in range(result.rank)]

    def call_kernel(self, name, *inputs, shape):
        output = np.empty(shape, np.float32)
        tensors = (Tensor * len(inputs))(*map(as_tensor, inputs))
        counts = c.c_uint64(len(inputs)), c.c_uint64(1)
        self.check(
            self.c.tenon_call_kernel(
                self.program, name.encode(), tensors, counts[0], c.byref(as_tensor(output)), counts[1]
            )
        )
        return output


# ---- the compiler ----


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(8, 16))

    def forward(self, x):
        return torch.softmax(torch.tanh(torch.relu(x) @ self.w), dim=-1)


def main(library):
    folder = Path(tempfile.mkdtemp())
    plugin, file = folder / "hello.so", folder / "model.tenon"
    source = ROOT / "examples/devices/hello.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-I", ROOT / "include", "-o", plugin, source, "-lm"], check=True)
    tenon.load_plugin(str(plugin))
    model, x = Model().eval(), torch.randn(4, 8)

    program = tenon.compile(torch.export.export(model, (x,)), device="hello")
    print(f"Partitioned into {len(program.segments)} segments:")
    for number, (side, ops) in enumerate(program.segments):
        print(f"  Segment {number}: {side} ({len(ops)} ops: {', '.join(ops)})")
    print(f"Compiled program length: {len(program.kernels)}")
    program.save(file)
    print(f"Serialized program bytes: {file.stat().st_size}")

    runtime, value = Runtime(library, plugin, file), x.numpy()
    print("--- runtime ---")
    for name, device, shape in runtime.kernels():
        value = runtime.call_kernel(name, value, shape=shape)
        print(f"  {name} on {device} -> {list(value.shape)}")
    print(f"Final output shape: {list(value.shape)}, sum {value.sum():.4f}")
    assert math.isclose(value.sum(), 4, rel_tol=1e-5)
    torch.testing.assert_close(torch.from_numpy(value), model(x))

    try:
        runtime.call_kernel("gelu", value, shape=[4, 16])
    except RuntimeError as error:
        print(error)


if __name__ == "__main__":
    main(*sys.argv[1:] or [ROOT / "build/lib/libtenon_runtime.so"])
