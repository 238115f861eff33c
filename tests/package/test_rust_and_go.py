"""The examples in Rust and Go: each builds over the installed C interface, runs a model, and handles errors."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/1.0"
BUILD_COMMANDS = {
    "rust": ["cargo", "build", "--offline", "--quiet", "--config", 'build.rustflags=["-Dwarnings"]'],
    "go": ["go", "build", "-o", "target/debug/run_model", "."],
}


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False, **options)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Where pkg-config finds the runtime."""
    prefix = tmp_path_factory.mktemp("prefix")
    installed = run("cmake", "--install", ROOT / "build", "--component", "runtime", "--prefix", prefix)
    assert installed.returncode == 0, installed.stderr
    (file,) = prefix.rglob("tenon.pc")
    return file.parent


@pytest.fixture(scope="module", params=["rust", "go"])
def program(request, packages, tmp_path_factory):
    language = request.param
    if shutil.which(BUILD_COMMANDS[language][0]) is None:
        pytest.skip(f"there is no {BUILD_COMMANDS[language][0]}")
    folder = tmp_path_factory.mktemp(language) / "example"
    shutil.copytree(ROOT / "examples" / language, folder)
    places = {"PKG_CONFIG_PATH": str(packages), "CGO_LDFLAGS": f"-Wl,-rpath,{packages.parent}", "GOFLAGS": "-mod=mod"}
    built = run(*BUILD_COMMANDS[language], cwd=folder, env=os.environ | places)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "target/debug/run_model"


def test_it_runs_a_model(program):
    told = run(program, GOLDEN / "mlp.tenon")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines() == [
        "mlp, by Tenon 0.1.0",
        "input x: f32[2, 16]",
        "output out0: f32[2, 4]",
        "  shape 2 4, sum 2.000",
    ]


def test_it_reads_integers_and_sizes_that_only_the_run_knows(program):
    told = run(program, GOLDEN / "library.tenon").stdout
    assert "output out1: i64[3, 6]\n  shape 3 6, sum 45.000" in told
    assert "output out2: i64[K, 2]\n  shape 16 2," in told


def test_it_handles_errors(program, tmp_path):
    damaged = tmp_path / "damaged.tenon"
    damaged.write_bytes((GOLDEN / "mlp.tenon").read_bytes()[:-1])
    for arguments, message in (
        ([damaged], f"{re.escape(str(damaged))}: the file is damaged.* \\(status 2\\)"),
        ([GOLDEN / "symbolic.tenon", "5"], r"dimension 0 of input 'pairs' must be .* \(status 1\)"),
    ):
        told = run(program, *arguments)
        assert told.returncode == 1
        assert re.fullmatch(f"{message}\n", told.stderr), told.stderr


def test_it_says_how_it_is_called(program):
    told = run(program)
    assert (told.returncode, told.stderr) == (2, "usage: run_model model.tenon [SIZE]\n")
