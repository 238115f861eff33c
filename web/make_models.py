"""The models of the page: `make web` calls it.

    python web/make_models.py FOLDER [--steps 1500]

It writes them, compiled for WebAssembly, with what the page says of them (models.json) and the digits as bytes
(digits.bin). Nothing is downloaded: the digits are scikit-learn's, and the text is Tenon's own manual. A model whose
file is there already, and newer than this script, stays.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.export import Dim, export, save

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
digits = importlib.import_module("digits")

CPUS = "wasm32,wasm32-relaxed"
CONTEXT = 64  # bytes that the writer sees
VOCABULARY = 128  # ASCII
SIDE = 256  # pixels of a picture


def tenon(*arguments):
    subprocess.run([ROOT / "build/bin/tenon", *arguments], check=True, stdout=subprocess.DEVNULL)


def compile_file(model, inputs, path, folder):
    source = folder / f"{path.stem}.pt2"
    save(export(model.eval(), inputs), source)
    tenon("compile", source, "-o", path, "--cpu", CPUS)


def train(model, name, inputs, options, folder):
    """Trains a model with `tenon train`, and gives it the parameters."""
    save(export(model, inputs, dynamic_shapes=({0: Dim("batch")},)), folder / f"{name}.pt2")
    compiled, weights = folder / f"{name}.tenon", folder / f"{name}.safetensors"
    optimizer = f"adamw(lr={options['rate']}, schedule=cosine({options['steps']}))"
    loss = ["--loss", "cross_entropy", "--optimizer", optimizer]
    tenon("compile", folder / f"{name}.pt2", "-o", compiled, "--train", *loss)
    data = ["--data", folder / f"{name}.npz", "--batch", str(options["batch"])]
    tenon("train", compiled, *data, "--steps", str(options["steps"]), "--export", weights)
    model.load_state_dict({key: value for key, value in load_file(weights).items() if key in model.state_dict()})
    return model


# ---- digits ---------------------------------------------------------------------------------------------------------


def make_digits(path, folder, steps):
    (x, target), (test, wanted) = digits.digits()
    np.savez(folder / "digits.npz", x=x, target=target)
    torch.manual_seed(0)
    options = {"rate": 2e-3, "steps": steps // 3, "batch": 64}
    model = train(digits.CNN(), "digits", (torch.zeros(4, 1, 8, 8),), options, folder).eval()
    right = (model(torch.from_numpy(test)).argmax(1).numpy() == wanted).mean()
    compile_file(nn.Sequential(model, nn.Softmax(1)), (torch.zeros(1, 1, 8, 8),), path, folder)
    return f"Trained when this page was built; {100 * right:.1f} % of {len(wanted)} digits for testing are right"


def make_training(path, folder, steps):
    torch.manual_seed(0)
    batch = ({0: Dim("batch", min=1, max=512)},)
    save(export(digits.CNN(), (torch.zeros(4, 1, 8, 8),), dynamic_shapes=batch), folder / "cnn.pt2")
    optimizer = ["--loss", "cross_entropy", "--optimizer", "adamw(lr=2e-3)"]
    tenon("compile", folder / "cnn.pt2", "-o", path, "--train", *optimizer, "--cpu", CPUS)
    data = digits.digits()  # of training, then of testing: rows of 64 pixels and a label
    rows = [np.hstack([np.rint(x.reshape(-1, 64) * 16), target[:, None]]) for x, target in data]
    (path.parent / "digits.bin").write_bytes(np.vstack(rows).astype(np.uint8).tobytes())
    return f"Untrained; {len(rows[0])} digits to train with, {len(rows[1])} to test with"


# ---- a writer -------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Writer(nn.Module):
    """Scores of the byte after each of CONTEXT bytes: [batch, VOCABULARY, CONTEXT]."""

    def __init__(self, width=96, depth=3):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.place = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.scores(self.norm(self.blocks(self.embed(tokens) + self.place))).transpose(1, 2)


class NextByte(nn.Module):
    def __init__(self, writer):
        super().__init__()
        self.writer = writer

    def forward(self, tokens):
        return self.writer(tokens)[:, :, -1]


def make_writer(path, folder, steps):
    text = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))
    data = np.frombuffer(text.encode("ascii", "ignore"), np.uint8).astype(np.int64)
    starts = np.random.default_rng(0).integers(0, len(data) - CONTEXT - 1, 20_000)
    windows = np.stack([data[start : start + CONTEXT + 1] for start in starts])
    np.savez(folder / "writer.npz", tokens=windows[:, :-1], target=windows[:, 1:])
    torch.manual_seed(0)
    options = {"rate": 2e-3, "steps": steps, "batch": 32}
    model = train(Writer(), "writer", (torch.zeros(4, CONTEXT, dtype=torch.int64),), options, folder)
    compile_file(NextByte(model), (torch.zeros(1, CONTEXT, dtype=torch.int64),), path, folder)
    size = sum(each.numel() for each in model.parameters())
    about = f"{size // 1000},000 parameters, trained for {steps} steps on Tenon's manual when this page was built"
    return f"{about}: it writes words, and no sense"


# ---- a picture ------------------------------------------------------------------------------------------------------


class Sketch(nn.Module):
    """A pencil drawing: the difference of two blurred pictures, sharpened. Its weights are not learned."""

    def __init__(self):
        super().__init__()
        self.grey = nn.Conv2d(3, 1, 1, bias=False)
        self.blurs = nn.Conv2d(1, 2, 13, padding=6, padding_mode="replicate", bias=False)
        place = torch.arange(13) - 6.0
        line = [torch.exp(-(place**2) / (2 * sigma**2)) for sigma in (1.0, 1.6)]
        with torch.no_grad():
            self.grey.weight.copy_(torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1))
            self.blurs.weight.copy_(torch.stack([torch.outer(g, g) / g.sum() ** 2 for g in line]).unsqueeze(1))

    def forward(self, picture):
        grey = self.grey(picture)
        fine, coarse = self.blurs(grey).chunk(2, 1)
        edges = 1 + torch.tanh(30 * (fine - 0.98 * coarse - 0.01)).clamp(max=0)
        return (edges * (0.55 + 0.45 * grey)).expand(-1, 3, -1, -1)


def make_sketch(path, folder, steps):
    compile_file(Sketch(), (torch.zeros(1, 3, SIDE, SIDE),), path, folder)
    return "A filter: its weights are written down, not learned"


# ---- all of them ----------------------------------------------------------------------------------------------------

MODELS = {
    "digits": ("Digits", "Reads a digit that you draw", "digit", make_digits),
    "writer": ("Writer", "Continues a text, byte by byte", "text", make_writer),
    "sketch": ("Sketch", "Draws a picture or your webcam with a pencil", "picture", make_sketch),
    "training": ("Digits, to train", "The same network, before its training", "training", make_training),
}


def is_made(path):
    note = path.with_suffix(".json")
    made = min((each.stat().st_mtime for each in (path, note) if each.exists()), default=0)
    return path.exists() and note.exists() and made > Path(__file__).stat().st_mtime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1500, help="steps of training of the writer")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for name, (title, about, kind, make) in MODELS.items():
        path = options.folder / f"{name}.tenon"
        note = path.with_suffix(".json")
        if not is_made(path):
            print(f"web: making {path.name}", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                note.write_text(json.dumps({"note": make(path, Path(folder), options.steps)}))
        entry = {"name": name, "title": title, "about": about, "kind": kind, "bytes": path.stat().st_size}
        listed.append({**entry, **json.loads(note.read_text())})
    (options.folder / "models.json").write_text(json.dumps(listed, indent=1))


if __name__ == "__main__":
    main()
