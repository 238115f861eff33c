"""What `python -m tenon doctor` prints: what this machine has for Tenon, and what is wrong with a remedy for each."""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import functools
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import tenon
from tenon import _tenon, loops, pytorch_version
from tenon.cache_folder import cache_folder

_MIB = 1 << 20
_WIDTH = 10


@dataclasses.dataclass
class Finding:
    name: str
    text: str
    problem: str | None = None
    remedy: str | None = None


def main(arguments: Sequence[str] = ()) -> int:
    """Returns the exit code: 1 if there are problems."""
    parser = argparse.ArgumentParser(
        "python -m tenon doctor",
        description="What this machine has for Tenon, and what is wrong. Exits with 1 if so.",
        epilog="Example: python -m tenon doctor > report.txt    to send along with a bug report",
    )
    parser.parse_args(arguments)
    findings = [_finding(check) for check in CHECKS]
    for finding in findings:
        print(f"{finding.name:<{_WIDTH}} {finding.text}")
    problems = [finding for finding in findings if finding.problem]
    print(f"\n{len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}")
    for finding in problems:
        print(f"- {finding.name}: {finding.problem}\n  remedy: {finding.remedy}")
    return 1 if problems else 0


def _finding(check: Callable[[], Finding]) -> Finding:
    """A check that fails is a finding, too: a machine that is broken in another way still gets its report."""
    try:
        return check()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        return Finding(check.__name__.strip("_"), "could not be checked", problem, "report this with the lines above")


# ---- versions -------------------------------------------------------------------------------------------------------


def _tenon_itself() -> Finding:
    return Finding("Tenon", f"{tenon.__version__}, in {Path(tenon.__file__).parent}")


def _python() -> Finding:
    return Finding("Python", f"{platform.python_version()}, {sys.executable}")


def _llvm() -> Finding:
    return Finding("LLVM", f"{_host()[0]['llvm']}, inside of Tenon")


def _command_line() -> Finding:
    """Another installation may come first on the PATH."""
    path = shutil.which("tenon")
    if path is None:
        return Finding("On PATH", "no tenon; python -m tenon COMMAND runs its commands")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if done.stdout.strip() == f"tenon {tenon.__version__}":
        return Finding("On PATH", path)
    told = (done.stdout + done.stderr).strip() or f"it ended with {done.returncode}"
    remedy = f"remove it, or run python -m tenon COMMAND, which is {tenon.__version__}"
    return Finding("On PATH", path, f"it is of another installation: {told}", remedy)


def _pytorch() -> Finding:
    version = pytorch_version.installed()
    supported = f"{pytorch_version.SUPPORTED[0]} to {pytorch_version.SUPPORTED[-1]}"
    install = f"pip install 'torch=={pytorch_version.TESTED}.*'"
    if version is None:
        missing = "models of PyTorch cannot be compiled; graphs and the command line work without it"
        return Finding("PyTorch", f"not installed; supported: {supported}", missing, install)
    if problem := pytorch_version.problem_of(version):
        return Finding("PyTorch", version, problem, install)
    if problem := _import_problem():
        return Finding("PyTorch", version, problem, "pip install --force-reinstall torch, or what the message names")
    return Finding("PyTorch", f"{version}, supported")


def _import_problem() -> str | None:
    """In a process of its own: an import that fails may end it."""
    command = [sys.executable, "-c", "import torch, tenon; tenon.compile"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    last_line = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    return f"it cannot be imported: {last_line}"


# ---- this machine ---------------------------------------------------------------------------------------------------


@functools.cache
def _host() -> tuple[dict[str, str], str | None]:
    """What code is for, and what is wrong with TENON_CPU: the other checks then go on without it."""
    try:
        return _tenon.host(), None
    except tenon.Error as error:
        del os.environ["TENON_CPU"]
        return _tenon.host(), error.message


def _cpu() -> Finding:
    host, problem = _host()
    threads = _tenon.threads()
    text = f"{_cpu_model()}, {threads} threads; code for {host['cpu']}, vectors of {host['vector_bytes']} bytes"
    if problem:
        return Finding("CPU", text, f"TENON_CPU: {problem}", "correct TENON_CPU, or unset it")
    if int(host["vector_bytes"]) >= 32:
        return Finding("CPU", text)
    slow = "it has no AVX2, or TENON_CPU names a CPU without: kernels are several times slower"
    return Finding("CPU", text, slow, "unset TENON_CPU, or use a CPU with AVX2 (x86-64-v3)")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _features() -> Finding:
    return Finding("Features", " ".join(sorted(_host()[0]["features"].split(","))))


def _gpu() -> Finding:
    """Opens device "cuda". A machine need not have one."""
    try:
        tenon.to_device(tenon.Tensor(0.0), "cuda")
    except tenon.Error as error:
        return Finding("GPU", f'none for device "cuda": {error.message.removeprefix("device cuda: ")}')
    return Finding("GPU", f'device "cuda" works: {_gpu_names()}')


def _gpu_names() -> str:
    driver = ctypes.CDLL(os.environ.get("TENON_CUDA_DRIVER") or "libcuda.so.1")
    count, version, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    driver.cuDeviceGetCount(ctypes.byref(count))
    driver.cuDriverGetVersion(ctypes.byref(version))
    names = []
    for number in range(count.value):
        driver.cuDeviceGetName(name, len(name), number)
        names.append(name.value.decode())
    return f"{', '.join(names)}, with a driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"


# ---- settings -------------------------------------------------------------------------------------------------------


def _cache() -> Finding:
    folder = cache_folder()
    if folder is None:
        missing = "nothing is kept: each process compiles its kernels again"
        return Finding("Cache", "off", missing, "unset TENON_CACHE, or set it to a folder of your own")
    remedy = f"chmod go-w {folder}, or set TENON_CACHE to a folder of your own"
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if problem := _write_problem(existing):
        problem = f"{existing} cannot be written, so nothing is kept: {problem}"
        return Finding("Cache", str(folder), problem, "make room, or set TENON_CACHE to a folder of your own")
    if existing != folder:
        return Finding("Cache", f"{folder}, made when the first kernel is compiled")
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = "others can write to it, and what is in it is run, so it is not used"
        return Finding("Cache", str(folder), problem, remedy)
    sizes = [entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()]
    return Finding("Cache", f"{folder}: {len(sizes)} files, {sum(sizes) / _MIB:.1f} MiB")


def _write_problem(folder: Path) -> str | None:
    """By writing: permissions say nothing of disks that are full or read-only."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(bytes(_MIB))
            probe.flush()
    except OSError as error:
        return error.strerror
    return None


def _plugins() -> Finding:
    paths = os.environ.get("TENON_PLUGINS", "")
    try:
        devices = ", ".join(name for name in tenon.devices() if name != "cuda") or "none"
    except tenon.Error as error:
        remedy = "correct TENON_PLUGINS, or unset it; docs/add-a-device.md says how a plug-in is built"
        return Finding("Plug-ins", paths, error.message, remedy)
    return Finding("Plug-ins", f"{paths or 'none (TENON_PLUGINS is not set)'}; devices: {devices}")


def _compiler() -> Finding:
    """Only device "lazy" needs one. The same rules as in lazy/build.py."""
    chosen = shlex.split(os.environ.get("CXX", ""))[:1]
    found = next(filter(None, map(shutil.which, chosen or ("c++", "g++", "clang++"))), None)
    if chosen and not found:
        missing = f"CXX names '{chosen[0]}', which is not there: device \"lazy\" cannot be built"
        return Finding("Compiler", "none", missing, "correct CXX, or unset it")
    if found and not Path(sysconfig.get_path("include"), "Python.h").exists():
        found += ', without headers of Python (python3-dev): device "lazy" of PyTorch would need them'
    return Finding("Compiler", found or 'none: device "lazy" of PyTorch would need one, all else needs none')


# ---- does it work ---------------------------------------------------------------------------------------------------


def _kernel() -> Finding:
    """Compiles a kernel, and compares what it computes."""
    import numpy as np  # imported here, because it takes longer than all of Tenon

    start = time.perf_counter()
    try:
        graph = tenon.Graph("doctor")
        x = graph.input("x", "f32[8]")
        graph.output(x * 2 + 1)
        kernel = loops.compile(loops.schedule(loops.lower(graph)), "cpu")
        (result,) = kernel.run([np.arange(8, dtype=np.float32)])
        is_right = bool(np.all(np.asarray(result) == np.arange(8) * 2 + 1))
    except tenon.Error as error:
        return Finding("A kernel", "does not compile", error.message, "report this with the lines above")
    text = f"compiled, and ran in {(time.perf_counter() - start) * 1e3:.0f} ms"
    if is_right:
        return Finding("A kernel", text)
    return Finding("A kernel", text, "its results are wrong", "report this with the lines above")


CHECKS: list[Callable[[], Finding]] = [
    _tenon_itself, _command_line, _python, _pytorch, _llvm, _cpu, _features, _cache, _plugins, _gpu, _compiler, _kernel,
]  # fmt: skip
