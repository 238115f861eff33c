"""Builds the extension on first use, with the user's compiler against the installed PyTorch, and keeps it in
$TENON_CACHE (beside compiled kernels; with TENON_CACHE=off, for the process alone)."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

from tenon._tenon import Error, fail, has_private_file, make_private_folder, warn_once
from tenon.cache_folder import cache_folder

_SOURCES = Path(__file__).parent / "extension"
_MODULE = "_tenon_lazy"
_LIBRARY = f"{_MODULE}.so"
_COMPILERS = ("c++", "g++", "clang++")
_LIBRARIES = ("torch_python", "torch", "torch_cpu", "c10")


def load() -> ModuleType:
    """Loads the extension; builds it if needed."""
    _check_headers()
    module = _import(_built(_folder()))
    if module.torch_version != _release(torch.__version__):
        fail(
            f"the extension of the lazy device was built against PyTorch {module.torch_version}, and this is "
            f"{torch.__version__}: remove {module.__file__}, and the next start builds it anew"
        )
    return module


# ---- where it is ----------------------------------------------------------------------------------------------------


def _folder() -> Path:
    """The folder of this extension: each PyTorch, Python and source has its own. Its content is run as found, so only
    this user may write there; otherwise this process builds its own extension."""
    cache = cache_folder()
    if cache is None:
        return _own_folder()
    folder = cache / f"lazy-{_digest()}"
    try:
        is_there = all(make_private_folder(str(each)) for each in (cache, folder))
        if is_there and (_is_built(folder) or os.access(folder, os.W_OK)):
            return folder
        problem = f"{folder} cannot be written"
    except Error as error:
        problem = error.message
    warn_once(
        f"the lazy device is built for this process alone, which takes a minute: {problem}. Nobody else may write to "
        "code that is run here. Set TENON_CACHE to a folder of your own"
    )
    return _own_folder()


def _digest() -> str:
    made_of = [
        torch.__version__,
        str(torch.version.git_version),
        sys.implementation.cache_tag,
        sysconfig.get_platform(),
    ]
    digest = hashlib.sha256("\n".join(made_of).encode())
    for source in [Path(__file__), *sorted(_SOURCES.rglob("*.*"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _own_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="tenon-lazy-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


# ---- building -------------------------------------------------------------------------------------------------------


def _check_headers() -> None:
    header = _torch_folder() / "include" / "torch" / "csrc" / "lazy" / "ts_backend" / "ts_backend_impl.h"
    if not header.exists():
        fail(f"PyTorch {torch.__version__} has no lazy device to build against: there is no {header}")


def _built(folder: Path) -> Path:
    library = folder / _LIBRARY
    if _is_built(folder):
        return library
    with _locked(folder / "lock"):
        if not _is_built(folder):  # no other process built it meanwhile
            _build(library)
    return library


def _is_built(folder: Path) -> bool:
    return has_private_file(str(folder), _LIBRARY)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the system releases it if the process dies
        yield


def _build(library: Path) -> None:
    print(f"tenon: building the lazy device for PyTorch {torch.__version__}, once ...", file=sys.stderr, flush=True)
    start = time.perf_counter()
    unfinished = library.with_suffix(f".{os.getpid()}")
    command = [*_compiler(), *_flags(), str(_SOURCES / "module.cpp"), *_libraries(), "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"the lazy device could not be built: {shlex.join(command)}\n{_first_errors(done.stderr)}")
    unfinished.chmod(0o700)  # independent of the user's umask
    unfinished.replace(library)
    print(f"tenon: built in {time.perf_counter() - start:.0f} s, kept in {library.parent}", file=sys.stderr)


def _compiler() -> list[str]:
    if chosen := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(chosen[0]) is None:
            fail(f"the lazy device needs a C++ compiler, and there is no '{chosen[0]}', which CXX names")
        return chosen
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    return fail(f"the lazy device needs a C++20 compiler, and none of {', '.join(_COMPILERS)} is there: install one")


def _flags() -> list[str]:
    torch_folder = _torch_folder()
    includes = [
        torch_folder / "include",
        torch_folder / "include" / "torch" / "csrc" / "api" / "include",
        sysconfig.get_path("include"),
    ]
    return [
        "-std=c++20",
        "-O1",  # a short build matters more than fast code
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-DTENON_LAZY_MODULE={_MODULE}",
        f"-I{_SOURCES}",
        *(f"-isystem{path}" for path in includes),
    ]


def _libraries() -> list[str]:
    return [f"-L{_torch_folder() / 'lib'}", *(f"-l{name}" for name in _LIBRARIES)]


def _first_errors(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line]
    return "\n".join(lines[:5]) or text[-2000:]


def _torch_folder() -> Path:
    return Path(torch.__file__).parent


# ---- importing ------------------------------------------------------------------------------------------------------


def _import(library: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(library))
    spec = importlib.util.spec_from_file_location(_MODULE, library, loader=loader)
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        return fail(
            f"{library} does not fit PyTorch {torch.__version__}: remove it, and the next start builds it anew; {error}"
        )
    return module


def _release(version: str) -> str:
    return version.partition("+")[0]
