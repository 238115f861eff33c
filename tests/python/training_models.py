"""Small models to train."""

import torch
import transformers
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


def lenet(dropout=0.0):
    """For images of 16x16 with one channel."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2, bias=False),  # the norm has one
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(16 * 2 * 2, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        is_same = stride == 1 and channels == out
        self.short = nn.Identity() if is_same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.main(x) + self.short(x))


def resnet():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


class Logits(nn.Module):
    """Of a model of transformers; tokens of a batch are rows of one matrix, as a loss wants them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits.flatten(0, -2)


def gpt2(width=32, positions=16, vocabulary=61):
    """Of four layers, with four heads."""
    config = transformers.GPT2Config(
        n_embd=width,
        n_layer=4,
        n_head=4,
        n_positions=positions,
        vocab_size=vocabulary,
        use_cache=False,
        attn_implementation="sdpa",
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )
    return Logits(transformers.GPT2LMHeadModel(config))
