"""Three small models through tenon.compile and torch.compile: what is captured, how it is cut, and that it is right."""

import tenon
import torch


def relu_matmul_softmax(x, w):
    return torch.softmax(torch.relu(x) @ w, dim=-1)


def matmul_relu(x, w):
    return torch.relu(x @ w)


def sin_plus_cos(x):
    return torch.sin(x) + torch.cos(x)


x, w = torch.randn(4, 8), torch.randn(8, 16)
for function, args in ((relu_matmul_softmax, (x, w)), (matmul_relu, (x, w)), (sin_plus_cos, (x,))):
    program = tenon.compile(function, args)
    print(f"---- {function.__name__}\n{tenon.explain(program)}\n")
    torch.testing.assert_close(program(*args), function(*args))

    compiled = torch.compile(function, backend="tenon")
    torch.testing.assert_close(compiled(*args), function(*args))


# ---- what a backend of one's own gets: a graph of calls, and the Python code that FX makes of it ----
def looking_backend(module, inputs):
    for node in module.graph.nodes:
        print(f"{node.op:14} {node.name:10} {node.target} {tuple(map(str, node.args))}")
    print(module.code)
    return module.forward  # runs the graph as it is


torch.testing.assert_close(torch.compile(matmul_relu, backend=looking_backend)(x, w), matmul_relu(x, w))

# One compile serves every batch of the range.
batch = torch.export.Dim("batch", min=1, max=64)
program = tenon.compile(matmul_relu, (x, w), dynamic_shapes={"x": {0: batch}, "w": None})
for size in (1, 7, 64):
    x = torch.randn(size, 8)
    torch.testing.assert_close(program(x, w), matmul_relu(x, w))
try:
    program(torch.randn(65, 8), w)
except tenon.Error as error:
    print(error.message)
