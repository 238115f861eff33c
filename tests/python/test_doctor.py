"""python -m tenon doctor and demo, and the warning about versions of PyTorch."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tenon import pytorch_version

from tests.python import warm

ROOT = Path(__file__).parents[2]


def environment_of(variables):
    environment = {name: value for name, value in os.environ.items() if name not in ("TENON_PLUGINS", "CXX")}
    environment["PATH"] = f"{ROOT}/build/bin:{environment['PATH']}"
    return environment | {name: str(value) for name, value in variables.items()}


def run(*arguments, before=None, **variables):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment_of(variables),
        preexec_fn=before,
        capture_output=True,
        text=True,
        check=False,
    )


DOCTOR = "import runpy, sys; sys.argv = ['tenon', 'doctor']; runpy.run_module('tenon', run_name='__main__')"


def doctor(cache, **variables):
    return warm.run(DOCTOR, env=environment_of(variables | {"TENON_CACHE": cache}))


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


def test_a_machine_where_all_is_well(cache):
    done = doctor(cache)
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        r"Tenon +0\.\d+\.\d+, in /",
        rf"Python +{sys.version_info.major}\.{sys.version_info.minor}",
        rf"PyTorch +{re.escape(torch.__version__)}, supported",
        r"On PATH +/.*/tenon",
        r"LLVM +\d+\.\d+\.\d+, inside of Tenon",
        r"CPU +.+, \d+ threads; code for \S+, vectors of \d+ bytes",
        r"Features +.*\bavx",
        r"GPU +\w",
        rf"Cache +{re.escape(str(cache))}: 0 files, 0\.0 MiB",
        r"Plug-ins +none \(TENON_PLUGINS is not set\); devices: none",
        r"A kernel +compiled, and ran in \d+ ms",
        r"no problems",
    ):
        assert re.search(f"^{line}", done.stdout, re.MULTILINE), line


def test_the_cache_is_counted(cache):
    (cache / "one").write_bytes(b"x" * (3 << 19))
    assert "1 files, 1.5 MiB" in doctor(cache).stdout


def assert_problem(done, name, problem, remedy):
    assert done.returncode == 1
    assert re.search(rf"^1 problem\n- {name}: .*{problem}.*\n  remedy: .*{remedy}", done.stdout, re.MULTILINE), done


def test_a_cache_that_others_can_write_to(cache):
    cache.chmod(0o777)
    assert_problem(doctor(cache), "Cache", "others can write to it", f"chmod go-w {cache}")


def test_a_cache_that_is_off():
    assert_problem(doctor("off"), "Cache", "nothing is kept", "TENON_CACHE")


def test_a_cache_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    assert_problem(doctor(tmp_path / "file/cache"), "Cache", "cannot be written", "TENON_CACHE")


def test_a_cache_on_a_disk_that_is_full(cache):
    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = run("-m", "tenon", "doctor", before=no_room, TENON_CACHE=cache)
    assert_problem(done, "Cache", "cannot be written, so nothing is kept: File too large", "make room")


def test_a_cache_that_is_not_made_yet(tmp_path):
    assert "made when the first kernel is compiled" in doctor(tmp_path / "later").stdout


def test_a_plugin_that_is_missing(cache):
    assert_problem(doctor(cache, TENON_PLUGINS="/nowhere/npu.so"), "Plug-ins", "/nowhere/npu.so", "TENON_PLUGINS")


def test_devices_of_plugins_are_listed(cache):
    done = doctor(cache, TENON_PLUGINS=ROOT / "build/accelerators/loopback.so")
    assert "devices: loopback" in done.stdout
    assert done.returncode == 0


def test_a_cpu_without_wide_vectors(cache):
    assert_problem(doctor(cache, TENON_CPU="x86-64-v2"), "CPU", "no AVX2", "unset TENON_CPU")


def test_a_cpu_that_nobody_knows(cache):
    done = doctor(cache, TENON_CPU="pentium")
    assert_problem(done, "CPU", "there is no CPU 'pentium'", "correct TENON_CPU")
    assert re.search(r"^A kernel +compiled", done.stdout, re.MULTILINE)


def test_a_compiler_that_is_not_there(cache):
    assert_problem(doctor(cache, CXX="g++-3 -m64"), "Compiler", "CXX names 'g..-3'", "correct CXX")


def test_no_compiler_is_no_problem(cache):
    done = doctor(cache, PATH="/nowhere")
    assert done.returncode == 0
    assert 'Compiler   none: device "lazy" of PyTorch would need one' in done.stdout
    assert "On PATH    no tenon; python -m tenon COMMAND runs" in done.stdout


def test_a_command_line_of_another_installation(cache, tmp_path):
    other = tmp_path / "tenon"
    other.write_text("#!/bin/sh\necho tenon 0.0.1\n")
    other.chmod(0o755)
    done = doctor(cache, PATH=f"{tmp_path}:/bin")
    assert_problem(done, "On PATH", "another installation: tenon 0.0.1", "python -m tenon COMMAND")


def test_a_pytorch_that_cannot_be_imported(cache, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    problem = "it cannot be imported: ImportError: libgomp.so.1: cannot open"
    done = run("-m", "tenon", "doctor", TENON_CACHE=cache, PYTHONPATH=path)
    assert_problem(done, "PyTorch", problem, "pip install --force-reinstall torch")


def test_a_check_that_fails_is_a_finding(cache):
    then = "import sys, tenon.doctor; tenon.doctor._cpu_model = lambda: 1 / 0; sys.exit(tenon.doctor.main())"
    done = warm.run(then, env=environment_of({"TENON_CACHE": cache}))
    assert_problem(done, "cpu", "ZeroDivisionError: division by zero", "report this")


AS_IF = """
import importlib.metadata, runpy, sys
real = importlib.metadata.version
def version(name):
    if name != "torch":
        return real(name)
    if not {version!r}:
        raise importlib.metadata.PackageNotFoundError(name)
    return {version!r}
importlib.metadata.version = version
{then}
"""


def as_if(version, then, **variables):
    return run("-c", AS_IF.format(version=version, then=then), **variables)


def test_a_version_of_pytorch_that_is_not_supported(cache):
    done = as_if("2.8.0+cpu", DOCTOR, TENON_CACHE=cache)
    assert_problem(
        done, "PyTorch", "PyTorch 2.8.0.cpu is not supported: nothing is known to break", "pip install 'torch==2.13"
    )


def test_no_pytorch(cache):
    done = as_if("", DOCTOR, TENON_CACHE=cache)
    assert_problem(done, "PyTorch", "models of PyTorch cannot be compiled", "pip install 'torch==2.13")


@pytest.mark.parametrize(
    "door",
    ["tenon.compile; tenon.load", "tenon.LocalTrainingInstance", "import tenon.torch_backend", "import tenon.lazy"],
)
def test_front_doors_warn_once_of_a_version_that_is_not_supported(door):
    done = as_if("2.8.0", f"import tenon; {door}")
    assert done.returncode == 0
    assert done.stderr.count("PyTorch 2.8.0 is not supported: nothing is known to break") == 1


def test_the_warning_comes_before_an_import_that_fails():
    done = as_if("2.8.0", "import tenon, torch; del torch._C._len_torch_function_stack; tenon.compile")
    assert done.returncode == 1
    assert "PyTorch 2.8.0 is not supported" in done.stderr.partition("Traceback")[0]


def test_what_needs_no_pytorch_does_not_warn():
    done = as_if("2.8.0", "import tenon; tenon.Graph('g')")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_pinned_version_is_supported():
    (pinned,) = re.findall(r"^torch==(\S+)", (ROOT / "python/requirements-dev.txt").read_text(), re.MULTILINE)
    assert pytorch_version.release_of(pinned) == pytorch_version.TESTED
    assert pytorch_version.problem_of(pinned) is None


def test_supported_versions_are_those_that_passed():
    """In the table that `make versions` wrote."""
    page = (ROOT / "docs/install.md").read_text()
    rows = re.findall(r"^\| (\d+\.\d+) \| \S+ ((?:\| [^|]+)+)\|$", page.partition("<!-- make versions -->")[2], re.M)
    passed = tuple(version for version, cells in rows if set(cells.replace("|", " ").split()) == {"yes"})
    assert passed == pytorch_version.SUPPORTED
    assert f"| PyTorch | {passed[0]} to {passed[-1]} |" in page


def test_the_demo(cache):
    done = run("-W", "error::DeprecationWarning:tenon", "-m", "tenon", "demo", "--layers", "2", TENON_CACHE=cache)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Segment 0: cpu \(\d+ ops, \d+ kernels\)$", done.stdout, re.MULTILINE)
    assert re.search(r"^time of a call +[\d.]+ ms, eager [\d.]+ ms", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("hidden", "packages"),
    [(["transformers"], "transformers"), (["torch", "transformers"], "'torch==2.13.*' transformers")],
)
def test_the_demo_says_what_it_needs(hidden, packages):
    hide = "import sys, importlib.util as u; f = u.find_spec; "
    hide += f"u.find_spec = lambda name: None if name in {hidden} else f(name); "
    done = run(
        "-c", hide + "import runpy; sys.argv = ['tenon', 'demo']; runpy.run_module('tenon', run_name='__main__')"
    )
    assert done.returncode == 1
    assert done.stderr.endswith(f"run: pip install {packages}\n")


def test_other_commands_are_those_of_the_command_line():
    done = run("-m", "tenon", "ops", "softmax")
    assert done.returncode == 0
    assert "softmax" in done.stdout
    assert run("-m", "tenon", "nosuch").returncode == 2
    assert "doctor" in run("-m", "tenon").stdout
