"""make bench ARGS="--model bert --dtype bf16 --batch 8 --engine eager --threads all --quick" JSON=a.json SVG=a.svg"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from bench.models import picture, report
from bench.models.cases import CASES, DTYPES
from bench.models.engines import ENGINES, TENON
from bench.models.worker import Cost, Latency, Work

ROOT = Path(__file__).parents[2]
LONGEST_S = 1800  # of one process
LINE_OF_ERROR = 160


def thread_count(text: str) -> int:
    """All are the CPUs that this process may use."""
    count = len(os.sched_getaffinity(0)) if text == "all" else int(text)
    if count < 1:
        raise ValueError(text)
    return count


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Whole models: Tenon beside its peers.")
    parser.add_argument("--model", action="append", choices=CASES, help="only this model; may be given several times")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this peer; may be given several times")
    parser.add_argument("--threads", type=thread_count, action="append", help="a number, or all; 1 and 2 unless given")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="f32 and bf16 unless given")
    parser.add_argument("--batch", type=int, action="append", help="1 unless given; times the model's own")
    parser.add_argument("--rounds", type=int, help="7 unless given; 3 with --quick")
    parser.add_argument("--quick", action="store_true", help="few and short rounds, for development")
    parser.add_argument("--small", action="store_true", help="small configurations of the models")
    parser.add_argument("--only", choices=("latency", "cost"), help="leave the other out")
    parser.add_argument("--machine", action="store_true", help="measure nothing: say which CPU this is")
    parser.add_argument("--read", type=Path, help="measure nothing: show what an earlier run wrote with --json")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--svg", type=Path, help="also draw a picture, to this file")
    return parser.parse_args(given)


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


# ---- processes ------------------------------------------------------------------------------------------------------


class WorkerError(Exception):
    """A process that gave no answer."""


def ask(question: dict, folder: Path, cache: Path) -> list[dict]:
    """What a fresh process measures. Inductor finds only what is in `cache`."""
    settings = {"TENON_CACHE": "off", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    asked = json.dumps(question | {"folder": str(folder)})
    command = [sys.executable, "-W", "ignore", "-m", "bench.models.worker", asked]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        raise WorkerError(f"no answer within {LONGEST_S} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        raise WorkerError(lines[-1][:LINE_OF_ERROR])
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured_cost(work: Work, engine: str, folder: Path) -> Cost:
    question = {"work": asdict(work), "engine": engine}
    cache = folder / f"{engine}-cache"
    try:
        row = Cost(**ask({"what": "cost", **question}, folder, cache)[0])
        if ENGINES[engine].load:
            loaded = Cost(**ask({"what": "load", **question}, folder, cache)[0])
            row.load_s, row.load_peak_bytes = loaded.load_s, loaded.load_peak_bytes
        return row
    except WorkerError as error:
        return Cost(work.model, engine, work.dtype, work.batch, error=str(error))


def measured_latency(work: Work, options: argparse.Namespace, folder: Path) -> list[Latency]:
    question = {"work": asdict(work), "engines": options.engines}
    effort = {"rounds": options.rounds, "block_s": 0.05 if options.quick else 0.2}
    cache = folder / "inductor-cache"
    try:
        return [Latency(**row) for row in ask({"what": "latency", **question, **effort}, folder, cache)]
    except WorkerError as error:
        names = (work.threads, work.dtype, work.batch)
        return [Latency(work.model, engine, *names, error=str(error)) for engine in options.engines]


def run(options: argparse.Namespace) -> tuple[list[Latency], list[Cost]]:
    latencies: list[Latency] = []
    costs: list[Cost] = []
    for model, dtype, batch in itertools.product(options.models, options.dtypes, options.batches):
        works = [Work(model, threads, options.small, dtype, batch) for threads in options.threads]
        with tempfile.TemporaryDirectory(prefix="tenon-bench-") as temporary:
            if options.only != "latency" and batch == options.batches[0]:
                costs += costs_of(works[0], options, Path(temporary))
            if options.only != "cost":
                latencies += latencies_of(works, options, Path(temporary))
    progress("")
    return latencies, costs


def costs_of(work: Work, options: argparse.Namespace, folder: Path) -> list[Cost]:
    costs = []
    for engine in options.engines:
        progress(f"{work.model}: {ENGINES[engine].title}: compile")
        costs.append(measured_cost(work, engine, folder))
    progress("")
    print(report.cost_table(report.title_of(work), costs), flush=True)
    return costs


def latencies_of(works: list[Work], options: argparse.Namespace, folder: Path) -> list[Latency]:
    latencies = []
    for work in works:
        progress(f"{work.model}: {work.threads} threads")
        latencies += measured_latency(work, options, folder)
    progress("")
    print(report.latency_table(report.title_of(works[0]), latencies), flush=True)
    return latencies


# ---- the command ----------------------------------------------------------------------------------------------------


def complete(options: argparse.Namespace) -> argparse.Namespace:
    options.models = options.model or list(CASES)
    peers = options.engine or [name for name in ENGINES if name != TENON.name]
    options.engines = [name for name in ENGINES if name == TENON.name or name in peers]
    options.threads = sorted(set(options.threads or [1, 2]))
    options.dtypes = options.dtype or ["f32", "bf16"]
    options.batches = options.batch or [1]
    options.rounds = options.rounds or (3 if options.quick else 7)
    return options


def read(path: Path) -> tuple[list[Latency], list[Cost]]:
    """What an earlier run wrote."""
    found = json.loads(path.read_text())
    return [Latency(**row) for row in found["latencies"]], [Cost(**row) for row in found["costs"]]


def write(latencies: list[Latency], costs: list[Cost], options: argparse.Namespace, seconds: float) -> None:
    if options.json:
        names = ("models", "engines", "threads", "dtypes", "batches", "rounds", "quick", "small")
        found = report.as_json(latencies, costs, {name: getattr(options, name) for name in names}, seconds)
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(picture.draw(latencies))


def main(given: list[str] | None = None) -> None:
    options = complete(arguments(given))
    if options.machine:
        print(report.machine_line(report.machine()))
        return
    start = time.perf_counter()
    latencies, costs = read(options.read) if options.read else run(options)
    seconds = time.perf_counter() - start
    print(report.summary(latencies, costs))
    print(f"\nratio: a peer's time / Tenon's, the median of the rounds; {seconds:.0f} s in all")
    if not options.read:
        print(f"on {report.machine_line(report.machine())}")
    if any(row.is_disturbed for row in latencies):
        print("~: other processes took the CPUs: the fastest of each is compared; measure again when it is quiet")
    write(latencies, costs, options, seconds)


if __name__ == "__main__":
    main()
