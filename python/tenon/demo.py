"""What `python -m tenon demo` shows: a real model, BERT-base with random weights, from PyTorch to machine code.

It is exported, captured, compiled and run beside eager PyTorch. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import tenon
from tenon import pytorch_version

WIDTH = 24
ROUNDS = 7


@contextlib.contextmanager
def step(what: str, times: dict[str, float]) -> Iterator[None]:
    """Says what goes on, with a bar that moves as long as it does, and how long it took."""
    start, done = time.perf_counter(), threading.Event()

    def draw() -> None:
        position = 0
        while not done.wait(0.1):
            bar = "".join("=" if (i - position) % WIDTH < 6 else " " for i in range(WIDTH))
            print(f"\r{what:<28} [{bar}] {time.perf_counter() - start:5.1f} s", end="", flush=True)
            position += 1

    painter = threading.Thread(target=draw, daemon=True)
    if sys.stdout.isatty():
        painter.start()
    try:
        yield
    finally:
        done.set()
        if painter.is_alive():
            painter.join()
        times[what] = time.perf_counter() - start
        print(f"\r{what:<28} [{'=' * WIDTH}] {times[what]:5.1f} s")


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def side_by_side(functions: Sequence[Callable[[], object]]) -> list[float]:
    """The median time of each, in turns, in milliseconds."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    for _ in range(ROUNDS):
        for function, own in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            own.append((time.perf_counter() - start) * 1e3)
    return [sorted(own)[ROUNDS // 2] for own in times]


def main(arguments: Sequence[str] = ()) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        "python -m tenon demo",
        description="BERT-base beside eager PyTorch.",
        epilog="Example: python -m tenon demo --layers 2    which is quick",
    )
    parser.add_argument("--layers", type=int, default=12, help="of the model (default 12)")
    layers = parser.parse_args(arguments).layers
    packages = {"torch": f"'torch=={pytorch_version.TESTED}.*'", "transformers": "transformers"}
    missing = " ".join(text for name, text in packages.items() if importlib.util.find_spec(name) is None)
    if missing:
        print(f"error: the demo compiles a model of transformers; run: pip install {missing}", file=sys.stderr)
        return 1
    show(layers)
    return 0


def show(layers: int) -> None:
    import torch  # imported here, because `main` says what is missing
    import transformers

    warnings.filterwarnings("ignore")
    times: dict[str, float] = {}
    with step("making BERT-base", times):
        torch.manual_seed(0)
        model = transformers.BertModel(transformers.BertConfig(num_hidden_layers=layers)).eval()
        ids = torch.randint(0, 30000, (1, 128))
        mask = torch.ones_like(ids)
    with step("torch.export", times):
        exported = torch.export.export(model, (ids, mask))
    before = peak_mebibytes()
    with step("tenon.compile", times):
        program = tenon.compile(exported, fallback=False)

    print("\n--- what it became ---")
    for number, (side, ops) in enumerate(program.segments):
        print(f"Segment {number}: {side} ({len(ops)} ops, {len(program.kernels)} kernels)")
    for kernel in program.kernels[:8]:
        print(f"  {kernel['kind']:<8} {kernel['name']:<40} {', '.join(kernel['outputs'])}")
    print("  ...")

    with torch.no_grad():
        expected, actual = model(ids, mask), program(ids, mask)
        difference = (actual.last_hidden_state - expected.last_hidden_state).abs().max().item()
        torch.testing.assert_close(actual.last_hidden_state, expected.last_hidden_state)
        mine, eager = side_by_side([lambda: program(ids, mask), lambda: model(ids, mask)])
    print("\n--- beside eager PyTorch ---")
    print(f"largest difference  {difference:.1e}")
    threads = torch.get_num_threads()
    print(f"time of a call      {mine:.1f} ms, eager {eager:.1f} ms ({eager / mine:.2f}x), {threads} threads")
    print(f"peak memory         {peak_mebibytes():.0f} MiB, {before:.0f} MiB of it before compilation")
    print("\nNext: torch.compile(model, backend='tenon'); tenon.explain(program); tenon run model.pt2 --input x.npy")
