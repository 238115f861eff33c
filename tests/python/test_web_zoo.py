"""The models of the zoo in a browser, as code for WebAssembly, against PyTorch."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from zoo import ZOO

from tests.python.browser import Browser, find_browser, served

ROOT = Path(__file__).parents[2]
WEB = ROOT / "build/web"
DTYPES = {"f32": "<f4", "i64": "<i8", "bool": "?"}

pytestmark = [
    pytest.mark.skipif(not (WEB / "tenon.wasm").exists(), reason="there is no build/web/tenon.wasm: say make web"),
    pytest.mark.skipif(find_browser() is None, reason="there is no browser: say make browser"),
]

# Opens NAME.tenon in a worker and runs it; the results as base64.
RUN = """(async () => {
  const { WorkerTenon } = await import("./worker.mjs");
  const { name, inputs } = INPUTS;
  const tenon = await WorkerTenon.load();
  const program = await tenon.openFrom(`${name}.tenon`);
  const Types = { f32: Float32Array, i64: BigInt64Array, bool: Uint8Array };
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const given = inputs.map(({ dtype, shape, data }) => ({ shape, data: new Types[dtype](bytes(data).buffer) }));
  const results = await program.run(given);
  tenon.terminate();
  const letter = (byte) => String.fromCharCode(byte);
  const text = ({ buffer }) => new Uint8Array(buffer).reduce((letters, byte) => letters + letter(byte), "");
  return results.map(({ dtype, shape, data }) => ({ dtype, shape, data: btoa(text(data)) }));
})()"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    for name in ("tenon.mjs", "runtime.mjs", "worker.mjs", "tenon.wasm"):
        shutil.copy(WEB / name, folder)
    (folder / "index.html").write_text('<!doctype html><title>zoo</title><link rel="icon" href="data:,">')
    return folder


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    with served(folder) as address, Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(f"{address}/index.html")
        browser.wait("document.title === 'zoo'")
        yield browser


def encoded(tensor):
    array = tensor.contiguous().numpy()
    dtype = next(name for name, code in DTYPES.items() if np.dtype(code) == array.dtype)
    return {"dtype": dtype, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def flat(outputs):
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    values = outputs.values() if isinstance(outputs, dict) else outputs
    return [each for value in values if value is not None for each in flat(value)]


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_model_gives_what_pytorch_gives(page, folder, name):
    model = ZOO[name](True)
    with torch.no_grad():
        wanted = flat(model.module(*model.args))
    source, path = folder / f"{name}.pt2", folder / f"{name}.tenon"
    torch.export.save(torch.export.export(model.module, model.args, strict=False), source)
    compile_ = [ROOT / "build/bin/tenon", "compile", source, "-o", path, "--cpu", "wasm32,wasm32-relaxed"]
    subprocess.run(compile_, check=True, capture_output=True)
    inputs = json.dumps({"name": name, "inputs": [encoded(each) for each in model.args]})
    results = page.run(RUN.replace("INPUTS", inputs))
    assert len(results) == len(wanted)
    for result, tensor in zip(results, wanted, strict=True):
        got = np.frombuffer(base64.b64decode(result["data"]), DTYPES[result["dtype"]]).reshape(result["shape"])
        np.testing.assert_allclose(got, tensor.numpy(), rtol=1e-3, atol=1e-4)
    assert page.errors == []
