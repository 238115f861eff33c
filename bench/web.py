"""Files in Node and in Chromium, by the code that they hold and by threads: a matmul of 512^3, and MobileNetV2 at
224x224 (`make bench-web`); the matmul as a kernel that is compiled where it runs; and how soon a page shows its first
result."""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from tests.python import zoo
from tests.python.browser import ISOLATED, Browser, find_browser, served

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build/web/site"
SIZE = 512  # of the matmul
FLOPS = 2 * SIZE**3
LEVELS = ["wasm32", "wasm32-relaxed"]
THREADS = [1, 2]
VISITS = 20  # of the page
ROW = "{:<12}{:<16}{:<10}{:>8}{:>10}{:>10}{:>10}{:>10}"


# ---- models ---------------------------------------------------------------------------------------------------------


def matmul(folder):
    """A file that `tenon compile` takes, and the flops of a run."""
    path = folder / "matmul.tg"
    square = f"f32[{SIZE}, {SIZE}]"
    path.write_text(f"graph matmul(%x: {square}, %y: {square}) {{\n  %z: {square} = matmul(%x, %y)\n  return %z\n}}\n")
    return path, FLOPS


def mobilenet(folder):
    """Likewise; its flops are not counted."""
    path = folder / "mobilenet.pt2"
    model = zoo.mobilenet_v2(small=False).module
    torch.export.save(torch.export.export(model, (torch.randn(1, 3, 224, 224),)), path)
    return path, 0


MODELS = {"matmul": matmul, "mobilenet": mobilenet}


# ---- engines --------------------------------------------------------------------------------------------------------


class Node:
    name = "Node"

    def __init__(self, folder):
        self.folder = folder
        # The flag that Node 20 and older want for relaxed SIMD, and newer ones refuse.
        flag = "--experimental-wasm-relaxed-simd"
        self.flags = [flag] if subprocess.run(["node", flag, "-e", "0"], capture_output=True).returncode == 0 else []

    def call(self, function, *arguments):
        call = f"web.{function}(...{json.dumps(arguments)})"
        script = self.folder / "call.mjs"
        script.write_text(f'import * as web from "./bench/web.mjs";\nconsole.log(JSON.stringify(await {call}));\n')
        command = ["node", *self.flags, script]
        done = subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)


class Chromium:
    """A fresh page for each call, of a server that lets pages share memory."""

    name = "Chromium"

    def __init__(self, browser, address):
        self.browser = browser
        self.address = address

    def call(self, function, *arguments):
        self.browser.open("about:blank")
        self.browser.open(f"{self.address}/page.html")
        self.browser.wait("document.title === 'bench'")
        return self.browser.run(f"import('./bench/web.mjs').then((web) => web.{function}(...{json.dumps(arguments)}))")


@contextlib.contextmanager
def engines(folder):
    """Those that are here. `folder` has the models."""
    for name in ("bench", "build"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "page.html").write_text("<!doctype html><title>bench</title>")
    if find_browser() is None:
        print("there is no Chromium: make browser")
        yield [Node(folder)]
        return
    with served(folder, ISOLATED) as address, Browser(folder / "profile") as browser:
        yield [Node(folder), Chromium(browser, address)]


# ---- measurements ---------------------------------------------------------------------------------------------------


def show(model, code, engine, flops, measured):
    times = measured["times"]
    rate = f"{flops / times[-1] / 1e6:.1f}" if flops else ""
    print(ROW.format(model, code, engine, measured["threads"], *(f"{time:.2f}" for time in times), rate), flush=True)


def measure_model(name, folder, present):
    source, flops = MODELS[name](folder)
    for level in LEVELS:
        path = folder / f"{name}-{level}.tenon"
        command = [ROOT / "build/bin/tenon", "compile", source, "-o", path, "--cpu", level]
        subprocess.run(command, check=True, capture_output=True)
        for engine in present:
            for threads in THREADS:
                show(name, level, engine.name, flops, engine.call("measureFile", path.name, threads))
    if name == "matmul":
        for engine in present:
            show(name, "kernels.mjs", engine.name, flops, engine.call("measureKernel", SIZE))


def measure_pages(folder):
    """Milliseconds from navigation to the first result of a model that the browser has in its cache."""
    with served(SITE) as address, Browser(folder / "visits") as browser:
        times = [first_result(browser, f"{address}/index.html#run") for _ in range(VISITS + 1)][1:]
    print(
        f"first result of a page, {VISITS} visits: median {statistics.median(times):.0f} ms, best {min(times):.0f} ms"
    )


def first_result(browser, address):
    browser.open("about:blank")
    browser.open(address)
    return float(browser.wait("document.querySelector('#model[data-result]')?.dataset.result"))


def main():
    chosen = sys.argv[1:] or [*MODELS, "pages"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [each for each in chosen if each != "pages"]
        if models:
            print(ROW.format("model", "code", "engine", "threads", "open ms", "first ms", "ms", "GFLOP/s"))
            with engines(folder) as present:
                for model in models:
                    measure_model(model, folder, present)
        if "pages" in chosen and (SITE / "models/models.json").exists() and find_browser() is not None:
            measure_pages(folder)
        elif "pages" in chosen:
            print("the first result of a page takes make web-models, and Chromium: make browser")


if __name__ == "__main__":
    main()
