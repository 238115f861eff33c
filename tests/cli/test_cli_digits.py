"""Handwritten digits, from the command line: the bar is 98% of the test images right, in a minute of two CPUs."""

import json
import resource
import subprocess
import sys

from cli_binary import ROOT, TENON

LEAST_ACCURACY = 0.98
MOST_SECONDS = 120  # of the processor: the machine may be busy


def cpu_seconds():
    """Of all commands that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_a_cnn_learns_digits(tmp_path):
    subprocess.run([sys.executable, ROOT / "examples/digits.py", tmp_path], check=True)

    def tenon(*arguments):
        done = subprocess.run(
            [TENON, *map(str, arguments)], cwd=tmp_path, env={}, check=True, capture_output=True, text=True
        )
        return json.loads(done.stdout)

    before = cpu_seconds()
    tenon(
        *("compile", "cnn.pt2", "-o", "cnn.tenon", "--train", "--json"),
        *("--loss", "cross_entropy", "--optimizer", "adamw(lr=2e-3, schedule=cosine(460))"),
    )
    told = tenon(
        *("train", "cnn.tenon", "--data", "train.npz", "--validate", "test.npz", "--epochs", 20, "--batch", 64),
        *("--checkpoint", "run", "--json"),
    )
    accuracy, seconds = told["epochs"][-1]["accuracy"], cpu_seconds() - before
    print(f"digits: {100 * accuracy:.2f}% of the test images, in {seconds:.1f} s of the processor")
    assert accuracy >= LEAST_ACCURACY
    assert seconds < MOST_SECONDS
