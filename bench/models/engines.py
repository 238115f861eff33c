"""The ways to run a model. Each makes, of a Job, a call without arguments that gives the model's results.

All compute in the dtype of the job. ONNX Runtime and OpenVINO read the ONNX file that torch.onnx writes. In bf16 and
f16 OpenVINO takes the model in f32 and lowers the precision itself, as its users do; ONNX Runtime has no such kernels.

In int8 Tenon and PyTorch run what PT2E makes of the model, with torchao's quantizer for x86: u8 activations, i8 weights
by channel. ONNX Runtime and OpenVINO run what onnxruntime.quantization makes of its ONNX file, with the same dtypes
(QDQ, static). All are calibrated with the arguments of the job.
"""

import copy
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

PT2E = Path(__file__).parents[2] / ".venv/pt2e"  # torchao: python/requirements-pt2e.txt
Call = Callable[[], Sequence[Any]]  # tensors, or arrays of NumPy


@dataclass(frozen=True)
class Job:
    module: nn.Module
    args: tuple[torch.Tensor, ...]
    threads: int
    folder: Path  # for files
    dtype: str = "f32"
    floats: nn.Module | None = None  # of an int8 job: the module before quantization

    def in_f32(self) -> "Job":
        """Itself if it is in f32: a copy of the module would count as memory of the engine that is measured."""
        if self.dtype == "f32":
            return self
        if self.dtype == "int8":
            return replace(self, module=self.floats, dtype="f32")
        args = tuple(arg.float() if arg.is_floating_point() else arg for arg in self.args)
        return replace(self, module=copy.deepcopy(self.module).float(), args=args)


@dataclass(frozen=True)
class Engine:
    name: str
    title: str
    make: Callable[[Job], Call]
    save: Callable[[Job], None] | None = None  # leaves the files in the folder, where `make` does not
    load: Callable[[Job], Call] | None = None  # of the files, without the module
    suffixes: tuple[str, ...] = ()  # of the files
    is_torch: bool = False  # PyTorch's own: what the bars compare with


def results_of(values: Any) -> Sequence[Any]:
    return values if isinstance(values, (tuple, list)) else (values,)


# ---- Tenon and PyTorch ----------------------------------------------------------------------------------------------


def tenon(job: Job) -> Call:
    program = compiled_by_tenon(job)
    return lambda: program(*job.args)


def compiled_by_tenon(job: Job) -> Any:
    import tenon

    return tenon.compile(job.module, job.args, threads=job.threads, fallback=False)


def save_tenon(job: Job) -> None:
    compiled_by_tenon(job).save(job.folder / "model.tenon")


def load_tenon(job: Job) -> Call:
    import tenon

    program = tenon.load(job.folder / "model.tenon", threads=job.threads)
    return lambda: program(*job.args)


def eager(job: Job) -> Call:
    return lambda: job.module(*job.args)


def inductor(job: Job) -> Call:
    compiled = torch.compile(job.module, fullgraph=True, dynamic=False)
    return lambda: compiled(*job.args)


def inductor_freezing(job: Job) -> Call:
    compiled = torch.compile(job.module, fullgraph=True, dynamic=False, options={"freezing": True})
    return lambda: compiled(*job.args)


def inductor_autotune(job: Job) -> Call:
    """Inductor at its best: it also times kernels of its own against oneDNN's, and takes the fastest."""
    options = {"freezing": True, "max_autotune": True}
    compiled = torch.compile(job.module, fullgraph=True, dynamic=False, options=options)
    return lambda: compiled(*job.args)


def quantized_by_pt2e(module: nn.Module, args: tuple[torch.Tensor, ...]) -> nn.Module:
    sys.path.append(str(PT2E))
    from tests.python import pt2e

    return pt2e.quantized(module, *args)


# ---- by way of ONNX -------------------------------------------------------------------------------------------------


def onnx_file(job: Job) -> Path:
    path = job.folder / "model.onnx"
    if path.exists():
        return path
    if job.dtype == "int8":
        quantize_onnx(job, path)
    else:
        torch.onnx.export(job.module, job.args, path, dynamo=True, verbose=False)
    return path


def quantize_onnx(job: Job, path: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Once(CalibrationDataReader):
        def __init__(self, names: list[str]) -> None:
            self.left = [{name: given.numpy() for name, given in zip(names, job.args, strict=True)}]

        def get_next(self) -> dict | None:
            return self.left.pop() if self.left else None

    import onnx

    with tempfile.TemporaryDirectory() as folder:
        plain, ready = Path(folder) / "plain.onnx", Path(folder) / "ready.onnx"
        torch.onnx.export(job.floats, job.args, plain, dynamo=True, external_data=False, verbose=False)
        quant_pre_process(plain, ready, skip_symbolic_shape=True)
        names = [given.name for given in onnx.load(ready, load_external_data=False).graph.input]
        types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(ready, path, Once(names), quant_format=QuantFormat.QDQ, per_channel=True, **types)


def onnxruntime(job: Job) -> Call:
    if job.dtype not in ("f32", "int8"):
        raise NotImplementedError(f"ONNX Runtime has no CPU kernels for {job.dtype}")
    onnx_file(job)
    return load_onnxruntime(job)


def load_onnxruntime(job: Job) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_file(job), options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    feeds = {name: given.numpy() for name, given in zip(names, job.args, strict=True)}
    return lambda: session.run(None, feeds)


def openvino(job: Job) -> Call:
    onnx_file(job if job.dtype == "int8" else job.in_f32())
    return load_openvino(job)


def load_openvino(job: Job) -> Call:
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": job.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32" if job.dtype == "int8" else job.dtype,  # of what the file leaves in floats
    }
    request = openvino.Core().compile_model(onnx_file(job), "CPU", settings).create_infer_request()
    feeds = [given.numpy() for given in job.in_f32().args]

    def call() -> Sequence[Any]:
        results = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [results[place] for place in range(len(results))]

    return call


ONNX_FILES = (".onnx", ".onnx.data")
TENON = Engine("tenon", "Tenon", tenon, save_tenon, load_tenon, (".tenon",))
ENGINES = {
    engine.name: engine
    for engine in (
        TENON,
        Engine("eager", "eager", eager, is_torch=True),
        Engine("inductor", "Inductor", inductor, is_torch=True),
        Engine("inductor_freezing", "Inductor, freezing", inductor_freezing, is_torch=True),
        Engine("inductor_autotune", "Inductor, autotune", inductor_autotune, is_torch=True),
        Engine("onnxruntime", "ONNX Runtime", onnxruntime, None, load_onnxruntime, ONNX_FILES),
        Engine("openvino", "OpenVINO", openvino, None, load_openvino, ONNX_FILES),
    )
}
PEERS = [name for name in ENGINES if name != TENON.name]
