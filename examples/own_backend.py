"""A backend of one's own in a page. Tenon captures the model and lowers it to a small set of ops; the registry of ops
and the library of kernels are yours. What the library lacks stays with PyTorch."""

import tenon
import torch

# ---- the kernel library of a device: NumPy here, a driver in earnest ----
LIBRARY = {}


def kernel(op):
    """Registers a kernel for an op of Tenon. It gets the operands, then the attributes by name."""

    def register(function):
        LIBRARY[op] = function
        return function

    return register


@kernel("maximum")
def _(a, b):
    return torch.maximum(a, b)


@kernel("matmul")
def _(a, b):
    return a @ b


@kernel("relu")
def _(x):
    return x.clamp(min=0)


# ---- the backend: what torch.compile calls with each graph ----
class Device:
    def __init__(self, module, inputs):
        self.program = tenon.compile(module, tuple(inputs), freeze=False)
        self.graph = self.program.graph
        missing = sorted({node.op.name for node in self.graph.nodes} - LIBRARY.keys())
        self.is_whole = not missing
        print(f"Segment 0: {'device' if self.is_whole else 'PyTorch'} ({len(self.graph.nodes)} ops)", *missing)

    def __call__(self, *inputs):
        if not self.is_whole:
            return self.program(*inputs)
        values = dict(zip(map(str, self.graph.inputs), inputs, strict=True))
        values |= {str(leaf.value): torch.from_dlpack(leaf.data) for leaf in self.graph.leaves if leaf.data is not None}
        for node in self.graph.nodes:
            operands = [values[str(operand)] for operand in node.operands]
            values[str(node.results[0])] = LIBRARY[node.op.name](*operands, **node.attrs)
        return tuple(values[str(output)] for output in self.graph.outputs)


@torch.compile(backend=Device)
def matmul_relu(x, w):
    return torch.relu(x @ w)


@torch.compile(backend=Device)
def softmax(x):
    return torch.softmax(x, dim=-1)


x, w = torch.randn(4, 8), torch.randn(8, 16)
torch.testing.assert_close(matmul_relu(x, w), torch.relu(x @ w))
torch.testing.assert_close(softmax(x), torch.softmax(x, dim=-1))
