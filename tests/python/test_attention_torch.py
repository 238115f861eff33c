"""Attention in machine code is as exact as PyTorch's: its error against f64 is at most twice as large."""

import pytest
import tenon
import tenon.loops as tl
import torch
import torch.nn.functional as F
from tenon import ops

NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.bool: "bool"}


def type_of(tensor):
    return f"{NAMES[tensor.dtype]}[{', '.join(str(size) for size in tensor.shape)}]"


def attention(*operands, **attrs):
    graph = tenon.Graph("attention")
    values = [graph.input(f"in{i}", type_of(operand)) for i, operand in enumerate(operands)]
    graph.output(ops.scaled_dot_product_attention(*values, **attrs))
    kernel = tl.compile(tl.schedule(tl.lower(graph), "cpu"), "cpu")
    query, value = operands[0], operands[2]
    out = torch.full((*query.shape[:-1], value.shape[-1]), float("nan"), dtype=query.dtype)
    kernel.prepare([*operands, out])()
    return out


def torch_attention(query, key, value, mask=None, causal=False, enable_gqa=False):
    return F.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, enable_gqa=enable_gqa)


def wide(operand):
    return operand if operand.dtype == torch.bool else operand.double()


def root_mean_square(x):
    return x.double().square().mean().sqrt().item()


CASES = {
    "one block": ((2, 100, 64), (2, 100, 64), {}),
    "many blocks": ((2, 64, 64), (2, 2048, 64), {}),
    "ragged": ((3, 77, 40), (3, 1001, 40), {}),
    "causal": ((2, 700, 64), (2, 700, 64), {"causal": True}),
    "one query": ((4, 1, 128), (4, 3000, 128), {}),
    "shared heads": ((1, 6, 50, 32), (1, 2, 300, 32), {"enable_gqa": True}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=NAMES.get)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("spread", [1, 8])
def test_is_as_exact_as_torch(case, dtype, spread):
    query_shape, key_shape, attrs = CASES[case]
    torch.manual_seed(0)
    query = (torch.randn(query_shape) * spread).to(dtype)
    key, value = (torch.randn(key_shape).to(dtype) for _ in range(2))
    expected = torch_attention(query.double(), key.double(), value.double(), **attrs)
    error = root_mean_square(attention(query, key, value, **attrs) - expected)
    allowed = root_mean_square(torch_attention(query, key, value, **attrs) - expected)
    assert error <= 2 * allowed


@pytest.mark.parametrize("kind", ["bool", "f32"])
def test_is_as_exact_as_torch_with_a_mask(kind):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 300, 64) for _ in range(3))
    mask = torch.rand(300, 300) > 0.5 if kind == "bool" else torch.randn(2, 300, 300)
    expected = torch_attention(*map(wide, (query, key, value, mask)))
    error = root_mean_square(attention(query, key, value, mask) - expected)
    assert error <= 2 * root_mean_square(torch_attention(query, key, value, mask) - expected)
