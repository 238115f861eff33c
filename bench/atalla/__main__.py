"""make bench-atalla ARGS="--quick --model resnet50 --dtype int8 --body model --body cycles --layers --top1 50"

Whole models through Tenon's device "atalla": everything that the array multiplies runs on a body of it, the rest on the
CPU. Cycles are those of the streams that Tenon compiles, by the timing model, and by the RTL where it runs.
Fails where two bodies differ in a bit of a result, where the cycles of a layer differ by more than 5%, and where no
layer of a model runs on the array.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import tenon
import torch

from bench.atalla.models import CASES, DTYPES, Args, Made, made

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "build/accelerators/atalla.so"
BODIES = ("model", "cycles", "rtl")
WIDE = 256  # channels of a layer that the bar is about
CLOSE = 0.05  # between the timing model and the RTL, of a layer's cycles


@dataclass
class Row:
    """What was measured of one model in one dtype."""

    model: str
    dtype: str
    streams: dict = field(default_factory=dict)  # of bench_atalla
    error: float = 0  # relative, of all results together, against f64
    eager_error: float = 0
    seconds: dict[str, float] = field(default_factory=dict)  # of one run, by body
    is_equal: bool = True  # the results of all bodies, in every bit
    missing: dict[str, str] = field(default_factory=dict)  # bodies that are not there, and why
    top1: dict = field(default_factory=dict)

    @property
    def layers(self) -> list[dict]:
        return self.streams["layers"]

    @property
    def cycles(self) -> int:
        return sum(layer["cycles"] for layer in self.layers)

    @property
    def has_rtl(self) -> bool:
        return self.streams["rtl_seconds"] > 0

    @property
    def rtl_cycles(self) -> int:
        return sum(layer["rtl_cycles"] for layer in self.layers)

    @property
    def time_error(self) -> float:
        """Of the layer whose cycles differ most from the RTL's."""
        return max((abs(layer["cycles"] / layer["rtl_cycles"] - 1) for layer in self.layers), default=0)

    @property
    def is_good(self) -> bool:
        return self.is_equal and bool(self.layers) and (not self.has_rtl or self.time_error <= CLOSE)

    @property
    def macs(self) -> float:
        return sum(layer["macs"] for layer in self.layers)


# ---- numbers --------------------------------------------------------------------------------------------------------


def utilization(layer: dict, size: int) -> float:
    """Multiplications that the model asks for, of those that the array could do. Padding does not count."""
    return layer["macs"] / (size * size * layer["cycles"])


def weighted(layers: Sequence[dict], size: int) -> float:
    """The mean utilization, weighted by multiplications."""
    total = sum(layer["macs"] for layer in layers)
    return sum(layer["macs"] * utilization(layer, size) for layer in layers) / total


def is_wide(layer: dict) -> bool:
    """Many channels, and rows enough that the array could be busy: a row costs its tile of weights."""
    return min(layer["channels"], layer["outputs"]) >= WIDE and layer["rows"] > 1


def distance(results: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    squares = sum(float((a.double() - b).square().sum()) for a, b in zip(results, exact, strict=True))
    return (squares / sum(float(b.square().sum()) for b in exact)) ** 0.5


# ---- runs -----------------------------------------------------------------------------------------------------------


def streams(model: Made, args: Args, options: str, rtl: bool = False) -> dict:
    """Layers and cycles, by bench_atalla."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.pt2"
        torch.export.save(torch.export.export(model.module, model.args(args)), path)
        command = [ROOT / "build/bin/bench_atalla", path, PLUGIN, options, *(["--rtl"] if rtl else [])]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise SystemExit(f"bench_atalla: {found.stderr.strip()}")
    return json.loads(found.stdout)


def compiled(model: Made, args: Args, body: str, options: str) -> tenon.Program:
    device = f"atalla:body={body}" + (f",{options}" if options else "")
    return tenon.compile(model.module, model.args(args), device=device)


def results_of(program: tenon.Program, args: Args) -> list[torch.Tensor]:
    found = program(*args)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def run_bodies(row: Row, model: Made, args: Args, bodies: Sequence[str], options: str) -> None:
    first: list[torch.Tensor] | None = None
    for body in bodies:
        try:
            program = compiled(model, args, body, options)
            start = time.perf_counter()
            results = results_of(program, model.args(args))
            row.seconds[body] = time.perf_counter() - start
        except tenon.Error as error:
            if body != "rtl":
                raise
            row.missing[body] = str(error).splitlines()[0]
            continue
        first = first or results
        row.is_equal &= all(torch.equal(a, b) for a, b in zip(first, results, strict=True))
    if first is None:
        return
    exact = model.exact(args)
    row.error, row.eager_error = distance(first, exact), distance(model.results(args), exact)


def top1(model: Made, name: str, small: bool, count: int, options: str) -> dict:
    """The class that each of so many images gets, by the device and by eager."""
    args = [CASES[name].args(small, seed) for seed in range(count)]
    program = compiled(model, args[0], "model", options)
    found: dict = {"images": count, "equal": 0, "classes": set(), "errors": [], "eager_errors": []}
    for each in args:
        mine, eager = results_of(program, model.args(each)), model.results(each)
        exact = model.exact(each)
        found["equal"] += int(mine[0].argmax()) == int(eager[0].argmax())
        found["classes"].add(int(eager[0].argmax()))
        found["errors"].append(distance(mine, exact))
        found["eager_errors"].append(distance(eager, exact))
    return {
        "images": count,
        "equal": found["equal"],
        "classes": len(found["classes"]),
        "closer": sum(a < b for a, b in zip(found["errors"], found["eager_errors"], strict=True)),
        "error": sum(found["errors"]) / count,
        "eager_error": sum(found["eager_errors"]) / count,
    }


def measured(name: str, dtype: str, given: argparse.Namespace) -> Row:
    row = Row(name, dtype)
    torch.manual_seed(0)
    model = made(name, dtype, given.quick)
    args = CASES[name].args(given.quick, 0)
    if not given.no_run:
        run_bodies(row, model, args, given.body or BODIES, given.options)
    row.streams = streams(model, args, given.options, "rtl" in row.seconds)
    if given.top1 and name != "bert":
        row.top1 = top1(model, name, given.quick, given.top1, given.options)
    return row


# ---- tables ---------------------------------------------------------------------------------------------------------


def summary(row: Row, size: int) -> str:
    wide = [layer for layer in row.layers if is_wide(layer)]
    share = row.macs / (row.macs + row.streams["cpu_macs"])
    lines = [
        f"{CASES[row.model].title}, {row.dtype}",
        f"  {len(row.layers)} layers on the array in {row.streams['segments']} segments, {share:.1%} of "
        f"{(row.macs + row.streams['cpu_macs']) / 1e9:.2f} GMACs",
        f"  {row.cycles / 1e6:.2f} M cycles; utilization {row.macs / (size * size * row.cycles):.1%} of all cycles, "
        f"{weighted(row.layers, size):.1%} weighted by MACs",
    ]
    if wide:
        each = [utilization(layer, size) for layer in wide]
        lines.append(
            f"  {len(wide)} layers with {WIDE} channels and more: utilization {min(each):.1%} at least, "
            f"{weighted(wide, size):.1%} weighted by MACs, {sum(each) / len(each):.1%} mean"
        )
    moved = sum(layer["dma_bytes"] for layer in row.layers)
    crossing = f"{row.streams['transfers']} transfers of {row.streams['transfer_bytes'] / 1e6:.1f} MB"
    lines.append(f"  {moved / 1e6:.1f} MB by DMA; {crossing}, {row.streams['permutations']} permutations on the CPU")
    if row.seconds:
        times = ", ".join(f"{body} {seconds:.2f} s" for body, seconds in row.seconds.items())
        same = "the same bits" if row.is_equal else "DIFFERENT BITS"
        lines.append(f"  {times}: {same}; relative error {row.error:.2e}, eager's {row.eager_error:.2e}")
    if row.has_rtl:
        seconds = row.streams["rtl_seconds"]
        lines.append(
            f"  RTL: {row.rtl_cycles / 1e6:.2f} M cycles in {seconds:.2f} s, {row.rtl_cycles / 1e6 / seconds:.2f} M/s; "
            f"`cycles` differs by {row.time_error:.1%} in the worst layer"
        )
    lines += [f"  no body {body}: {why}" for body, why in row.missing.items()]
    if row.top1:
        t = row.top1
        lines.append(
            f"  top-1 equal to eager's on {t['equal']} of {t['images']} images ({t['classes']} classes); "
            f"mean relative error {t['error']:.3e}, eager's {t['eager_error']:.3e}; closer on {t['closer']}"
        )
    return "\n".join(lines)


def layer_table(row: Row, size: int) -> str:
    lines = ["  seg   rows  channels  outputs  window       cycles  estimate  busy   DMA KB  commands"]
    for layer in row.layers:
        window = "x".join(map(str, layer["kernel"])) + (f"/{layer['stride']}" if layer["stride"] != 1 else "")
        lines.append(
            f"  {layer['segment']:>3} {layer['rows']:>6}  {layer['channels']:>8}  {layer['outputs']:>7}  {window:<9}"
            f"{layer['cycles']:>10}  {layer['estimate'] / layer['cycles']:>7.2f}x {utilization(layer, size):>5.1%} "
            f"{layer['dma_bytes'] / 1e3:>8.0f}  {layer['commands']:>8}"
        )
    return "\n".join(lines)


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-atalla", description="Whole models on Atalla.")
    parser.add_argument("--model", action="append", choices=CASES, help="only this model; may be given several times")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="only this dtype")
    parser.add_argument("--body", action="append", choices=BODIES, help="only this body")
    parser.add_argument("--no-run", action="store_true", help="only cycles: nothing is computed")
    parser.add_argument("--options", default="", help="of the device: size=8,scratchpad=64KiB,...")
    parser.add_argument("--top1", type=int, metavar="N", help="also compare the classes of N images with eager's")
    parser.add_argument("--layers", action="store_true", help="a line for each layer")
    parser.add_argument("--quick", action="store_true", help="small models")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    return parser.parse_args(given)


def array_size(options: str) -> int:
    sizes = [item.split("=")[1] for item in options.split(",") if item.startswith("size=")]
    return int(sizes[0]) if sizes else 16


def main(given: list[str] | None = None) -> int:
    args = arguments(given)
    tenon.load_plugin(str(PLUGIN))
    rows = []
    for name in args.model or CASES:
        for dtype in args.dtype or DTYPES:
            rows.append(measured(name, dtype, args))
            print(summary(rows[-1], array_size(args.options)), flush=True)
            if args.layers:
                print(layer_table(rows[-1], array_size(args.options)), flush=True)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
