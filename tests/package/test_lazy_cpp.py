"""PyTorch's device "lazy" in C++ programs: a project outside of the tree builds them, and no Python is in them."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"


def done(*command, **options):
    finished = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=900, check=False, **options
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Takes minutes: PyTorch's headers are large."""
    prefix, folder = tmp_path_factory.mktemp("prefix"), tmp_path_factory.mktemp("build")
    for component in ("compiler", "lazy"):
        done("cmake", "--install", BUILD, "--component", component, "--prefix", prefix)
    places = f"{prefix};{torch.utils.cmake_prefix_path}"
    options = [f"-DCMAKE_PREFIX_PATH={places}", "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra -Werror"]
    done("cmake", "-S", ROOT / "tests/package/lazy", "-B", folder, *options)
    done("cmake", "--build", folder, "--parallel", 2)
    return folder


def test_the_example_trains(programs):
    told = done(programs / "lazy_project/circle")
    first, last = map(float, re.match(r"loss ([\d.]+), after 200 steps ([\d.]+)", told).groups())
    assert last < first / 2
    assert re.search(r"^fallbacks +0$", told, re.MULTILINE)
    assert re.search(r"^torchscript_runs +0$", told, re.MULTILINE)


@pytest.mark.parametrize("work", ["train", "shapes", "threads", "long", "memory", "fallback", "failure", "random"])
def test_a_program(programs, work):
    done(programs / "lazy_program", work)


def test_ordinals_are_devices(programs):
    plugins = {"TENON_PLUGINS": str(BUILD / "accelerators/loopback.so")}
    done(programs / "lazy_program", "devices", env=os.environ | plugins)


def test_no_python_is_linked(programs):
    libraries = done("ldd", programs / "lazy_program")
    assert "libtorch_cpu" in libraries
    assert "libtenon_compiler" in libraries
    assert "libpython" not in libraries
    assert "torch_python" not in libraries


def test_a_project_without_the_component_is_told(tmp_path):
    prefix = tmp_path / "prefix"
    done("cmake", "--install", BUILD, "--component", "compiler", "--prefix", prefix)
    command = ["cmake", "-S", ROOT / "examples/lazy_project", "-B", tmp_path / "build"]
    command += [f"-DCMAKE_PREFIX_PATH={prefix};{torch.utils.cmake_prefix_path}"]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert failed.returncode != 0
    assert "lazy is not installed" in " ".join(failed.stderr.split())
