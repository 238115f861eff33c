"""Makes wheels that run on other systems: `make wheel`.

    make_wheels.py [python3.11 python3.12 ...]

A wheel of Python 3.12 is for all newer Pythons (abi3), one of 3.11 for that alone. Each is built in an environment of
its own (.venv-wheel) and then repaired: libraries that other systems need not have (fmt, simdjson) go into it, and its
name says which systems it runs on. A wheel that needs newer systems than PLATFORM, or is larger than MOST_BYTES, is an
error.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
UNREPAIRED = ROOT / "build-wheel"
OBJECTS = ROOT / "build-wheel-objects"
PLATFORM = "manylinux_2_34_x86_64"
MOST_BYTES = 25_000_000
FIRST_STABLE_ABI = (3, 12)


def main(names):
    pythons = {version: name for name in names or candidates() if (version := version_of(name, bool(names)))}
    if not pythons:
        sys.exit("error: there is no Python 3.11 or newer with headers; install python3-dev, or name one")
    for version in wanted(pythons):
        made = build(environment(pythons[version], version), version)
        print(f"wheel: {made.name}, {made.stat().st_size / 1e6:.1f} MB", flush=True)


def candidates():
    """The Pythons on the PATH, and those of pyenv."""
    names = [f"python3.{minor}" for minor in range(11, 20)]
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [*map(str, of_pyenv.glob("3.*/bin/python3")), *names]


def version_of(name, is_asked_for):
    """None: it does not run, has no headers, or is too old; an error where the user named it."""
    code = (
        "import ensurepip, os, sys, sysconfig; assert sys.version_info >= (3, 11); "
        "assert os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')); print(*sys.version_info[:2])"
    )
    path = shutil.which(name)
    done = path and subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    if done and done.returncode == 0:
        return tuple(map(int, done.stdout.split()))
    if is_asked_for:
        sys.exit(f"error: {name} is no Python 3.11 or newer with headers and ensurepip")
    return None


def wanted(pythons):
    """Of those with a stable ABI, the oldest makes the wheel of all."""
    stable = sorted(version for version in pythons if version >= FIRST_STABLE_ABI)
    return [*sorted(version for version in pythons if version < FIRST_STABLE_ABI), *stable[:1]]


def environment(python, version):
    """A venv with python/requirements-wheel.txt; its folder of programs."""
    folder = ROOT / ".venv-wheel" / ".".join(map(str, version))
    requirements = ROOT / "python/requirements-wheel.txt"
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.stat().st_mtime < requirements.stat().st_mtime:
        run(python, "-m", "venv", "--clear", folder)
        run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
        stamp.touch()
    return folder / "bin"


def build(programs, version):
    variables = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    shutil.rmtree(UNREPAIRED, ignore_errors=True)
    # All wheels share these objects: CMake is configured anew for each environment. `pip install .` has others.
    options = ["-C", f"build-dir={OBJECTS}"]
    if version >= FIRST_STABLE_ABI:
        options += ["-C", "wheel.py-api=cp312"]
    run(
        programs / "python", "-m", "pip", "wheel", ROOT, "--quiet", "--disable-pip-version-check", "--no-deps",
        "--no-build-isolation", "--wheel-dir", UNREPAIRED, *options, env=variables,
    )  # fmt: skip
    (built,) = UNREPAIRED.glob("tenon-*.whl")
    for old in DIST.glob(f"{'-'.join(built.name.split('-')[:4])}-*.whl"):
        old.unlink()
    output = run(programs / "auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", DIST, built, env=variables)
    repaired = DIST / re.search(r"(tenon-\S*\.whl)\s*$", output.strip())[1]
    if repaired.stat().st_size > MOST_BYTES:
        sys.exit(f"error: {repaired.name} has {repaired.stat().st_size} bytes, more than {MOST_BYTES}")
    return repaired


def run(*command, **options):
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nerror: this failed: {' '.join(map(str, command))}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
