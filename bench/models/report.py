"""What was measured as tables, and the bars it is measured by."""

import importlib.metadata
import math
import platform
from collections.abc import Iterable
from dataclasses import asdict

from bench.kernels.report import duration, git_revision, machine
from bench.models.cases import CASES
from bench.models.engines import ENGINES, TENON
from bench.models.worker import Cost, Latency, Work

LEAST = 1.0  # of Tenon's speed, on every model: the better of eager and Inductor is 1
GEOMEAN = 1.1
COMPILE = 10.0  # Inductor's cold compile over Tenon's, at least
PACKAGES = ("tenon", "torch", "transformers", "onnxruntime", "openvino", "onnx")


# ---- tables ---------------------------------------------------------------------------------------------------------


def title_of(row: Latency | Cost | Work) -> str:
    """The model with what is unusual about the way it is run."""
    parts = [CASES[row.model].title, *([row.dtype] if row.dtype != "f32" else [])]
    return ", ".join([*parts, *([f"batch x{row.batch}"] if row.batch != 1 else [])])


def latency_table(title: str, rows: list[Latency]) -> str:
    head = f"  {'engine':<20} {'thr':>3} {'latency':>10} {'ratio':>8} {'of the rounds':>15}"
    return "\n".join((f"\n{title}", head, *map(latency_line, rows)))


def latency_line(row: Latency) -> str:
    start = f"  {ENGINES[row.engine].title:<20} {row.threads:>3}"
    if row.error:
        return f"{start}  {row.error}"
    if row.ratio is None:
        return f"{start} {duration(row.seconds):>10}"
    spread = f"{row.low:.2f}..{row.high:.2f}"
    return f"{start} {duration(row.seconds):>10} {row.ratio:>7.2f}{'~' if row.is_disturbed else 'x'} {spread:>15}"


def cost_table(title: str, rows: list[Cost]) -> str:
    head = f"  {'engine':<20} {'compile':>10} {'CPU time':>10} {'memory':>9} {'load':>10} {'memory':>9} {'file':>9}"
    return "\n".join((f"\n{title}", head, *map(cost_line, rows)))


def cost_line(row: Cost) -> str:
    start = f"  {ENGINES[row.engine].title:<20}"
    if row.error:
        return f"{start}  {row.error}"
    times = f"{shown(row.compile_s, duration):>10} {shown(row.compile_cpu_s, duration):>10}"
    compiled = f"{times} {shown(row.peak_bytes, size):>9}"
    loaded = f"{shown(row.load_s, duration):>10} {shown(row.load_peak_bytes, size):>9} {shown(row.file_bytes, size):>9}"
    return f"{start} {compiled} {loaded}"


def shown(value: float | None, how) -> str:
    return "-" if value is None else how(value)


def size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count < 2**30 else f"{count / 2**30:.2f} GiB"


# ---- bars -----------------------------------------------------------------------------------------------------------


def geomean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def best_peer(rows: list[Latency], only_torch: bool) -> Latency | None:
    """The fastest of the peers that ran, of one model on one number of threads."""
    peers = [row for row in rows if row.engine != TENON.name and row.ratio is not None]
    fitting = [row for row in peers if ENGINES[row.engine].is_torch or not only_torch]
    return min(fitting, key=lambda row: row.ratio, default=None)


def key_of(row: Latency) -> tuple[str, str, int, int]:
    return row.model, row.dtype, row.batch, row.threads


def standings(latencies: list[Latency]) -> list[dict]:
    """Tenon's speed per model and number of threads: the best peer's time over its own, and whose that is."""
    found = []
    for key in dict.fromkeys(map(key_of, latencies)):
        rows = [row for row in latencies if key_of(row) == key]
        torch, best = best_peer(rows, only_torch=True), best_peer(rows, only_torch=False)
        found.append(
            {
                **dict(zip(("model", "dtype", "batch", "threads"), key, strict=True)),
                "title": title_of(rows[0]),
                "to_torch": torch and torch.ratio,
                "torch": torch and torch.engine,
                "to_best": best and best.ratio,
                "best": best and best.engine,
                "is_disturbed": any(row.is_disturbed for row in rows),
            }
        )
    return found


def judge_latency(latencies: list[Latency]) -> list[dict]:
    """A verdict per dtype, batch and number of threads."""
    verdicts = []
    for way in dict.fromkeys(key_of(row)[1:] for row in latencies):
        mine = [each for each in standings(latencies) if (each["dtype"], each["batch"], each["threads"]) == way]
        ratios = {each["model"]: each["to_torch"] for each in mine if each["to_torch"] is not None}
        if not ratios:
            continue
        slowest = min(ratios, key=ratios.__getitem__)
        is_met = len(ratios) == len(mine) and ratios[slowest] >= LEAST and geomean(ratios.values()) >= GEOMEAN
        verdicts.append(
            {
                **dict(zip(("dtype", "batch", "threads"), way, strict=True)),
                "geomean": geomean(ratios.values()),
                "minimum": ratios[slowest],
                "slowest": slowest,
                "result": "PASS" if is_met else "MISS",
            }
        )
    return verdicts


def judge_compile(costs: list[Cost]) -> list[dict]:
    """A verdict per model that both compiled."""
    verdicts = []
    for model, dtype in dict.fromkeys((row.model, row.dtype) for row in costs):
        mine = [row for row in costs if (row.model, row.dtype) == (model, dtype) and row.compile_s is not None]
        rows = {row.engine: row for row in mine}
        if TENON.name not in rows or "inductor" not in rows:
            continue
        ours, theirs = rows[TENON.name], rows["inductor"]
        ratio, cpu_ratio = theirs.compile_s / ours.compile_s, theirs.compile_cpu_s / ours.compile_cpu_s
        result = "PASS" if ratio >= COMPILE else "MISS"
        verdicts.append({"model": model, "dtype": dtype, "ratio": ratio, "cpu_ratio": cpu_ratio, "result": result})
    return verdicts


def summary(latencies: list[Latency], costs: list[Cost]) -> str:
    lines = ["\nTenon's speed: the fastest peer's time / Tenon's"]
    lines.append(f"  {'model':<44} {'thr':>3}  {'of PyTorch':<28} {'of all':<28}")
    lines += [standing_line(each) for each in standings(latencies)]
    lines.append("\nbars")
    for each in judge_latency(latencies):
        name = f"eager, Inductor: {each['dtype']} x{each['batch']}, {each['threads']} thr"
        bar = f"at least {LEAST} on each, {GEOMEAN} in geomean"
        found = f"geomean {each['geomean']:.2f}x, lowest {each['minimum']:.2f}x ({each['slowest']})"
        lines.append(f"  {name:<36} {bar:<38} {found:<48} {each['result']}")
    for each in judge_compile(costs):
        name = f"compile {each['model']}, {each['dtype']}"
        bar = f"at most 1/{COMPILE:.0f} of Inductor's"
        found = f"1/{each['ratio']:.1f}, in CPU time 1/{each['cpu_ratio']:.1f}"
        lines.append(f"  {name:<36} {bar:<38} {found:<48} {each['result']}")
    return "\n".join(lines)


def standing_line(each: dict) -> str:
    def peer(which: str) -> str:
        if each[which] is None:
            return "-"
        return f"{each['to_' + which]:.2f}{'~' if each['is_disturbed'] else 'x'} {ENGINES[each[which]].title}"

    return f"  {each['title']:<44} {each['threads']:>3}  {peer('torch'):<28} {peer('best')}"


def machine_line(found: dict) -> str:
    dots = ", ".join(found["instructions"]) or "none"
    return f"{found['cpu']}, {found['cpus']} CPUs, instructions for bf16 and int8: {dots}; load {found['load']:.1f}"


# ---- for machines ---------------------------------------------------------------------------------------------------


def as_json(latencies: list[Latency], costs: list[Cost], settings: dict, seconds: float) -> dict:
    return {
        "schema": 1,
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {name: version_of(name) for name in PACKAGES},
        "git": git_revision(),
        "settings": settings,
        "seconds": seconds,
        "latencies": [asdict(row) for row in latencies],
        "costs": [asdict(row) for row in costs],
        "standings": standings(latencies),
        "bars": {"latency": judge_latency(latencies), "compile": judge_compile(costs)},
    }


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
