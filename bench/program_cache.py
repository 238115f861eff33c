"""What the cache of whole programs saves: compiling what another process compiled before, with the cache as it is, and
with the kernels in it but no programs.

Each compilation is a process of its own, `tenon compile`, which says how long compilation took, without reading the
model. In turns; medians, and the median of the ratios of turns. "torch.compile" is the graph that PyTorch gives to the
backend, whose weights are inputs; "tenon.compile" has weights, which are laid out anew in either case.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

import tenon.torch_backend
import torch

from tests.python import zoo

MODELS = ("softmax", "bert", "gpt2")
SAYS = re.compile(r"^(took from the cache|compiled) (\d+) tasks in ([\d.]+) ms", re.MULTILINE)
KEY_STARTS = 40  # bytes, of an entry


class Softmax(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(8, 16))

    def forward(self, x):
        return torch.softmax(torch.relu(x) @ self.w, dim=-1)


def model_of(name):
    if name == "softmax":
        return Softmax().eval(), (torch.randn(4, 8),)
    model = getattr(zoo, name)(small=False)
    return model.module, model.args


def graph_of(module, args, path):
    """Writes the graph that torch.compile gives to the backend."""
    compile_graph = tenon.torch_backend.compile_program

    def write(graph, **options):
        path.write_text(str(graph))
        return compile_graph(graph, **options)

    tenon.torch_backend.compile_program = write
    try:
        with torch.no_grad():
            torch.compile(module, backend="tenon", fullgraph=True)(*args)
    finally:
        tenon.torch_backend.compile_program = compile_graph


def compiled(path, cache):
    command = ["build/bin/tenon", "compile", str(path)]
    environment = os.environ | {"TENON_CACHE": str(cache)}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    said, tasks, milliseconds = SAYS.search(output).groups()
    return said != "compiled", int(tasks), float(milliseconds)


def programs_in(cache):
    return [path for path in cache.iterdir() if path.read_bytes()[KEY_STARTS:].startswith(b"program\n")]


def measure(what, path, cache, rounds):
    _, tasks, cold = compiled(path, cache)
    times = {True: [], False: []}
    for _ in range(rounds):
        for expected in (False, True):
            if not expected:
                for entry in programs_in(cache):
                    entry.unlink()
            found, _, milliseconds = compiled(path, cache)
            assert found == expected, "the cache does not do what is measured"
            times[expected].append(milliseconds)
    size = sum(entry.stat().st_size for entry in programs_in(cache))
    ratio = statistics.median(new / old for new, old in zip(times[True], times[False], strict=True))
    parts, whole = (statistics.median(times[found]) for found in (False, True))
    print(
        f"{what:<24} {tasks:4} tasks, cold {cold:7.1f} ms; kernels from the cache {parts:7.1f} ms, "
        f"all of it {whole:7.1f} ms: {ratio:.2f}x; {size:,} bytes",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ["TENON_CACHE"] = "off"
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            module, args = model_of(name)
            exported, graph = Path(folder) / "model.pt2", Path(folder) / "model.tg"
            torch.export.save(torch.export.export(module, args, strict=False), exported)
            graph_of(module, args, graph)
            del module
            for what, path in (("torch.compile", graph), ("tenon.compile", exported)):
                cache = Path(folder) / what
                cache.mkdir()
                measure(f"{name}, {what}", path, cache, options.rounds)


if __name__ == "__main__":
    main()
