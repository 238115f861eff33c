"""The sources for the web fit the headers that they share with the runtime and the compiler: `make test` builds the
runtime and the compiler of kernels for WebAssembly (at -O1, for speed), and Node runs them. `make test-web` tests the
package, the pages and the rest."""

import functools
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.python.test_web import GOLDEN, golden_runs

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/web-check"
COMPILER = "clang++-19"
CHECK = ["-xc++", "-std=c++20", "-fsyntax-only", "-Wno-everything", "-"]


@functools.cache
def lacks_library():
    """Why nothing can be built for WebAssembly; empty: nothing is missing."""
    if shutil.which(COMPILER) is None:
        return f"there is no {COMPILER}"
    check = [COMPILER, "--target=wasm32-wasi", *CHECK]
    done = subprocess.run(check, input="#include <vector>\n", text=True, capture_output=True, check=False)
    return "" if done.returncode == 0 else "there is no C++ library for wasm32: say make web-library"


@pytest.fixture(scope="module")
def built():
    """The folder of the package. Objects of earlier builds are taken again."""
    if lacks_library():
        pytest.skip(lacks_library())
    configure = ["cmake", "-S", ROOT / "js", "-B", BUILD, "-G", "Ninja", "-DTENON_WEB_OPTIMIZATION=-O1"]
    build = ["cmake", "--build", BUILD, "--parallel", "2", "--target", "tenon", "tenon-kernels", "kernels-test"]
    for command in (configure, build):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return BUILD


def run(script):
    """What a module prints in Node, as JSON."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def test_the_runtime_runs_a_file(built):
    [(inputs, outputs), *_] = golden_runs("1.0/mlp")
    script = f"""
    import {{ readFileSync }} from "node:fs";
    import {{ Tenon }} from "{built}/tenon.mjs";
    const program = (await Tenon.load()).open(readFileSync("{GOLDEN}/1.0/mlp.tenon"));
    const results = program.run({json.dumps([each.ravel().tolist() for each in inputs])});
    console.log(JSON.stringify(results.map(({{ data }}) => [...data])));"""
    for got, wanted in zip(run(script), outputs, strict=True):
        np.testing.assert_allclose(got, wanted.ravel(), rtol=1e-5, atol=1e-5)


def test_the_compiler_compiles_a_kernel(built):
    script = f"""
    import {{ load, Symbol, Tensor }} from "{built}/kernels.mjs";
    await load();
    const [i, j] = ["i", "j"].map((name) => new Symbol(name));
    const x = new Tensor(Float32Array.from({{ length: 6 }}, (_, at) => at), [2, 3]).to(i, j);
    console.log(JSON.stringify([...(await x.mul(x).sum(j).data)]));"""
    assert run(script) == [0 + 1 + 4, 9 + 16 + 25]


def test_kernels_agree_with_the_interpreter(built):
    script = f"""
    import {{ readFileSync }} from "node:fs";
    import {{ start }} from "{built}/kernels.mjs";
    const {{ exports, memory }} = await start(readFileSync("{built}/kernels-test.wasm"));
    console.log(JSON.stringify(memory.text(exports.agree(0, 200))));"""
    assert run(script) == ""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_command_line_runs_a_graph_in_node(built, tmp_path):
    (tmp_path / "g.tg").write_text("graph g(%x: f32[4]) {\n  %y: f32[4] = relu(%x)\n  return %y\n}\n")
    np.save(tmp_path / "x.npy", np.array([-1, 0, 2, 3], np.float32))
    command = [ROOT / "build/bin/tenon", "run", "g.tg", "-i", "x.npy", "-o", "out", "--device", "wasm"]
    environment = {**os.environ, "TENON_WEB": str(built)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert np.load(tmp_path / "out/y.npy").tolist() == [0, 0, 2, 3]


# ---- where there is no C++ library for wasm32 -----------------------------------------------------------------------

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
    command = [COMPILER, *FLAGS, *(f"-I{folder}" for folder in FOLDERS), "-isystem", "build/format/include", source]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{source}\n{done.stderr}"


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no {COMPILER}")
@pytest.mark.skipif(not lacks_library(), reason="the build above says more")
def test_they_compile_natively_with_the_headers_of_this_tree():
    with ThreadPoolExecutor(2) as pool:
        assert "".join(pool.map(complaints, sources())) == ""
