"""Random graphs with a twin in PyTorch: every step is added to both."""

import random
from dataclasses import dataclass

import tenon
import torch
import torch.nn.functional as F
from tenon import ops

MOST_ELEMENTS = 200


@dataclass
class Twin:
    """A value of a graph, and the tensor that it should be."""

    value: tenon.Value
    tensor: torch.Tensor

    @property
    def shape(self):
        return tuple(self.tensor.shape)

    @property
    def rank(self):
        return self.tensor.dim()


def of_one(ours, theirs):
    return lambda make, x: (ours(x.value), theirs(x.tensor))


# Bounded, or on arguments that keep them so: values stay where differences are rounding.
UNARY = [
    of_one(ops.tanh, torch.tanh),
    of_one(ops.sin, torch.sin),
    of_one(ops.cos, torch.cos),
    of_one(ops.sigmoid, torch.sigmoid),
    of_one(ops.relu, torch.relu),
    of_one(ops.gelu, F.gelu),
    of_one(ops.silu, F.silu),
    of_one(ops.abs, torch.abs),
    of_one(ops.erf, torch.erf),
    of_one(ops.softplus, F.softplus),
    of_one(ops.neg, torch.neg),
    of_one(ops.elu, F.elu),
    of_one(lambda x: ops.exp(ops.tanh(x)), lambda x: torch.exp(torch.tanh(x))),
    of_one(lambda x: ops.log1p(x * x), lambda x: torch.log1p(x * x)),
    of_one(lambda x: ops.sqrt(x * x + 1), lambda x: torch.sqrt(x * x + 1)),
    of_one(lambda x: ops.rsqrt(x * x + 1), lambda x: torch.rsqrt(x * x + 1)),
    of_one(lambda x: x * 0.5 + x, lambda x: x * 0.5 + x),
]


def of_two(ours, theirs):
    return lambda make, x, y: (ours(x.value, y.value), theirs(x.tensor, y.tensor))


BINARY = [
    of_two(lambda a, b: a + b, torch.add),
    of_two(lambda a, b: a - b, torch.sub),
    of_two(lambda a, b: ops.tanh(a) * b, lambda a, b: torch.tanh(a) * b),
    of_two(lambda a, b: a / (b * b + 1), lambda a, b: a / (b * b + 1)),
    of_two(ops.maximum, torch.maximum),
    of_two(ops.minimum, torch.minimum),
    of_two(ops.hypot, torch.hypot),
    of_two(lambda a, b: ops.where(a < b, a, b * 2), lambda a, b: torch.where(a < b, a, b * 2)),
]


def fold(make, x):
    dims = make.dims(x)
    keep = make.chance(0.5)
    ours, theirs = make.random.choice(
        [(ops.sum, torch.sum), (ops.mean, torch.mean), (ops.amax, torch.amax), (ops.amin, torch.amin)]
    )
    return ours(x.value, dims=dims, keepdim=keep), theirs(x.tensor, dim=dims, keepdim=keep)


def normalize(make, x):
    dim = make.dim(x)
    ours, theirs = make.random.choice([(ops.softmax, F.softmax), (ops.log_softmax, F.log_softmax)])
    return ours(x.value, dim=dim), theirs(x.tensor, dim=dim)


def layer_norm(make, x):
    out = ops.layer_norm(x.value, normalized_rank=1, eps=0.1)[0]
    return out, F.layer_norm(x.tensor, x.shape[-1:], eps=0.1)


def cumsum(make, x):
    dim = make.dim(x)
    return ops.cumsum(x.value, dim=dim), torch.cumsum(x.tensor, dim)


def logsumexp(make, x):
    dims = make.dims(x)
    return ops.logsumexp(x.value, dims=dims), torch.logsumexp(x.tensor, dims)


def permute(make, x):
    order = make.random.sample(range(x.rank), x.rank)
    return ops.permute(x.value, dims=order), x.tensor.permute(order)


def reshape(make, x):
    shape = [x.tensor.numel()] if make.chance(0.5) else [*x.shape[1:], 1, x.shape[0]]
    return ops.reshape(x.value, shape=shape), x.tensor.reshape(shape)


def piece(make, x):
    dim = make.dim(x)
    size = x.shape[dim]
    start = make.random.randrange(size)
    end = make.random.randrange(start, size) + 1
    step = make.random.choice([1, 1, 2])
    ours = ops.slice(x.value, dim=dim, start=start, end=end, step=step)
    return ours, x.tensor[(slice(None),) * dim + (slice(start, end, step),)]


def flip(make, x):
    dims = make.dims(x)
    return ops.flip(x.value, dims=dims), x.tensor.flip(dims)


def pad(make, x):
    low, high = ([make.random.randrange(2) for _ in range(x.rank)] for _ in range(2))
    amounts = [n for pair in zip(reversed(low), reversed(high), strict=True) for n in pair]
    return ops.pad(x.value, low=low, high=high, value=0.5), F.pad(x.tensor, amounts, value=0.5)


def concat(make, x, y):
    dim = make.dim(x)
    return ops.concat([x.value, y.value], dim=dim), torch.cat([x.tensor, y.tensor], dim)


def gather(make, x):
    dim = make.dim(x)
    index = torch.randint(x.shape[dim], x.shape, generator=make.generator)
    return ops.gather(x.value, make.graph.constant(index), dim=dim), x.tensor.gather(dim, index)


def select(make, x):
    dim = make.dim(x)
    index = torch.randint(x.shape[dim], (make.random.randint(1, 4),), generator=make.generator)
    return ops.index_select(x.value, make.graph.constant(index), dim=dim), x.tensor.index_select(dim, index)


def matmul(make, x):
    other = make.leaf((x.shape[-1], make.size()))
    return ops.matmul(x.value, other.value) * 0.5, x.tensor @ other.tensor * 0.5


def product_with_itself(make, x):
    return ops.matmul(x.value, ops.transpose(x.value, dim0=-2, dim1=-1)), x.tensor @ x.tensor.mT


def conv(make, x):
    weight = make.leaf((make.size(), x.shape[1], 2))
    settings = {"stride": make.random.choice([1, 2]), "padding": 1, "dilation": make.random.choice([1, 2])}
    return ops.conv(x.value, weight.value, **settings), F.conv1d(x.tensor, weight.tensor, **settings)


def pool(make, x):
    ours = ops.max_pool(x.value, kernel=[2], stride=[1], padding=[1])[0]
    return ours, F.max_pool1d(x.tensor, 2, 1, 1)


ANY = [fold, normalize, layer_norm, cumsum, logsumexp, permute, reshape, piece, flip, pad, gather, select, matmul]


class RandomGraph:
    """f64, of a few leaves and `steps` ops. `loss` is one number that depends on all that nothing else uses."""

    def __init__(self, seed, steps=10):
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.graph = tenon.Graph("random")
        self.leaves, self.twins, self.used = [], [], set()
        for _ in range(self.random.randint(1, 3)):
            self.leaf(tuple(self.size() for _ in range(self.random.randint(1, 3))))
        for _ in range(steps):
            self.step()
        self.loss = self.sum_of_ends()

    def chance(self, probability):
        return self.random.random() < probability

    def size(self):
        return self.random.choice([1, 2, 3, 4, 5])

    def dim(self, x):
        return self.random.randrange(x.rank)

    def dims(self, x):
        return sorted(self.random.sample(range(x.rank), self.random.randint(1, x.rank)))

    def leaf(self, shape):
        data = torch.randn(shape, dtype=torch.float64, generator=self.generator)
        name = f"x{len(self.leaves)}"
        value = self.graph.input(name, f"f64[{', '.join(map(str, shape))}]")
        twin = Twin(value, data.requires_grad_())
        self.leaves.append((name, twin))
        self.twins.append(twin)
        return twin

    def step(self):
        x = self.random.choice(self.twins)
        if x.rank == 0 or x.tensor.numel() > MOST_ELEMENTS or self.chance(0.3):
            return self.add(self.random.choice(UNARY), x)
        alike = [y for y in self.twins if self.broadcasts(x, y)]
        if self.chance(0.4):
            return self.add(self.random.choice(BINARY), x, self.random.choice(alike))
        same = [y for y in self.twins if y.shape == x.shape]
        if self.chance(0.1):
            return self.add(concat, x, self.random.choice(same))
        if x.rank == 3 and self.chance(0.5):
            return self.add(self.random.choice([conv, pool, product_with_itself]), x)
        return self.add(self.random.choice(ANY), x)

    @staticmethod
    def broadcasts(x, y):
        try:
            return torch.broadcast_shapes(x.shape, y.shape).numel() <= MOST_ELEMENTS
        except RuntimeError:
            return False

    def add(self, make, *operands):
        value, tensor = make(self, *operands)
        self.used.update(id(operand) for operand in operands)
        self.twins.append(Twin(value, tensor))

    def sum_of_ends(self):
        ends = [twin for twin in self.twins if id(twin) not in self.used]
        values = [ops.sum(twin.value * 0.7) for twin in ends]
        tensors = [(twin.tensor * 0.7).sum() for twin in ends]
        total = values[0]
        for value in values[1:]:
            total = total + value
        self.graph.output(total)
        return sum(tensors[1:], tensors[0])
