"""Makes the .pt2 files of this folder. They are kept, so that the C++ tests need no Python:

.venv/bin/python tests/capture/data/make.py

`make versions` makes those of other versions of PyTorch, in folders like torch-2.9/: make.py FOLDER.
"""

import dataclasses
import sys
import warnings
from collections import namedtuple
from pathlib import Path

import torch
from torch.export import Dim, export, save
from torch.utils import _pytree as pytree

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
PACKAGES = Path(torch.__file__).parents[1]

Pair = namedtuple("Pair", ["low", "high"])
pytree._register_namedtuple(Pair, serialized_type_name="Pair")


def counted(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape)


def write(path, program):
    """Saves it with the paths of a machine that is nobody's."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if trace := node.meta.get("stack_trace"):
                trace = trace.replace(str(PACKAGES), "/opt/python/site-packages")
                node.meta["stack_trace"] = trace.replace(f"{ROOT}/", "/home/user/")
    save(program, path)


class Linear(torch.nn.Module):
    """One layer: the file that hostile ones are made from."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.fc.weight = torch.nn.Parameter(counted(2, 3))
        self.fc.bias = torch.nn.Parameter(torch.tensor([0.5, -0.5]))

    def forward(self, x):
        return self.fc(x).relu()


class Dynamic(torch.nn.Module):
    """Symbolic sizes, in shapes, lists and outputs."""

    def forward(self, x, y, scale: int):
        joined = torch.cat([x, y])
        n = joined.shape[0]
        flat = joined.reshape(n * 2, -1) * scale
        half = torch.nn.functional.avg_pool1d(flat, 2)
        return half, n * 2 + 1, x.shape[0] / y.shape[0]


class State(torch.nn.Module):
    """Weights that share memory and have strides, buffers and inputs that are written, constants."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3, bias=False)
        self.fc.weight = torch.nn.Parameter(counted(3, 4))
        self.tied = torch.nn.Linear(4, 3, bias=False)
        self.tied.weight = self.fc.weight
        whole = counted(6, 4)
        self.part = torch.nn.Parameter(whole.t()[1:3])
        self.register_buffer("row", whole[2])
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.tensor([True, False, True]), persistent=False)

    def forward(self, x, extra=None):
        self.steps.add_(1)
        y = torch.where(self.mask, self.fc(x) + self.tied(x), torch.tensor([1.0, 2.0, 3.0]))
        x.mul_(2)
        low, high = torch.split(y, [1, 2], 1)
        return {"parts": Pair(low, high), "none": extra, "sum": self.part.sum() + self.row.sum()}


class Kinds(torch.nn.Module):
    """Arguments of many kinds."""

    def forward(self, x, i):
        a = torch.ops.aten.index.Tensor(x, [None, i])
        b = torch.empty(2, dtype=torch.float16, device="cpu", memory_format=torch.contiguous_format)
        c = torch.full((2,), float("inf"), dtype=torch.bfloat16)
        d = torch.nn.functional.interpolate(x[None, None], scale_factor=[2.0, 1.5], mode="bilinear")
        e, _ = torch.max(x, 1)
        f = torch.div(x, 3, rounding_mode="floor")
        g = torch.stack([x, f])
        return a, b.zero_(), c, d, e, g, torch.view_as_complex(x.reshape(-1, 2)) * (1 + 2j)


class Control(torch.nn.Module):
    """A higher-order op, with graphs as its arguments."""

    def forward(self, x):
        def double(x):
            return x * 2

        def negated(x):
            return -x.sin()

        return torch.cond(x.sum() > 0, double, negated, (x,))


@dataclasses.dataclass
class Example:
    """A model, and how it is called."""

    model: torch.nn.Module
    arguments: tuple
    keywords: dict = dataclasses.field(default_factory=dict)
    shapes: dict | None = None
    functional: bool = False  # exported without calls that write

    def exported(self):
        program = export(self.model, self.arguments, self.keywords, dynamic_shapes=self.shapes)
        return program.run_decompositions({}) if self.functional else program


def examples():
    n, m = Dim("n", min=2, max=64), Dim("m", min=2)
    shapes = {"x": {0: n}, "y": {0: m}, "scale": None}
    return {
        "linear": Example(Linear(), (torch.ones(5, 3),)),
        "dynamic": Example(Dynamic(), (torch.ones(4, 6), torch.ones(2, 6), 3), shapes=shapes),
        "state": Example(State(), (torch.ones(2, 4),), {"extra": None}, functional=True),
        "kinds": Example(Kinds(), (counted(3, 4), torch.tensor([0, 2]))),
        "control": Example(Control(), (torch.ones(3),)),
    }


def main(folder=FOLDER):
    warnings.simplefilter("ignore")
    Path(folder).mkdir(exist_ok=True)
    for name, example in examples().items():
        write(Path(folder) / f"{name}.pt2", example.exported())


if __name__ == "__main__":
    main(*sys.argv[1:])
