"""python -m bench.cuda.models --model bert --dtype bf16 --batch 1: whole models on the GPU, beside eager PyTorch in a
CUDA graph and Inductor, on random data: milliseconds, seconds to compile, and the error against f32."""

import argparse
import copy
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import tenon.torch_backend
import torch

from bench.cuda.timing import in_graph, medians_ms, table
from bench.models.cases import CASES

MODELS = ("bert", "gpt2", "llama", "vit", "resnet50", "mobilenet_v2")
ENGINES = ("eager in a graph", "inductor", "tenon", "tenon in a graph")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--dtype", action="append", choices=("f32", "bf16", "f16"))
    parser.add_argument("--batch", action="append", type=int)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--profile", action="store_true", help="also list the kernels of a run that take longest")
    parser.add_argument("--small", action="store_true", help="small configurations of the models")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    engines = given.engine or ENGINES
    rows = [
        ["model", "dtype", "batch", *(f"{name}, ms" for name in engines), "best peer", "compile, s", "error", "runs"]
    ]
    for name in given.model or MODELS:
        for dtype in given.dtype or ("bf16", "f32"):
            for batch in given.batch or (1, 32):
                rows.append([name, dtype, batch, *measured(name, dtype, batch, engines, given.small, given.profile)])
                print(*rows[-1], flush=True)
    print(table(rows))


def measured(name: str, dtype: str, batch: int, engines: tuple[str, ...], small: bool, profile: bool) -> list[object]:
    module, args = CASES[name].make_as(small, dtype, batch)
    module, args = module.cuda().eval(), tuple(fresh(arg).cuda() for arg in args)
    with torch.no_grad():
        functions = {}
        for engine in engines:
            try:
                functions[engine] = MAKERS[engine](module, args)
            except Exception as error:
                print(f"{name} {dtype} {batch}: {engine}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        found = [error_of(function(), module, args) for name, function in functions.items() if name.startswith("tenon")]
        times = medians_ms(functions)
        if profile and "tenon" in functions:
            print(longest_kernels(functions["tenon"]), flush=True)
    ours = [ms for engine, ms in times.items() if engine.startswith("tenon")]
    peers = [ms for engine, ms in times.items() if not engine.startswith("tenon")]
    ratio = min(peers) / min(ours) if peers and ours else ""
    seconds = {engine: f"{COMPILED[engine]:.1f}" for engine in functions if engine in COMPILED}
    cells = [times.get(engine, "failed") for engine in engines]
    return [*cells, ratio, " / ".join(seconds.values()), " / ".join(found), placed()]


COMPILED: dict[str, float] = {}  # seconds of the last compilation of each engine


def compiled(engine: str, module: torch.nn.Module, args: tuple, **options):
    torch._dynamo.reset()
    tenon.torch_backend.reports.clear()
    start = time.perf_counter()
    function = torch.compile(module, **options)
    function(*args)
    torch.cuda.synchronize()
    COMPILED[engine] = time.perf_counter() - start
    return lambda: function(*args)


MAKERS = {
    "eager in a graph": lambda module, args: in_graph(lambda: module(*args)),
    "inductor": lambda module, args: compiled("inductor", module, args, mode="reduce-overhead"),
    "tenon": lambda module, args: compiled("tenon", module, args, backend="tenon"),
    "tenon in a graph": lambda module, args: compiled(
        "tenon in a graph", module, args, backend="tenon", mode="reduce-overhead"
    ),
}


def longest_kernels(function, most: int = 25) -> str:
    """Of a run: microseconds, how often, name, blocks, threads."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = [each for each in json.loads(Path(file.name).read_text())["traceEvents"] if each.get("cat") in KINDS]
    kinds: dict[tuple, list[float]] = {}
    for each in events:
        form = (each["name"][:60], str(each["args"].get("grid")), str(each["args"].get("block")))
        kinds.setdefault(form, []).append(each["dur"])
    ranked = sorted(kinds.items(), key=lambda item: -sum(item[1]))[:most]
    first, last = min(each["ts"] for each in events), max(each["ts"] + each["dur"] for each in events)
    busy = sum(each["dur"] for each in events)
    head = f"{len(events)} kernels and copies, {busy:.0f} us of {last - first:.0f} us"
    return "\n".join([head, table([[f"{sum(times):.1f}", len(times), *form] for form, times in ranked])])


KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


def fresh(arg: torch.Tensor) -> torch.Tensor:
    """Rows that differ: the cases repeat one."""
    if arg.is_floating_point():
        return torch.randn_like(arg)
    return torch.randint_like(arg, 1, int(arg.max()) + 1)


def error_of(result, module: torch.nn.Module, args: tuple) -> str:
    wide = [arg.float() if arg.is_floating_point() else arg for arg in args]
    expected = first_tensor(copy.deepcopy(module).float()(*wide))
    difference = (first_tensor(result).float() - expected).norm() / expected.norm()
    return f"{float(difference):.1e}"


def first_tensor(result) -> torch.Tensor:
    while not isinstance(result, torch.Tensor):
        result = next(iter(result.values() if hasattr(result, "values") else result))
    return result


def placed() -> str:
    """Who runs the nodes of the model."""
    nodes = sum((report.nodes for report in tenon.torch_backend.reports), Counter())
    calls = sum((report.fallback_calls for report in tenon.torch_backend.reports), Counter())
    texts = [f"{count} {device}" for device, count in nodes.most_common()]
    return ", ".join(texts + [f"{calls.total()} calls in PyTorch"] * bool(calls))


if __name__ == "__main__":
    main()
