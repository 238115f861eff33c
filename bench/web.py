"""Files in Node, by the code that they hold and by threads: a matmul of 512^3, and MobileNetV2 at 224x224
(`make bench-web`). And the matmul as a kernel that is compiled in Node."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from tests.python import zoo

ROOT = Path(__file__).parents[1]
MATMUL = """graph matmul(%x: f32[512, 512], %y: f32[512, 512]) {
  %z: f32[512, 512] = matmul(%x, %y)
  return %z
}
"""
LEVELS = ["wasm32", "wasm32-relaxed"]
THREADS = [1, 2]


def relaxed():
    """The flag that Node 20 and older want for relaxed SIMD."""
    flag = "--experimental-wasm-relaxed-simd"
    return [flag] if subprocess.run(["node", flag, "-e", "0"], capture_output=True).returncode == 0 else []


def matmul(folder):
    """A file that `tenon compile` takes, and the flops of a run."""
    path = folder / "matmul.tg"
    path.write_text(MATMUL)
    return path, 2 * 512**3


def mobilenet(folder):
    """Likewise; its flops are not counted."""
    path = folder / "mobilenet.pt2"
    model = zoo.mobilenet_v2(small=False).module
    torch.export.save(torch.export.export(model, (torch.randn(1, 3, 224, 224),)), path)
    return path, 0


MODELS = {"matmul": matmul, "mobilenet": mobilenet}


def measure(path, threads):
    """Milliseconds to open it, of the first run, and of the fastest."""
    command = ["node", *relaxed(), ROOT / "bench/web.mjs", path]
    environment = {**os.environ, "THREADS": str(threads)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()[1:]


def measure_kernel():
    """Milliseconds to load the compiler, of the first run, and of the fastest; GFLOP/s."""
    command = ["node", *relaxed(), ROOT / "bench/web_kernels.mjs"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def main():
    with tempfile.TemporaryDirectory() as name:
        print(f"{'model':<12}{'code':<16}{'threads':>8}{'open ms':>10}{'first ms':>10}{'ms':>10}{'GFLOP/s':>10}")
        for model in sys.argv[1:] or MODELS:
            source, flops = MODELS[model](Path(name))
            for level in LEVELS:
                path = Path(name) / f"{model}-{level}.tenon"
                compile_ = [ROOT / "build/bin/tenon", "compile", source, "-o", path, "--cpu", level]
                subprocess.run(compile_, check=True, capture_output=True)
                for threads in THREADS:
                    opened, first, best = measure(path, threads)
                    rate = f"{flops / float(best) / 1e6:.1f}" if flops else ""
                    row = f"{model:<12}{level:<16}{threads:>8}{opened:>10}{first:>10}{best:>10}{rate:>10}"
                    print(row, flush=True)
            if model == "matmul":
                loaded, first, best, rate = measure_kernel()
                print(f"{model:<12}{'kernels.mjs':<16}{1:>8}{loaded:>10}{first:>10}{best:>10}{rate:>10}", flush=True)


if __name__ == "__main__":
    main()
