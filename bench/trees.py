"""Two builds of Tenon side by side: whether a change made anything slower.

    make bench-trees BASE=../before/build/python       # the folder with the other build's package
    make bench-trees BASE=... ARGS="--part models --only bert --threads 1"

Each build runs in a process of its own, with the models and kernels of this tree. The processes take turns, in an order
that turns from round to round; a row is the median of the rounds' ratios, base's time / this build's (above 1: this
build is faster). Parts: models (f32, batch 1), training (steps), kernels (those of bench-kernels --quick), compile (no
cache), files (loading one, and computing its first result).
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("models", "training", "kernels", "compile", "files")
SIDES = ("base", "this")
BLOCK_S = 0.1
MOST_SLOWER = 1.02


# ---- the process of one build ---------------------------------------------------------------------------------------


def model_call(name: str) -> Callable[[], object]:
    import tenon

    from bench.models.cases import CASES

    module, args = CASES[name].make(False)
    program = tenon.compile(module, args)
    return lambda: program(*args)


def training_call(name: str) -> Callable[[], object]:
    import torch

    from bench.training import MODELS, tenon_stepper

    torch.manual_seed(0)
    return tenon_stepper(*MODELS[name](), torch.get_num_threads())


def kernel_call(title: str) -> Callable[[], object]:
    from bench.kernels.cases import all_cases
    from bench.kernels.harness import compile_kernel, empty_output, reference

    case = next(case for case in all_cases() if f"{case.title} {case.dtype}" == title)
    inputs = case.inputs()
    return compile_kernel(case, inputs, empty_output(case, reference(case, inputs)))


def compile_call(name: str) -> Callable[[], object]:
    import tenon
    import torch

    from bench.models.cases import CASES

    module, args = CASES[name].make(False)
    exported = torch.export.export(module, args, strict=False)
    return lambda: tenon.compile(exported)


def file_call(name: str) -> Callable[[], object]:
    import tenon

    from bench.models.cases import CASES

    module, args = CASES[name].make(False)
    path = Path(tempfile.mkdtemp(prefix="tenon-trees-")) / "model.tenon"
    tenon.compile(module, args).save(str(path))
    return lambda: tenon.load(str(path))(*args)


CALLS = {
    "models": model_call,
    "training": training_call,
    "kernels": kernel_call,
    "compile": compile_call,
    "files": file_call,
}


def serve(threads: int) -> None:
    """Reads one request a line: [part, name] makes a call, a number times it for about so many seconds."""
    import tenon.loops as tl
    import torch

    torch.set_num_threads(threads)
    tl.set_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    call: Callable[[], object] = time.time
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, list):
            call = CALLS[request[0]](request[1])
            call()
            print(json.dumps(0), flush=True)
        else:
            print(json.dumps(seconds_of(call, clock, request)), flush=True)


def seconds_of(call: Callable[[], object], clock: Callable[[], float], block: float) -> float:
    """The median of the calls that fit into `block` seconds, but of one at least."""
    call()
    times, deadline = [], time.perf_counter() + block
    while not times or time.perf_counter() < deadline:
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


# ---- both -----------------------------------------------------------------------------------------------------------


class Side:
    """The process of one build."""

    def __init__(self, package: Path, threads: int) -> None:
        environment = os.environ | {"PYTHONPATH": f"{package}:{ROOT}", "TENON_CACHE": "off"}
        command = [sys.executable, "-W", "ignore", "-m", "bench.trees", "--serve", str(threads)]
        self.process = subprocess.Popen(
            command, env=environment, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, request: object) -> float:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"bench-trees: a build stopped at {request}; its message is above")
        return json.loads(answer)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def names_of(part: str, only: str) -> list[str]:
    if part == "kernels":
        from bench.kernels.cases import all_cases

        names = [f"{case.title} {case.dtype}" for case in all_cases() if case.quick]
    elif part == "training":
        from bench.training import MODELS

        names = list(MODELS)
    else:
        from bench.models.cases import CASES

        names = list(CASES)
    return [name for name in names if only in name]


def ratio_of(sides: dict[str, Side], part: str, name: str, rounds: int) -> tuple[float, float]:
    """The median ratio of the rounds, and this build's seconds."""
    for side in sides.values():
        side.ask([part, name])
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    for turn in range(rounds):
        for which in SIDES if turn % 2 == 0 else SIDES[::-1]:
            times[which].append(sides[which].ask(BLOCK_S))
    ratios = [base / this for base, this in zip(times["base"], times["this"], strict=True)]
    return statistics.median(ratios), statistics.median(times["this"])


def compare(options: argparse.Namespace, threads: int) -> dict[str, float]:
    packages = {"base": options.base.resolve(), "this": options.this.resolve()}
    geomeans = {}
    for part in options.part or PARTS:
        sides = {which: Side(package, threads) for which, package in packages.items()}
        ratios = []
        for name in names_of(part, options.only):
            ratio, seconds = ratio_of(sides, part, name, options.rounds)
            ratios.append(ratio)
            print(f"{part:<9} {name:<44} {threads} threads {seconds * 1e3:10.3f} ms  {ratio:.3f}x", flush=True)
        for side in sides.values():
            side.close()
        if ratios:
            geomeans[part] = math.exp(statistics.fmean(map(math.log, ratios)))
    return geomeans


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-trees", description=__doc__)
    parser.add_argument("--base", type=Path, help="the folder with the other build's package, build/python")
    parser.add_argument("--this", type=Path, default=ROOT / "build" / "python")
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--threads", type=int, action="append", help="1 and 2 unless given")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    if options.base is None or not (options.base / "tenon").is_dir():
        parser.error(f"--base must be a folder with the package tenon of another build, not {options.base}")
    for threads in options.threads or (1, 2):
        for part, geomean in compare(options, threads).items():
            verdict = "PASS" if geomean * MOST_SLOWER >= 1 else "MISS"
            print(
                f"{part}, {threads} threads: geomean {geomean:.3f}x {verdict} (bar {1 / MOST_SLOWER:.2f})", flush=True
            )
    return None


if __name__ == "__main__":
    main()
