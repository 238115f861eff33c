"""What CMake says where Tenon cannot be built: at once, not after minutes of compiling."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def refusal(folder, *options):
    """The text of the error."""
    command = ["cmake", "-S", ROOT, "-B", folder, "-DTENON_PYTHON=OFF", "-DTENON_TESTS=OFF", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout
    return " ".join(done.stderr.split())


def test_llvm_that_is_missing(tmp_path):
    told = refusal(tmp_path, "-DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON")
    assert "Tenon needs the libraries of LLVM 19 to build, and did not find them: install llvm-19-dev" in told


@pytest.mark.parametrize("version", ["14.0.6", "18.1.8", "20.1.2", "22.1.8"])
def test_llvm_of_another_version(tmp_path, version):
    """As on a machine where only that version is: the root path hides the others."""
    (tmp_path / "LLVMConfig.cmake").touch()
    version_file = tmp_path / "LLVMConfigVersion.cmake"
    version_file.write_text(f"set(PACKAGE_VERSION {version})\nset(PACKAGE_VERSION_COMPATIBLE FALSE)\n")
    hidden = [f"-DCMAKE_FIND_ROOT_PATH={tmp_path}", "-DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY"]
    places = [f"-D{name}_DIR=/usr/lib/x86_64-linux-gnu/cmake/{name}" for name in ("fmt", "simdjson")]
    told = refusal(tmp_path / "build", f"-DLLVM_DIR={tmp_path}", *hidden, *places)
    assert f"did not find them (only {version}, whose interfaces differ): install" in told


@pytest.mark.parametrize("targets", ["WebAssembly", "X86;Arm"])
def test_targets_of_llvm_that_make_no_sense(tmp_path, targets):
    told = refusal(tmp_path, f"-DTENON_LLVM_TARGETS={targets}")
    assert f'TENON_LLVM_TARGETS is "{targets}"; it can have X86;AArch64;WebAssembly;NVPTX, and has to have X86' in told


@pytest.mark.parametrize(
    ("real", "pretence"),
    [("g++", "-U__GNUC__ -D__GNUC__=11"), ("clang++-19", "-U__clang_major__ -D__clang_major__=15")],
)
def test_a_compiler_that_is_too_old(tmp_path, real, pretence):
    old = tmp_path / "old"
    old.write_text(f'#!/bin/sh\nexec {real} -Wno-builtin-macro-redefined {pretence} "$@"\n')
    old.chmod(0o755)
    told = refusal(tmp_path / "build", f"-DCMAKE_CXX_COMPILER={old}")
    assert f"Tenon is written in C++20, which {old} 1" in told
    assert "take g++ 12 or clang" in told
