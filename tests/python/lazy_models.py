"""Small models that train, for tests and benchmarks of the lazy device: make() gives a module, batches(n) its data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).flatten(1))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(12, 24)
        self.head = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0])


class Transformer(nn.Module):
    def __init__(self, words: int = 50, width: int = 32, heads: int = 4, length: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.words(x) + self.places
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden).flatten(0, 1)


@dataclass(frozen=True)
class Trained:
    make: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[torch.Tensor, torch.Tensor]]

    def batches(self, count: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        generator = torch.Generator().manual_seed(1)
        for _ in range(count):
            yield self.batch(generator)


def _classes(count: int, generator: torch.Generator, shape: tuple[int, ...] = (16,)) -> torch.Tensor:
    return torch.randint(count, shape, generator=generator)


def _words(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    return _classes(50, generator, (4, 16)), _classes(50, generator, (64,))


MODELS = {
    "mlp": Trained(
        lambda: nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10)),
        lambda g: (torch.randn(16, 20, generator=g), _classes(10, g)),
    ),
    "cnn": Trained(Cnn, lambda g: (torch.randn(16, 1, 12, 12, generator=g), _classes(10, g))),
    "lstm": Trained(Lstm, lambda g: (torch.randn(16, 5, 12, generator=g), _classes(10, g))),
    "transformer": Trained(Transformer, _words),
}

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    # Where a gradient is 0 but for rounding, the default eps would make a step of the rounding.
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=3e-3, eps=1e-4),
}


def made(trained: Trained) -> nn.Module:
    torch.manual_seed(0)
    return trained.make().train()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()
