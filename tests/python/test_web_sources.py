"""The sources for the web fit the headers that they share with the runtime and the compiler. `make test` builds nothing
for WebAssembly: this test tells whoever changes such a header. `make test-web` builds and runs them."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# They use instructions of WebAssembly, or replace parts of its C++ library.
OF_WEB_ALONE = {"js/runtime/exceptions.cpp", "js/runtime/threads/thread_pool.cpp", "js/kernels/stubs.cpp"}
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wno-everything", '-DTENON_VERSION="0"']
FOLDERS = ["js/runtime", "include", "src", ".", "js/kernels/test"]


def sources():
    names = {
        str(path.relative_to(ROOT))
        for folder in ("runtime", "kernels")
        for path in (ROOT / "js" / folder).rglob("*.cpp")
    }
    assert names >= OF_WEB_ALONE
    return sorted(names - OF_WEB_ALONE)


def complaints(source):
    command = ["clang++-19", *FLAGS, *(f"-I{folder}" for folder in FOLDERS), "-isystem", "build/format/include", source]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{source}\n{done.stderr}"


@pytest.mark.skipif(shutil.which("clang++-19") is None, reason="there is no clang++-19")
def test_they_compile_with_the_headers_of_this_tree():
    with ThreadPoolExecutor(2) as pool:
        assert "".join(pool.map(complaints, sources())) == ""
