"""What `make versions` checks of one version of PyTorch, in an environment with that version: checks.py NAME.

A check is a function that raises where Tenon does not do what PyTorch does.
"""

import runpy
import sys
import tempfile
from pathlib import Path

import tenon
import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

ROOT = Path(__file__).resolve().parents[2]


class Block(nn.Module):
    """A layer of a transformer, and what is before and after it."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(50, width)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, ids):
        x = self.embed(ids)
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts.unbind(), is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return self.last(x + self.feed(x)).softmax(-1)


def picture_model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


def models():
    """Each with two lists of arguments; the first dimension of an argument may change."""
    yield Block().eval(), (torch.randint(50, (2, 5)),), (torch.randint(50, (3, 5)),)
    yield picture_model().eval(), (torch.randn(2, 3, 16, 16),), (torch.randn(5, 3, 16, 16),)


def capture():
    """torch.export, then tenon.compile; with sizes that change."""
    for model, first, second in models():
        shapes = tuple({0: torch.export.Dim("batch", min=2, max=64)} for _ in first)
        program = tenon.compile(torch.export.export(model, first, dynamic_shapes=shapes), fallback=False)
        for arguments in (first, second):
            assert_close(program(*arguments), model(*arguments))
    x = torch.randn(3, 4)
    assert_close(tenon.compile(lambda y: y.exp() + 1, (x,))(x), x.exp() + 1)


def files():
    """.pt2 files that this version writes. The reader is C++; the models are those of the golden files."""
    make = runpy.run_path(str(ROOT / "tests/capture/data/make.py"))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("linear", "dynamic", "state"):
            example = make["examples"]()[name]
            path = Path(folder) / f"{name}.pt2"
            make["write"](path, example.exported())
            copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in example.arguments]
            expected = example.model(*copies, **example.keywords)
            got = tenon.compile(path, fallback=False)(*example.arguments, **example.keywords)
            assert_close(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected))


def compilation():
    """torch.compile: results, gradients, sizes that change, and a model that writes into its argument."""
    for model, *calls in models():
        compiled = torch.compile(model, backend="tenon")
        for arguments in calls:
            model.zero_grad()
            weights = torch.randn_like(expected := model(*arguments))
            (expected * weights).sum().backward()
            gradients = {name: value.grad for name, value in model.named_parameters()}
            model.zero_grad()
            (got := compiled(*arguments)).backward(weights)
            assert_close(got, expected)
            for name, value in model.named_parameters():
                assert_close(value.grad, gradients[name], rtol=1e-4, atol=1e-5)
    x, y = torch.ones(4), torch.ones(4)
    torch.compile(lambda t: t.mul_(2).add_(t.sum()), backend="tenon")(x)
    assert_close(x, y.mul_(2).add_(y.sum()))


def training():
    """LocalTrainingInstance beside PyTorch's AdamW."""
    model = picture_model().train()
    x, target = torch.randn(4, 3, 16, 16), torch.randint(4, (4,))
    trainer = tenon.LocalTrainingInstance(model, loss="cross_entropy", optimizer="adamw(lr=0.01)", example_inputs=(x,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(5):
        loss = trainer.step(x, target=target)
        optimizer.zero_grad()
        expected = functional.cross_entropy(model(x), target)
        expected.backward()
        optimizer.step()
        assert_close(loss, expected.detach(), rtol=1e-3, atol=1e-4)


def lazy():
    """Device "lazy", whose extension is built against this version."""
    import tenon.lazy

    tenon.lazy.init()
    model = picture_model().to("lazy")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, target = torch.randn(4, 3, 16, 16).to("lazy"), torch.randint(4, (4,)).to("lazy")
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        tenon.lazy.mark_step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    told = tenon.lazy.metrics()
    assert (told["torchscript_runs"], told["fallbacks"]) == (0, {}), told


CHECKS = {"capture": capture, ".pt2 files": files, "torch.compile": compilation, "training": training, "lazy": lazy}

if __name__ == "__main__":
    torch.manual_seed(0)
    CHECKS[sys.argv[1]]()
