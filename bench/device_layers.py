"""BERT with every second layer on accelerators/loopback: how often values cross, and how many transfers that takes.

    make bench-device-layers

Exports BERT-base of `transformers` with random weights; bench/device_layers.cpp compiles and measures it.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from tests.python import zoo

ROOT = Path(__file__).parents[1]


def measured(small: bool, folder: Path) -> subprocess.CompletedProcess[str]:
    model = zoo.bert(small)
    path = folder / "bert.pt2"
    torch.export.save(torch.export.export(model.module, model.args), path)
    command = [ROOT / "build/bin/bench_device_layers", path, ROOT / "build/accelerators/loopback.so"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-device-layers", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a BERT of two small layers")
    with tempfile.TemporaryDirectory() as folder:
        found = measured(parser.parse_args().small, Path(folder))
    print(found.stdout + found.stderr, end="")
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
