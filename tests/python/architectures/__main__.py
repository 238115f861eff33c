"""Runs every architecture of `transformers`, small, through Tenon and beside eager PyTorch: `make zoo`.

Each runs in a process of its own, forked from this one, which has imported everything. Records are kept in
build/zoo as they come: a run goes on where the last one ended, unless it is --fresh.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a download fails at once
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Before torch is imported. CUDA does not survive a fork: where PyTorch sees a GPU, a forked training is aborted.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tenon
import torch
import tqdm
import transformers

from . import report
from .forks import Answer, run_all
from .making import architectures
from .modes import DTYPES, MODE_SECONDS, Record, examine
from .ways import MODES

RECORDS = Path("build/zoo")
BAD = ("fallback", "wrong", "exception", "crash", "timeout")


def main() -> int:
    options = _options()
    where = f"-{options.device.partition(':')[0]}" if options.device else ""
    options.records = options.records or RECORDS / f"{options.dtype}{where}.jsonl"
    if options.plugin:
        tenon.load_plugin(str(options.plugin))  # forks inherit it, and open the device themselves
    if options.merge:
        found = list(_merged_files(options.merge).values())
    else:
        names = _chosen(options)
        records = _examined(names, options)
        found = [records[name] for name in names if name in records]
    if options.json:
        options.json.write_text(json.dumps([asdict(record) for record in found], indent=1))
    if options.markdown:
        options.markdown.write_text(report.markdown(found, "make zoo", options.dtype))
    print(report.summary(found))
    return int(any(_is_bad(record) for record in found))


def _examined(names: list[str], options: argparse.Namespace) -> dict[str, Record]:
    """The records of earlier runs and of this one."""
    records = {} if options.fresh else _read(options.records)
    todo = {name: _missing(records.get(name), options) for name in names}
    todo = {name: modes for name, modes in todo.items() if modes}
    options.records.parent.mkdir(parents=True, exist_ok=True)
    _import_all()
    start = time.monotonic()
    with options.records.open("w" if options.fresh else "a") as file:
        examined = run_all(
            list(todo),
            lambda name: examine(name, todo[name], options.dtype, options.mode_seconds, options.device),
            options.jobs,
            options.seconds,
            start + 60 * options.minutes,
        )
        for number, (name, answer) in enumerate(examined, 1):
            record = _record(name, answer)
            _show(record, f"{number}/{len(todo)}, {time.monotonic() - start:.0f} s")
            records[name] = _merged(records.get(name), record)
            print(json.dumps(asdict(records[name])), file=file, flush=True)
    return records


def _import_all() -> None:
    """What every architecture imports: processes that are forked find it imported."""
    torch.set_num_threads(1)
    tqdm.tqdm.monitor_interval = 0  # else its first bar starts a thread
    config = transformers.LlamaConfig(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=8, use_cache=False
    )
    model = transformers.LlamaModel(config).eval()
    tokens = {"input_ids": torch.ones(1, 4, dtype=torch.long)}
    torch.export.export(model, (), tokens, strict=False)
    with torch.no_grad():
        torch.compile(model, backend="aot_eager")(**tokens)
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.python.architectures", description=__doc__)
    parser.add_argument("--only", default="", help="architectures by name, with commas; `bert*` is all that begin so")
    parser.add_argument(
        "--modes", type=lambda text: tuple(text.split(",")), default=tuple(MODES), help=", ".join(MODES)
    )
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help="of weights and of inputs that are floats")
    parser.add_argument("--device", default="", help="runs what it claims: loopback:claim=0.5,seed=1; the CPU the rest")
    parser.add_argument("--plugin", type=Path, help="of the device: build/accelerators/loopback.so")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th architecture, from the i-th on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=5 * MODE_SECONDS, help="CPU time of an architecture's making")
    parser.add_argument("--mode-seconds", type=int, default=MODE_SECONDS, help="CPU time of a mode")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no further architecture starts")
    parser.add_argument(
        "--records", type=Path, help="where records are kept; build/zoo/DTYPE.jsonl or DTYPE-DEVICE.jsonl"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the records of earlier runs")
    parser.add_argument("--again", action="store_true", help="also run again what failed in earlier runs")
    parser.add_argument("--merge", type=Path, nargs="+", help="run nothing; report the records in these files")
    parser.add_argument("--json", type=Path, help="where to write the records as one JSON list")
    parser.add_argument("--markdown", type=Path, help="where to write the report")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> list[str]:
    names = list(architectures())
    if options.only:
        wanted = options.only.split(",")
        names = [name for name in names if any(_matches(name, pattern) for pattern in wanted)]
    index, count = map(int, options.shard.split("/"))
    return names[index::count]


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _read(path: Path) -> dict[str, Record]:
    if not path.exists():
        return {}
    records = (Record(**json.loads(line)) for line in path.read_text().splitlines())
    return {record.architecture: record for record in records}


def _merged_files(paths: list[Path]) -> dict[str, Record]:
    """Of a mode that several files have, the last one counts."""
    records: dict[str, Record] = {}
    for path in paths:
        for name, record in _read(path).items():
            is_better = name not in records or records[name].not_made or not record.not_made
            records[name] = _merged(records.get(name), record) if is_better else records[name]
    return records


def _missing(record: Record | None, options: argparse.Namespace) -> tuple[str, ...]:
    """The modes to run: those that no earlier run has."""
    if record is None or (options.again and record.not_made):
        return options.modes
    if record.not_made:
        return ()
    known = record.outcomes
    is_done = lambda mode: mode in known and not (options.again and known[mode].kind in BAD)  # noqa: E731
    return tuple(mode for mode in options.modes if not is_done(mode))


def _merged(earlier: Record | None, record: Record) -> Record:
    if earlier is not None:
        record.modes = earlier.modes | record.modes
    return record


def _record(name: str, answer: Answer) -> Record:
    return Record(name, not_made=f"{answer.failure}: {answer.why}") if answer.failure else Record(**answer.value)


def _is_bad(record: Record) -> bool:
    return any(outcome.kind in BAD for outcome in record.outcomes.values())


def _show(record: Record, progress: str) -> None:
    kinds = " ".join(f"{mode}={outcome.kind}" for mode, outcome in record.outcomes.items())
    print(f"[{progress}] {record.architecture}: {kinds or 'not made: ' + record.not_made} ({record.seconds} s)")
    for mode, outcome in record.outcomes.items():
        if outcome.kind in BAD:
            print(f"    {mode}: {outcome.kind}: {outcome.why}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
