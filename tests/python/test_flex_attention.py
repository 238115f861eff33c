"""torch's flex_attention, a call that takes graphs, runs as calls of tensors."""

import pytest
import tenon
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

TOLERANCES = {torch.float16: {"rtol": 1e-3, "atol": 1e-4}}  # weights of attention are rounded to f16


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="tenon", options={"fallback": False}, **options)


def operands(dtype, length=50):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, heads, length, 16, generator=generator).to(dtype) for heads in (4, 2, 2)]


def distance(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1, enable_gqa=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_scores_are_changed_by_a_function(dtype):
    given = operands(dtype)
    torch.testing.assert_close(compiled(distance)(*given), distance(*given), **TOLERANCES.get(dtype, {}))


def test_sizes_may_change():
    fast = compiled(distance, dynamic=True)
    for length in (50, 33, 7):
        given = operands(torch.float32, length)
        torch.testing.assert_close(fast(*given), distance(*given))


def test_a_block_mask_and_logsumexp():
    mask = create_block_mask(lambda b, h, i, j: (i - j).abs() < 20, None, None, 50, 50, device="cpu")

    def function(q, k, v):
        return flex_attention(q.sin(), k, v, block_mask=mask, enable_gqa=True, return_lse=True)

    given = operands(torch.float32)
    torch.testing.assert_close(compiled(function)(*given), function(*given))


class Biased(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5, 3.0]))

    def forward(self, q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * self.bias[h], enable_gqa=True)


@torch.no_grad()
def test_a_captured_parameter_and_a_file(tmp_path):
    model, given = Biased().eval(), operands(torch.float32)
    program = tenon.compile(model, tuple(given), fallback=False)
    program.save(tmp_path / "flex.tenon")
    for run in (compiled(model), program, tenon.load(tmp_path / "flex.tenon")):
        torch.testing.assert_close(run(*given), model(*given))


def test_calls_that_stay_with_pytorch_get_tuples():
    """PyTorch's higher-order operators join tuples among their arguments."""
    from tenon.capture import decompose
    from torch._higher_order_ops.flex_attention import flex_attention as call

    given = operands(torch.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(decompose._HIGHER_ORDER, call)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"higher_order\.flex_attention"):
            compiled(distance)(*given)
        torch._dynamo.reset()
        result = torch.compile(distance, backend="tenon")(*given)
    torch.testing.assert_close(result, distance(*given))
