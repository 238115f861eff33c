"""The libraries as others get them: what is in them, and that programs build with them outside of this tree."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
LIBRARY = BUILD / "lib/libtenon_runtime.so"
MODEL = ROOT / "tests/golden/1.0/mlp.tenon"
SYMBOLIC = ROOT / "tests/golden/1.0/symbolic.tenon"
LIBRARY_MODEL = ROOT / "tests/golden/1.0/library.tenon"
MOST_BYTES = 400_000


def output(*command, **options):
    done = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# ---- what is in the library -----------------------------------------------------------------------------------------


def test_the_library_is_small():
    assert "no symbols" in output("nm", LIBRARY)
    assert LIBRARY.stat().st_size <= MOST_BYTES


def test_it_needs_only_the_system():
    needed = re.findall(r"^\s*(\S+?)(?:\.so\S*)? ", output("ldd", LIBRARY), re.MULTILINE)
    assert {Path(name).name for name in needed} <= {
        "linux-vdso", "libc", "libm", "libstdc++", "libgcc_s", "ld-linux-x86-64"
    }  # fmt: skip


def exported():
    lines = output("nm", "--dynamic", "--defined-only", LIBRARY).splitlines()
    return {line.split()[-1] for line in lines}


def test_it_exports_what_the_headers_declare_and_nothing_else():
    header = "".join((ROOT / f"include/tenon/{name}.h").read_text() for name in ("tenon", "device"))
    declared = set(re.findall(r"^TENON_API [^;]*?\b(tenon_\w+)\(", header, re.MULTILINE))
    assert len(declared) > 20
    assert exported() == declared


def test_no_compiler_is_in_it():
    symbols = output("nm", "--dynamic", LIBRARY)
    assert "llvm" not in symbols.lower()


# ---- programs that use it -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    output("cmake", "--install", BUILD, "--component", "runtime", "--prefix", folder)
    return folder


def installed_library_folder(prefix):
    (library,) = prefix.glob("lib*/**/libtenon_runtime.so")
    return library.parent


def test_only_the_runtime_is_installed(prefix):
    names = {path.name for path in prefix.rglob("*") if path.is_file()}
    assert names == {
        "tenon.h", "tenon.hpp", "device.h", "device_debug.h", "cuda.h", "libtenon_cuda.so", "tenon.pc",
        "TenonConfig.cmake", "TenonConfigVersion.cmake", "TenonTargets.cmake", "TenonTargets-release.cmake",
        *(path.name for path in prefix.rglob("libtenon_runtime.so*")),
    }  # fmt: skip


PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_C_STANDARD 11)
find_package(Tenon 0.1 REQUIRED)
add_executable(c_program run_model.c)
add_executable(cpp_program run_model.cpp)
add_executable(train_program train_model.cpp)
foreach(program c_program cpp_program train_program)
  target_link_libraries(${program} PRIVATE Tenon::runtime)
  target_compile_options(${program} PRIVATE -Wall -Wextra -Wpedantic -Werror)
endforeach()
"""


@pytest.fixture(scope="module")
def by_cmake(prefix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "CMakeLists.txt").write_text(PROJECT)
    for name in ("run_model.c", "run_model.cpp", "train_model.cpp"):
        (folder / name).write_text((ROOT / "examples" / name).read_text())
    output("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    output("cmake", "--build", folder / "build")
    return folder / "build"


@pytest.fixture(scope="module")
def by_pkg_config(prefix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pkg-config")
    library_folder = installed_library_folder(prefix)
    environment = os.environ | {"PKG_CONFIG_PATH": str(library_folder / "pkgconfig")}
    flags = output("pkg-config", "--cflags", "--libs", "tenon", env=environment).split()
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-Wl,-rpath,{library_folder}"]
    output("cc", "-std=c11", *strict, ROOT / "examples/run_model.c", "-o", folder / "c_program", *flags)
    for name, program in (("run_model", "cpp_program"), ("train_model", "train_program")):
        output("c++", "-std=c++20", *strict, ROOT / f"examples/{name}.cpp", "-o", folder / program, *flags)
    return folder


EXPECTED = """\
mlp, by Tenon 0.1.0
input x: f32[2, 16]
output out0: f32[2, 4]
  shape 2 4, sum 2
"""


@pytest.mark.parametrize("how", ["by_cmake", "by_pkg_config"])
@pytest.mark.parametrize("program", ["c_program", "cpp_program"])
def test_programs_run_a_model(how, program, request):
    binary = request.getfixturevalue(how) / program
    assert output(binary, MODEL) == EXPECTED
    assert "output out2: i64[K, 2]\n  shape 16 2," in output(binary, LIBRARY_MODEL)


CLASSIFIER = """
graph classifier(%x: f32[N, 4]) {
  symbol N in [1, 1024]
  %weight: f32[3, 4] = parameter "weight"
  %bias: f32[3] = parameter "bias"
  %scores: f32[N, 3] = linear(%x, %weight, %bias)
  return %scores
}
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A folder with a model that trains, and three classes that can be told apart."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "classifier.tg").write_text(CLASSIFIER)
    arguments = ["--random-params", 1, "--train", "--loss", "cross_entropy", "--optimizer", "adamw(lr=0.02)"]
    output(BUILD / "bin/tenon", "compile", "classifier.tg", *arguments, "-o", "classifier.tenon", cwd=folder)
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, 200)
    np.save(folder / "x.npy", (rng.normal(size=(200, 4)) * 0.3 + np.eye(4)[target]).astype(np.float32))
    np.save(folder / "target.npy", target)
    return folder


@pytest.mark.parametrize("how", ["by_cmake", "by_pkg_config"])
def test_a_program_trains_a_model(how, request, training):
    binary = request.getfixturevalue(how) / "train_program"

    def losses():
        lines = output(binary, "classifier.tenon", "x.npy", "target.npy", 10, f"{how}.states", cwd=training)
        return [float(line.split()[-1]) for line in lines.splitlines()]

    first, second = losses(), losses()
    assert len(first) == 11
    assert first[-1] < first[0] / 2
    assert second[0] < first[0] / 2  # it went on from the checkpoint
    assert second[-1] < first[-1]
    told = output(BUILD / "bin/tenon", "verify", f"{how}.states", cwd=training)
    assert "optimizer.exp_avg.weight" in told


def test_a_program_that_trains_tells_what_is_wrong(by_pkg_config, training):
    (training / "damaged.states").write_bytes(b"no states")
    done = subprocess.run(
        [by_pkg_config / "train_program", "classifier.tenon", "x.npy", "target.npy", "1", "damaged.states"],
        cwd=training,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "damaged.states" in done.stderr


@pytest.mark.parametrize("program", ["c_program", "cpp_program"])
def test_programs_tell_what_is_wrong(by_pkg_config, program, tmp_path):
    damaged = tmp_path / "damaged.tenon"
    damaged.write_bytes(MODEL.read_bytes()[:-1])
    for arguments, message in (([damaged], str(damaged)), ([SYMBOLIC, "5"], "of input 'pairs' must be")):
        done = subprocess.run(
            [by_pkg_config / program, *arguments], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 1
        assert message in done.stderr


# ---- programs that compile ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiler_prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiler")
    output("cmake", "--install", BUILD, "--component", "compiler", "--prefix", folder)
    return folder


def test_headers_of_the_compiler_need_no_other_library(compiler_prefix):
    headers = [path for path in compiler_prefix.rglob("*") if path.suffix in (".h", ".inc")]
    included = {name for path in headers for name in re.findall(r"^#include <([^>]+)>", path.read_text(), re.MULTILINE)}
    assert len(headers) > 40
    assert not [name for name in included if "/" in name or name == "dlfcn.h"], included


def test_the_allocator_of_the_docs_can_be_linked():
    """Tasks by hand share a budget through it. All else of the runtime is hidden."""
    symbols = output("nm", "--dynamic", "--defined-only", "--demangle", BUILD / "lib/libtenon_compiler.so")
    assert " tenon::runtime::Allocator::allocate(long)" in symbols
    assert " tenon::runtime::Context::run()" not in symbols


def build_example(compiler_prefix, folder):
    arguments = [f"-DCMAKE_PREFIX_PATH={compiler_prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"]
    output("cmake", "-S", ROOT / "examples/compiler_project", "-B", folder, *arguments)
    output("cmake", "--build", folder)
    return folder / "classifier"


def test_a_project_outside_of_the_tree_compiles_models(compiler_prefix, tmp_path):
    classifier = build_example(compiler_prefix, tmp_path / "build")
    told = output(classifier, tmp_path / "classifier.tenon")
    assert "64 of 64 points are right" in told
    assert re.search(r"input +x +f32\[N, 2\]", output(BUILD / "bin/tenon", "inspect", tmp_path / "classifier.tenon"))


def test_a_component_that_is_not_installed_is_named(prefix, tmp_path):
    done = subprocess.run(
        ["cmake", "-S", ROOT / "examples/compiler_project", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "compiler is not installed" in " ".join(done.stderr.split())
