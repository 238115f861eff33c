"""Handwritten digits to train on: two models and the data, for docs/training.md.

    python examples/digits.py FOLDER     writes cnn.pt2, transformer.pt2, train.npz, test.npz, x.npy, target.npy

The 1,797 images of 8x8 pixels are scikit-learn's; every fifth of a shuffled order is for testing. The .npy files have
what train.npz has, for programs that read no archives.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.export import Dim, export, save


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 4 * 4, 10)),
        )

    def forward(self, x):
        return self.layers(x)


class Transformer(nn.Module):
    """Reads an image row by row."""

    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.place = nn.Parameter(torch.randn(8, width) * 0.1)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.scores = nn.Linear(width, 10)

    def forward(self, x):
        h = self.embed(x.flatten(0, 1)) + self.place
        n = self.norm1(h)
        h = h + self.attention(n, n, n, need_weights=False)[0]
        h = h + self.mlp(self.norm2(h))
        return self.scores(self.norm3(h).mean(1))


def digits():
    """(x, target) of training, and of testing."""
    x, target = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x = (x[order].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    target = target[order].astype(np.int64)
    is_test = np.arange(len(x)) % 5 == 0
    return (x[~is_test], target[~is_test]), (x[is_test], target[is_test])


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (x, target) in zip(("train", "test"), digits(), strict=True):
        np.savez(folder / f"{name}.npz", x=x, target=target)
        if name == "train":
            np.save(folder / "x.npy", x)
            np.save(folder / "target.npy", target)
    for name, make in (("cnn", CNN), ("transformer", Transformer)):
        torch.manual_seed(0)
        program = export(make(), (torch.zeros(4, 1, 8, 8),), dynamic_shapes=({0: Dim("batch")},))
        save(program, folder / f"{name}.pt2")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
