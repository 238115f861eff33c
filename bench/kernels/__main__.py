"""make bench-kernels ARGS="--family matmul --size 512 --threads 1 --rounds 9 --dtype f32 --quick" JSON=out.json"""

import argparse
import json
import os
import sys
import time
from itertools import groupby
from pathlib import Path

from bench.kernels import report
from bench.kernels.case import Case
from bench.kernels.cases import all_cases
from bench.kernels.harness import Effort, Row, keep_freed_memory, measure


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-kernels", description="Tenon's kernels against PyTorch's.")
    parser.add_argument("--family", action="append", help="only this family; may be given several times")
    parser.add_argument("--size", action="append", help="only this size: 512, or 4MB; of a layer, the sequence")
    parser.add_argument("--dtype", action="append", help="only this dtype: f32, bf16 or i8")
    parser.add_argument("--name", help="only rows with this text in their name")
    parser.add_argument("--threads", type=int, action="append", help="1 and 2 unless given")
    parser.add_argument("--rounds", type=int, help="9 unless given; 5 with --quick")
    parser.add_argument("--quick", action="store_true", help="a representative few of the rows, for development")
    parser.add_argument("--list", action="store_true", help="print the rows that are selected, and measure nothing")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    return parser.parse_args()


def selected(cases: list[Case], options: argparse.Namespace) -> list[Case]:
    def fits(wanted: list[str] | None, value: str) -> bool:
        return not wanted or value in wanted

    return [
        case
        for case in cases
        if fits(options.family, case.family)
        and fits(options.size, case.size)
        and fits(options.dtype, case.dtype)
        and (not options.name or options.name in case.name)
        and (not options.quick or case.quick)
    ]


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def run(cases: list[Case], threads: list[int], effort: Effort) -> list[Row]:
    rows: list[Row] = []
    done = 0
    for family, of_family in groupby(cases, key=lambda case: case.family):
        first = len(rows)
        for case in of_family:
            done += 1
            progress(f"[{done}/{len(cases)}] {case.title} {case.dtype}")
            rows += measure(case, threads, effort)
        progress("")
        print(report.table(family, rows[first:]), flush=True)
    return rows


def main() -> None:
    options = arguments()
    everything = all_cases()
    cases = selected(everything, options)
    if options.list:
        print("\n".join(f"{case.title} {case.dtype}" for case in cases))
        return
    if not cases:
        sys.exit("no row fits these arguments; --list shows them")
    threads = options.threads or [1, 2]
    rounds = options.rounds or (5 if options.quick else 9)
    effort = Effort(rounds=rounds, seconds=1.0 if options.quick else 1.5)
    keep_freed_memory()
    start = time.perf_counter()
    rows = run(cases, threads, effort)
    seconds = time.perf_counter() - start
    print(report.bars_table(report.judge_all(rows), report.judge_compile(rows)))
    if len(cases) < len(everything):
        print(f"\nThese are {len(cases)} of {len(everything)} rows: the bars are judged by all.")
    print(f"\nratio: torch's time / Tenon's, the median of up to {rounds} rounds; {seconds:.0f} s in all")
    if any(row.disturbed for row in rows):
        print("~: other processes took the CPUs, and no bar counts the row; measure it again when it is quiet")
    if options.json:
        settings = {"threads": threads, "rounds": rounds, "measured": len(cases), "of": len(everything)}
        options.json.write_text(json.dumps(report.as_json(rows, settings, seconds), indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("TENON_CACHE", "off")  # what is compiled here is compiled, not found
    main()
