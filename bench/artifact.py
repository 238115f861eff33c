"""What files cost: for each model of the zoo, in its real size, the planned memory beside the least that any plan
needs, and for BERT-base what loading and a first run take more than a steady run, and what a second process adds.

Without Python: bench_artifact runs the file through the C interface.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import tenon

from tests.python import zoo

MODELS = ("bert", "gpt2", "llama", "t5", "vit", "resnet50", "mobilenet_v2", "whisper")
ROUNDS = 9


def measured(path):
    return json.loads(subprocess.run(["build/bin/bench_artifact", path], capture_output=True, check=True).stdout)


def verdict(passes):
    return "PASS" if passes else "MISS"


def plan_of(name, path):
    model = getattr(zoo, name)(small=False)
    tenon.compile(model.module, model.args).save(path)
    weights = sum(tensor.nbytes for tensor in model.module.state_dict().values())
    print(f"{name:14} {os.path.getsize(path):>12,} bytes of file, {weights:>12,} of weights", flush=True)
    result = measured(path)
    ratio = result["arena"] / max(result["arena_least"], 1)
    sizes = f"{result['arena']:>12,} bytes planned, {result['arena_least']:>12,} at least"
    print(f"{name:14} {sizes}: {ratio:.4f}x (at most 1.05) {verdict(ratio <= 1.05)}", flush=True)


def cost_of(path):
    """Rounds, each a process of its own, while another one holds the same file."""
    weights = os.path.getsize(path)
    holder = subprocess.Popen(["build/bin/bench_artifact", path, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    rounds = [measured(path) for _ in range(ROUNDS)]
    holder.communicate()
    extra = statistics.median(r["load_ms"] + r["first_ms"] - r["steady_ms"] for r in rounds)
    first, load = (statistics.median(r[key] for r in rounds) for key in ("first_ms", "load_ms"))
    print(f"BERT-base from a file of {weights:,} bytes: load {load:.1f} ms, first run {first:.1f} ms")
    print(f"  more than a steady run: {extra:.1f} ms (at most 30) {verdict(extra <= 30)}")
    added = statistics.median(r["private"] for r in rounds)
    print(f"  memory of its own: {added / weights:.2%} of the file (at most 10%) {verdict(added < 0.1 * weights)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, help="of the zoo")
    names = parser.parse_args().models
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = str(Path(folder) / "model.tenon")
            plan_of(name, path)
            if name == "bert":
                cost_of(path)


if __name__ == "__main__":
    main()
