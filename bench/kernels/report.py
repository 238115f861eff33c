"""Rows as tables, and the bars they are measured by."""

import math
import os
import platform
import statistics
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import tenon
import torch

from bench.kernels.harness import Row

STREAMS = ("softmax", "layer_norm", "rms_norm", "reduce", "transpose", "gather", "chain3", "chain6", "chain12")


@dataclass(frozen=True)
class Bar:
    name: str
    families: tuple[str, ...]
    dtype: str
    geomean: float | None = None  # at least
    minimum: float | None = None


BARS = (
    Bar("f32 matmul and linear", ("matmul", "linear"), "f32", geomean=1.0, minimum=0.85),
    Bar("bf16 matmul and linear", ("matmul", "linear"), "bf16", geomean=1.0, minimum=0.85),
    Bar("linear + bias + GELU", ("linear_gelu",), "f32", minimum=1.15),
    Bar("attention", ("attention",), "f32", minimum=1.2),
    Bar("convolutions of ResNet-50", ("conv",), "f32", geomean=1.0),
    Bar("depthwise of MobileNetV2", ("depthwise",), "f32", geomean=1.5),
    Bar("streams", STREAMS, "f32", geomean=1.3, minimum=0.9),
)
COMPILE_BAR_S = 0.015


# ---- tables ----------------------------------------------------------------------------------------------------------


def table(family: str, rows: list[Row]) -> str:
    lines = [HEADER]
    for row in rows:
        lines.append(line(row))
    return f"\n{family}\n" + "\n".join(lines)


HEADER = (
    f"  {'row':<36} {'dtype':<5} {'thr':>3} {'ratio':>7} {'of the rounds':>15} {'tenon':>10} {'torch':>10} "
    f"{'tenon':>11} {'torch':>11}  rival"
)


def line(row: Row) -> str:
    name = row.name if row.count == 1 else f"{row.name} ({row.count}x)"
    start = f"  {name:<36} {row.dtype:<5} {row.threads:>3}"
    if row.status != "ok":
        return f"{start}  {row.status.upper()}: {row.message}"
    spread = f"{row.ratio_low:.2f}..{row.ratio_high:.2f}"
    times = f"{duration(row.tenon_s):>10} {duration(row.torch_s):>10}"
    rates = f"{rate(row, row.tenon_s):>11} {rate(row, row.torch_s):>11}"
    mark = "~" if row.disturbed else "x"
    return f"{start} {row.ratio:>6.2f}{mark} {spread:>15} {times} {rates}  {row.rival}"


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.2f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def rate(row: Row, seconds: float) -> str:
    if row.flops > 0:
        return f"{row.flops / seconds / 1e9:.1f} GF/s"
    return f"{row.bytes / seconds / 1e9:.1f} GB/s"


# ---- bars ------------------------------------------------------------------------------------------------------------


def geomean(rows: list[Row]) -> float:
    """Of all that the rows stand for: a row that a model has three times counts three times."""
    return math.exp(sum(row.count * math.log(row.ratio) for row in rows) / sum(row.count for row in rows))


def judge(bar: Bar, threads: int, rows: list[Row]) -> dict | None:
    mine = [r for r in rows if r.family in bar.families and r.dtype == bar.dtype and r.threads == threads]
    if not mine:
        return None
    good = [row for row in mine if row.status == "ok"]
    quiet = [row for row in good if not row.disturbed]
    worst = min(quiet, key=lambda row: row.ratio, default=None)
    mean = geomean(quiet) if quiet else None
    return {
        "name": bar.name,
        "threads": threads,
        "rows": len(mine),
        "not_ok": len(mine) - len(good),
        "disturbed": len(good) - len(quiet),
        "geomean": mean,
        "minimum": worst and worst.ratio,
        "minimum_row": worst and f"{worst.family} {worst.name}",
        "geomean_bar": bar.geomean,
        "minimum_bar": bar.minimum,
        "result": result(bar, mean, worst, all_ok=len(good) == len(mine), all_quiet=len(quiet) == len(good)),
    }


def result(bar: Bar, mean: float | None, worst: Row | None, all_ok: bool, all_quiet: bool) -> str:
    """UNSURE where no row that counts is against it, but some rows do not count."""
    missed_geomean = bar.geomean is not None and mean is not None and mean < bar.geomean
    missed_minimum = bar.minimum is not None and worst is not None and worst.ratio < bar.minimum
    if not all_ok or missed_geomean or missed_minimum:
        return "MISS"
    return "PASS" if all_quiet else "UNSURE"


def judge_all(rows: list[Row]) -> list[dict]:
    counts = sorted({row.threads for row in rows})
    verdicts = [judge(bar, threads, rows) for bar in BARS for threads in counts]
    return [verdict for verdict in verdicts if verdict]


def judge_compile(rows: list[Row]) -> dict | None:
    seconds = [row.compile_s for row in rows if row.compile_s is not None]
    if not seconds:
        return None
    median = statistics.median(seconds)
    return {
        "median_s": median,
        "most_s": max(seconds),
        "bar_s": COMPILE_BAR_S,
        "result": "PASS" if median <= COMPILE_BAR_S else "MISS",
    }


def bars_table(verdicts: list[dict], compiling: dict | None) -> str:
    lines = ["\nbars", f"  {'':<28} {'thr':>3} {'geomean':>8} {'minimum':>8}  {'bar':<28} result"]
    lines += [bar_line(verdict) for verdict in verdicts]
    if compiling:
        lines.append(
            f"  {'compile one kernel':<28} {'':>3} {'median':>8} {duration(compiling['median_s']):>8}  "
            f"{'at most ' + duration(compiling['bar_s']):<28} {compiling['result']}"
        )
    return "\n".join(lines)


def bar_line(verdict: dict) -> str:
    wanted = [f"{what} {verdict[f'{what}_bar']}" for what in ("geomean", "minimum") if verdict[f"{what}_bar"]]
    shown = [f"{verdict[what]:.2f}x" if verdict[what] else "-" for what in ("geomean", "minimum")]
    notes = [f"lowest: {verdict['minimum_row']}"] if verdict["minimum_row"] else []
    if verdict["not_ok"]:
        notes.append(f"{verdict['not_ok']} of {verdict['rows']} rows have no result")
    if verdict["disturbed"]:
        notes.append(f"{verdict['disturbed']} of {verdict['rows']} rows disturbed")
    return (
        f"  {verdict['name']:<28} {verdict['threads']:>3} {shown[0]:>8} {shown[1]:>8}  {', '.join(wanted):<28} "
        f"{verdict['result']:<6}  {'; '.join(notes)}"
    )


# ---- for machines ----------------------------------------------------------------------------------------------------


def as_json(rows: list[Row], settings: dict, seconds: float) -> dict:
    return {
        "schema": 1,
        "machine": machine(),
        "versions": {"tenon": tenon.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "git": git_revision(),
        "settings": settings,
        "seconds": seconds,
        "rows": [asdict(row) for row in rows],
        "bars": judge_all(rows),
        "compile": judge_compile(rows),
    }


PRODUCTS = ("avx_vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")


def cpu_field(name: str) -> str:
    """What Linux says about the first CPU."""
    info = Path("/proc/cpuinfo")
    for text in info.read_text().splitlines() if info.exists() else ():
        if text.startswith(name):
            return text.split(":", 1)[1].strip()
    return ""


def machine() -> dict:
    flags = cpu_field("flags").split()
    return {
        "cpu": cpu_field("model name") or "unknown",
        "instructions": [name for name in PRODUCTS if name in flags],
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
    }


def git_revision() -> dict | None:
    def git(*arguments: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout

    try:
        return {"revision": git("rev-parse", "HEAD").strip(), "changed": bool(git("status", "--porcelain").strip())}
    except (OSError, subprocess.CalledProcessError):
        return None  # not a checkout
