"""The tarball of the runtime that C programs link statically (`make dist`)."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests/golden/1.0/mlp.tenon"
MOST_BYTES = 450_000
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(Tenon 0.1 REQUIRED)
add_executable(by_cmake {source})
target_link_libraries(by_cmake PRIVATE Tenon::runtime)
"""


def output(*command, **options):
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    output(ROOT / "tools/dist.sh", ROOT / "build", folder)
    (made,) = folder.glob("tenon-runtime-*.tar.xz")
    return made


@pytest.fixture(scope="module")
def unpacked(tarball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(tarball) as archive:
        archive.extractall(folder, filter="data")
    (prefix,) = folder.iterdir()
    return prefix


def test_it_is_small(tarball):
    assert tarball.stat().st_size <= MOST_BYTES


def test_what_is_in_it(unpacked):
    names = {path.name for path in unpacked.rglob("*") if path.is_file()}
    assert names == {
        "libtenon_runtime.a", "tenon.h", "tenon.hpp", "device.h", "device_debug.h", "tenon.pc",
        "TenonConfig.cmake", "TenonConfigVersion.cmake", "TenonStaticTargets.cmake", "TenonStaticTargets-release.cmake",
        "LICENSE", "NOTICES.txt", "run_model.c",
    }  # fmt: skip


@pytest.mark.parametrize("more", [[], ["-static"]], ids=["library", "everything"])
def test_a_c_program_links_it(unpacked, tmp_path, more):
    (packages,) = unpacked.rglob("pkgconfig")
    environment = os.environ | {"PKG_CONFIG_PATH": str(packages)}
    flags = output("pkg-config", "--static", "--cflags", "--libs", "tenon", env=environment).split()
    source = unpacked / "share/tenon/run_model.c"
    # A program that is wholly static cannot load plug-ins, which the linker warns of.
    output("cc", "-std=c11", source, "-o", tmp_path / "program", *flags, "-Wl,--gc-sections", *more)
    assert "shape 2 4, sum 2" in output(tmp_path / "program", MODEL)
    (tmp_path / "damaged.tenon").write_bytes(MODEL.read_bytes()[:-1])
    done = subprocess.run([tmp_path / "program", "damaged.tenon"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"damaged.tenon" in done.stderr  # exceptions find their way
    libraries = subprocess.run(["ldd", tmp_path / "program"], capture_output=True, text=True, check=False).stdout
    assert "tenon" not in libraries
    assert bool(re.search(r"libc\.so", libraries)) == (not more)


def test_only_the_c_interface_can_be_linked(unpacked):
    (archive,) = unpacked.rglob("libtenon_runtime.a")
    names = {line.split()[-1] for line in output("nm", "-g", "--defined-only", archive).splitlines() if " " in line}
    assert "tenon_run" in names
    assert all(name.startswith("tenon_") for name in names), names


def test_a_cmake_project_links_it(unpacked, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(source=unpacked / "share/tenon/run_model.c"))
    output("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={unpacked}")
    output("cmake", "--build", tmp_path / "build")
    assert "shape 2 4, sum 2" in output(tmp_path / "build/by_cmake", MODEL)
