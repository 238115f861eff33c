"""python -m bench.cuda.checks: what device "cuda" and its PyTorch doors promise, against PyTorch on the same GPU."""

import contextlib
import copy
import io
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tenon
import tenon.torch_backend
import torch
from torch import nn

from bench.cuda.timing import table

CHECKS: list[Callable[[], str]] = []


def check(function: Callable[[], str]) -> Callable[[], str]:
    CHECKS.append(function)
    return function


def main() -> int:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wanted = sys.argv[1:]
    rows, failed = [["check", "result", "seconds", "detail"]], 0
    for function in CHECKS:
        if wanted and function.__name__ not in wanted:
            continue
        start = time.perf_counter()
        try:
            torch.manual_seed(0)
            torch._dynamo.reset()
            tenon.torch_backend.reports.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                detail = function() or ""
            told = [str(each.message) for each in caught if "tenon" in str(each.message).lower()]
            result, detail = ("fell back", told[0]) if told else ("right", detail)
        except Exception as error:
            failed += 1
            traceback.print_exc()
            result, detail = "WRONG", f"{type(error).__name__}: {error}"
        detail = detail.replace("\n", " ")[:150]
        rows.append([function.__name__, result, time.perf_counter() - start, detail])
        print(*rows[-1], flush=True)
    print(table(rows))
    print(f"{failed} of {len(rows) - 1} are wrong")
    return 1 if failed else 0


def close(given: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> str:
    """By the norm of the difference, against the same computation in a wider dtype."""
    assert given.is_cuda, f"the result is on {given.device}"
    assert given.shape == expected.shape, f"{given.shape}, expected {expected.shape}"
    difference = (given.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)
    assert float(difference) < tolerance, f"relative error {float(difference):.2e}, allowed {tolerance:.0e}"
    return f"relative error {float(difference):.1e}"


def devices_of(program: tenon.Program) -> str:
    counts: dict[str, int] = {}
    for node in program.placement:
        counts[node["device"]] = counts.get(node["device"], 0) + 1
    return ", ".join(f"{count} nodes on {device}" for device, count in counts.items())


def mlp(width: int = 64) -> nn.Module:
    return (
        nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, 10)).cuda().eval()
    )


# ---- tensors --------------------------------------------------------------------------------------------------------


@check
def tensors_without_copies() -> str:
    x = torch.randn(100, 7, device="cuda")
    wrapped = tenon.from_dlpack(x)
    back = torch.from_dlpack(wrapped)
    assert back.data_ptr() == x.data_ptr(), "a copy"
    assert torch.equal(wrapped.cpu(), x.cpu())
    on_device = tenon.to_device(torch.arange(12.0), "cuda")
    assert torch.equal(torch.from_dlpack(on_device).cpu(), torch.arange(12.0))
    return str(wrapped)


@check
def elementwise() -> str:
    x, y = torch.randn(1000, 333, device="cuda"), torch.randn(333, device="cuda")

    def function(x, y):
        return torch.tanh(x * y + 1) / 2

    program = tenon.compile(function, (x, y))
    return f"{close(program(x, y), function(x.double(), y.double()))}; {devices_of(program)}"


@check
def reductions() -> str:
    x = torch.randn(300, 1000, device="cuda")

    def function(x):
        return torch.softmax(x, -1), x.sum(0), x.amax(1), nn.functional.layer_norm(x, (1000,))

    program = tenon.compile(function, (x,))
    details = [close(given, expected, 1e-4) for given, expected in zip(program(x), function(x.double()), strict=True)]
    return f"{details[0]}; {devices_of(program)}"


@check
def products_of_every_dtype() -> str:
    details = []
    for dtype, tolerance in (
        (torch.float32, 1e-5),
        (torch.bfloat16, 1e-2),
        (torch.float16, 2e-3),
        (torch.float64, 1e-12),
    ):
        module = nn.Linear(256, 128).cuda().to(dtype)
        x = torch.randn(64, 256, device="cuda", dtype=dtype)
        program = tenon.compile(module, (x,))
        details.append(close(program(x), copy.deepcopy(module).double()(x.double()), tolerance).split()[-1])
    return f"errors {', '.join(details)}; {devices_of(program)}"


@check
def batched_products() -> str:
    a, b = torch.randn(6, 33, 64, device="cuda"), torch.randn(6, 64, 17, device="cuda")
    program = tenon.compile(torch.matmul, (a, b))
    return f"{close(program(a, b), a.double() @ b.double())}; {devices_of(program)}"


@check
def strides_and_offsets() -> str:
    x = torch.randn(64, 65, device="cuda")
    program = tenon.compile(lambda x: x * 2 + 1, (x.T[1:],))
    return close(program(x.T[1:]), x.T[1:].double() * 2 + 1)


@check
def integers() -> str:
    table_, index = torch.randn(50, 16, device="cuda"), torch.randint(0, 50, (9, 5), device="cuda")
    program = tenon.compile(nn.functional.embedding, (index, table_))
    return f"{close(program(index, table_), nn.functional.embedding(index, table_))}; {devices_of(program)}"


@check
def an_index_out_of_range() -> str:
    table_, index = torch.randn(50, 16, device="cuda"), torch.randint(0, 50, (9,), device="cuda")
    program = tenon.compile(nn.functional.embedding, (index, table_))
    index[3] = 77
    told = ""
    try:
        program(index, table_)
        torch.cuda.synchronize()
        program(index.clamp(max=49), table_)  # a failure is told by this call at the latest
    except (tenon.Error, IndexError) as error:
        told = str(error)
    assert "77" in told, told or "no error"
    return told


# ---- streams --------------------------------------------------------------------------------------------------------


@check
def runs_on_the_current_stream() -> str:
    x = torch.zeros(1 << 20, device="cuda")
    program = tenon.compile(lambda x: x + 1, (x,))
    side = torch.cuda.Stream()
    big = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    for stream in (side, torch.cuda.default_stream(), side):
        with torch.cuda.stream(stream):
            for _ in range(10):
                big = big @ big * 1e-3
            x.fill_(41)
            result = program(x)
            x.fill_(-1)  # after the program has read it
            total = (result - 42).abs().max()
        torch.cuda.synchronize()
        assert float(total) == 0, f"off by {float(total)}"
    return "the side stream, the default one, and back"


# ---- models ---------------------------------------------------------------------------------------------------------


@check
def compiled_by_torch() -> str:
    module, x = mlp(), torch.randn(32, 64, device="cuda")
    compiled = torch.compile(module, backend="tenon")
    with torch.no_grad():
        detail = close(compiled(x), copy.deepcopy(module).double()(x.double()))
    return f"{detail}; {reported()}"


def reported() -> str:
    (first, *_) = list(tenon.torch_backend.reports) or [None]
    return (
        "no graph"
        if first is None
        else ", ".join(f"{count} nodes on {device}" for device, count in first.nodes.items())
    )


@check
def every_batch_size() -> str:
    module = mlp()
    compiled = torch.compile(module, backend="tenon", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 17, 64, 1000):
            x = torch.randn(batch, 64, device="cuda")
            detail = close(compiled(x), copy.deepcopy(module).double()(x.double()))
    return f"{detail}; {len(tenon.torch_backend.reports)} graphs"


@check
def attention() -> str:
    q, k, v = (torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def function(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    program = tenon.compile(function, (q, k, v))
    return f"{close(program(q, k, v), function(q.double(), k.double(), v.double()), 2e-2)}; {devices_of(program)}"


@check
def a_transformer_layer() -> str:
    module = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0).cuda().eval()
    x = torch.randn(4, 32, 128, device="cuda")
    compiled = torch.compile(module, backend="tenon")
    with torch.no_grad():
        torch.backends.mha.set_fastpath_enabled(False)
        detail = close(compiled(x), copy.deepcopy(module).double()(x.double()), 1e-4)
    return f"{detail}; {reported()}"


@check
def convolutions() -> str:
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).cuda().eval()
    x = torch.randn(2, 3, 32, 32, device="cuda")
    compiled = torch.compile(module, backend="tenon")
    with torch.no_grad():
        detail = close(compiled(x), copy.deepcopy(module).double()(x.double()), 1e-4)
    return f"{detail}; {reported()}"


@check
def a_call_that_tenon_lacks() -> str:
    def function(x):
        return torch.fft.rfft(x * 2).abs() + 1

    x = torch.randn(40, device="cuda")
    compiled = torch.compile(function, backend="tenon")
    with torch.no_grad():
        return f"{close(compiled(x), function(x.double()), 1e-4)}; {reported()}"


@check
def a_model_of_the_cpu() -> str:
    module = nn.Linear(16, 4)
    program = tenon.compile(module, (torch.randn(2, 16),), device="cuda")
    x = torch.randn(2, 16)
    torch.testing.assert_close(program(x), module(x))
    return devices_of(program)


@check
def as_a_cuda_graph() -> str:
    module = mlp()
    compiled = torch.compile(module, backend="tenon", mode="reduce-overhead")
    with torch.no_grad():
        results = []
        for batch in (32, 32, 8, 32):
            x = torch.randn(batch, 64, device="cuda")
            results.append((compiled(x), copy.deepcopy(module).double()(x.double())))
        details = [close(*pair) for pair in results]
    return f"{details[-1]}; {reported()}"


# ---- training -------------------------------------------------------------------------------------------------------


@check
def trained_by_autograd() -> str:
    module, x, y = mlp().train(), torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    expected = copy.deepcopy(module)
    losses = []
    for model, call in ((module, torch.compile(module, backend="tenon")), (expected, expected)):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(20):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-5)
    return f"loss {float(losses[0]):.4f} after 20 steps; {reported()}"


@check
def trained_by_tenon() -> str:
    module = mlp().train()
    expected = copy.deepcopy(module)
    x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    trainer = tenon.LocalTrainingInstance(
        module, loss="cross_entropy", optimizer=tenon.AdamW(lr=1e-3, weight_decay=0.01), example_inputs=(x,)
    )
    optimizer = torch.optim.AdamW(expected.parameters(), lr=1e-3, weight_decay=0.01)
    for _ in range(20):
        given = trainer.step(x, target=y)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(expected(x), y)
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(given.cpu(), loss.detach().cpu(), rtol=1e-3, atol=1e-5)
    return f"loss {float(given):.4f} after 20 steps"


# ---- files and tools ------------------------------------------------------------------------------------------------


@check
def a_file_runs_on_the_gpu() -> str:
    module, x = mlp(), torch.randn(4, 64, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.tenon")
        tenon.compile(module, (x,)).save(path)
        loaded = tenon.load(path, device="cuda")
        assert loaded.devices == ["cuda"], loaded.devices
        given = loaded(x.cpu())
        torch.testing.assert_close(given.cpu(), module(x).detach().cpu(), rtol=1e-4, atol=1e-5)
        inputs = Path(folder, "x.npy")
        np.save(inputs, x.cpu().numpy())
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tenon",
                "run",
                path,
                "--device",
                "cuda",
                "--input",
                inputs,
                "--profile",
                f"{folder}/t.json",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    told = (done.stdout + done.stderr).strip()
    assert done.returncode == 0, f"tenon run ended with {done.returncode}: {told}"
    return told.splitlines()[-1]


@check
def the_doctor() -> str:
    from tenon import doctor

    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        doctor.main([])
    return next(line for line in told.getvalue().splitlines() if line.startswith("GPU"))


if __name__ == "__main__":
    sys.exit(main())
