"""The wheels of `make wheel`, installed into empty environments outside of the tree. `make test-wheel` runs this."""

import os
import re
import resource
import shlex
import shutil
import subprocess
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MOST_BYTES = 25_000_000
MOST_IMPORT_SECONDS = 0.150
MOST_DEMO_SECONDS = 60
MODEL = ROOT / "tests/golden/1.0/mlp.tenon"
SYSTEM_LIBRARIES = {
    "libc",
    "libm",
    "libdl",
    "libpthread",
    "librt",
    "libstdc++",
    "libgcc_s",
    "ld-linux-x86-64",
    "linux-vdso",
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def output(*command, **options):
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def interpreter(version):
    """A Python of this version that runs; pyenv has a program for each, which need not."""
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in [f"python{version}", *map(str, of_pyenv.glob(f"{version}.*/bin/python3"))]:
        path = shutil.which(name)
        if path and subprocess.run([path, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0:
            return path
    return None


class Installed:
    """A virtual environment with the wheel, in a folder where nothing of this tree is found."""

    def __init__(self, version, folder):
        self.folder = folder
        self.version = version
        python = interpreter(version)
        if python is None:
            pytest.skip(f"there is no Python {version}")
        if not list(DIST.glob("tenon-*.whl")):
            pytest.fail("there are no wheels in dist/; run `make wheel`")
        output(python, "-m", "venv", folder / "venv")
        self.install("--no-index", "--no-deps", "--find-links", DIST, "tenon")
        self.package = next((folder / "venv").glob("lib/python*/site-packages/tenon"))

    def install(self, *arguments):
        output(self.folder / "venv/bin/python", "-m", "pip", "install", "--quiet", *arguments)

    def environment(self, **variables):
        """No variable of the caller's, and no compiler on the PATH."""
        kept = {"HOME": str(self.folder), "TENON_CACHE": str(self.folder / "cache")}
        return kept | {"PATH": str(self.folder / "venv/bin")} | variables

    def run(self, *command, **variables):
        program, *arguments = command
        program = self.folder / "venv/bin" / program
        return output(program, *arguments, cwd=self.folder, env=self.environment(**variables))


@pytest.fixture(scope="module", params=["3.11", "3.12", "3.13"])
def installed(request, tmp_path_factory):
    return Installed(request.param, tmp_path_factory.mktemp(f"python{request.param}"))


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory):
    """Python 3.11, with the PyTorch of the tree's environment."""
    made = Installed("3.11", tmp_path_factory.mktemp("torch"))
    (made.package.parent / "torch-of-the-tree.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def test_wheels_are_small_and_honest():
    wheels = {wheel.name: wheel for wheel in DIST.glob("tenon-*.whl")}
    assert any("-cp311-cp311-manylinux_2_34_x86_64" in name for name in wheels)
    assert any("-cp312-abi3-manylinux_2_34_x86_64" in name for name in wheels)
    for wheel in wheels.values():
        assert wheel.stat().st_size <= MOST_BYTES


def test_notices_are_inside():
    for wheel in DIST.glob("tenon-*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        assert {Path(name).name for name in names if "dist-info/licenses/" in name and name[-1] != "/"} == {
            "LICENSE",
            "NOTICES.txt",
        }


def test_no_library_is_missing(installed):
    binaries = [
        path for path in installed.package.parent.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
    ]
    binaries = [path for path in binaries if "tenon" in str(path.relative_to(installed.package.parent))]
    assert len(binaries) >= 4
    for binary in binaries:
        told = output("ldd", binary, env={"PATH": os.environ["PATH"]})
        assert "not found" not in told
        for line in told.splitlines():
            name, _, place = line.strip().partition(" => ")
            is_of_system = Path(name.split()[0]).name.split(".so")[0] in SYSTEM_LIBRARIES
            assert is_of_system or str(installed.package.parent) in place, line


def test_import_is_quick_and_needs_no_torch(installed):
    """In time of the processor: the machine may be busy with other tests."""
    installed.install("numpy")
    code = "import time; t = time.process_time(); import tenon; print(time.process_time() - t); import sys; "
    code += "assert 'torch' not in sys.modules; assert tenon.__file__.startswith(sys.prefix), tenon.__file__"
    seconds = min(float(installed.run("python", "-c", code)) for _ in range(5))
    print(f"import: {seconds * 1e3:.0f} ms")
    assert seconds < MOST_IMPORT_SECONDS


def test_a_graph_compiles_without_torch(installed):
    installed.install("numpy")
    code = """
import numpy as np, tenon, tenon.loops as tl
g = tenon.Graph("g")
x = g.input("x", "f32[N]")
g.output(tenon.ops.gelu(x) + 1)
(out,) = tl.compile(tl.schedule(tl.lower(g)), "cpu").run([np.zeros(5, np.float32)])
print(np.asarray(out))
"""
    assert installed.run("python", "-c", code).startswith("[1. 1. 1. 1. 1.]")


def test_the_command_line_is_on_the_path(installed):
    assert re.fullmatch(r"tenon \d+\.\d+\.\d+\n", installed.run("tenon", "--version"))
    assert installed.run("tenon", "inspect", MODEL).startswith("program mlp\n")
    assert "softmax" in installed.run("tenon", "ops")
    assert "softmax" in installed.run("python", "-m", "tenon", "ops")


def test_doctor_says_what_is_missing(installed):
    installed.install("numpy")
    done = subprocess.run(
        [installed.folder / "venv/bin/python", "-m", "tenon", "doctor"],
        env=installed.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "- PyTorch: models of PyTorch cannot be compiled" in done.stdout
    assert "1 problem\n" in done.stdout
    assert re.search(r"^A kernel +compiled", done.stdout, re.MULTILINE)


PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(Tenon 0.1 REQUIRED COMPONENTS runtime compiler)
add_executable(run_model {root}/examples/run_model.c)
target_link_libraries(run_model PRIVATE Tenon::runtime)
add_executable(classifier {root}/examples/compiler_project/main.cpp)
target_link_libraries(classifier PRIVATE Tenon::compiler)
"""


def test_a_cmake_project_builds_against_it(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(root=ROOT))
    cmake_dir = installed.run("tenon", "config", "--cmake-dir").strip()
    assert cmake_dir.startswith(str(installed.package))
    output("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DTenon_DIR={cmake_dir}")
    output("cmake", "--build", tmp_path / "build")
    assert "shape 2 4, sum 2" in output(tmp_path / "build/run_model", MODEL)
    assert "64 of 64 points are right" in output(tmp_path / "build/classifier", tmp_path / "classifier.tenon")
    assert "classifier" in installed.run("tenon", "inspect", tmp_path / "classifier.tenon")


def test_pkg_config_finds_it(installed, tmp_path):
    packages = installed.run("tenon", "config", "--pkgconfig-dir").strip()
    libraries = installed.run("tenon", "config", "--lib-dir").strip()
    variables = os.environ | {"PKG_CONFIG_PATH": packages}
    flags = output("pkg-config", "--cflags", "--libs", "tenon", env=variables).split()
    program = tmp_path / "run_model"
    output("cc", "-std=c11", ROOT / "examples/run_model.c", "-o", program, f"-Wl,-rpath,{libraries}", *flags)
    assert "shape 2 4, sum 2" in output(program, MODEL)


def test_the_first_lines_of_the_readme(with_torch):
    body = next(body for name, body in BLOCK.findall((ROOT / "README.md").read_text()) if name == "python")
    with_torch.run("python", "-c", body)


# ---- a system with nothing else --------------------------------------------------------------------------------------

IN_BARE_SYSTEM = """
set -e
mount -t proc proc {root}/proc
for place in /dev {places}; do
  mkdir -p {root}$place
  mount --bind $place {root}$place
done
exec env -i HOME=/tmp PATH={programs} /usr/sbin/chroot {root} {command}
"""


# Of glibc and GCC: every system that runs Python and PyTorch has them.
C_LIBRARIES = ["libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libstdc++.so.6"]


def libraries_of(binary):
    """The files that the loader takes for it."""
    told = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", told))


@pytest.fixture(scope="module")
def bare(with_torch, tmp_path_factory):
    """Runs a program where there are the C and C++ libraries, what Python needs, the environment, and nothing else."""
    if os.geteuid() != 0:
        pytest.skip("making a system needs root")
    root = tmp_path_factory.mktemp("root")
    base = Path(with_torch.run("python", "-c", "import sys; print(sys.base_prefix)").strip())
    python, modules = base / "bin/python3.11", (base / "lib/python3.11/lib-dynload").glob("*.so")
    of_system = [output("cc", f"-print-file-name={name}").strip() for name in C_LIBRARIES]
    for library in set(of_system).union(*map(libraries_of, [python, *modules, *of_system])):
        place = root / str(Path(library).parent.resolve() / Path(library).name).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    for name in ("lib", "lib64"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "tmp", "usr/lib64"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "usr/lib64")
    places = f"{base} {with_torch.folder} {sysconfig.get_path('purelib')}"

    def run(*command):
        text = " ".join(map(shlex.quote, map(str, command)))
        script = IN_BARE_SYSTEM.format(root=root, places=places, programs=with_torch.folder / "venv/bin", command=text)
        return output("unshare", "--mount", "bash", "-c", script)

    return run


def cpu_seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_bert_compiles_within_a_minute_on_a_system_with_nothing_else(bare, with_torch):
    """In time of the processors, of which it uses more than one: the machine may be busy with other tests."""
    start, before = time.perf_counter(), cpu_seconds_of_children()
    told = bare(with_torch.folder / "venv/bin/python", "-m", "tenon", "demo")
    seconds = cpu_seconds_of_children() - before
    assert "largest difference" in told
    print(f"demo: {seconds:.0f} s of the processors, {time.perf_counter() - start:.0f} s by the wall")
    assert seconds < MOST_DEMO_SECONDS


def test_the_command_line_runs_on_a_system_with_nothing_else(bare, with_torch):
    assert bare(with_torch.folder / "venv/bin/tenon", "--version").startswith("tenon ")
    told = bare(
        with_torch.folder / "venv/bin/python", "-c", "import shutil; print(shutil.which('c++'), shutil.which('sh'))"
    )
    assert told == "None None\n"


def test_device_lazy_says_that_it_needs_a_compiler(with_torch):
    code = (
        "import tenon, tenon.lazy\ntry:\n    tenon.lazy.init()\nexcept tenon.Error as error:\n    print(error.message)"
    )
    assert "needs a C++20 compiler" in with_torch.run("python", "-c", code)
