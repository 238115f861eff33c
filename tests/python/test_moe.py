"""Mixtures of experts run without PyTorch: whole models of transformers, in inference, from a file and in training, and
the operators that they need."""

import pytest
import tenon
import tenon.capture.grouped
import torch
import transformers
from torch import nn

RNG = torch.Generator().manual_seed(0)
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
MODELS = ["mixtral", "qwen3_moe", "olmoe", "gpt_oss"]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Logits(nn.Module):
    def __init__(self, name, **options):
        super().__init__()
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(name, **(SIZES | options))
        self.model = transformers.AutoModelForCausalLM.from_config(config).eval()

    def forward(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits


def tokens_of(*shape):
    return torch.randint(3, 128, shape, generator=RNG)


# ---- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_here_and_from_a_file(name, tmp_path):
    model, tokens = Logits(name), tokens_of(2, 8)
    with torch.no_grad():
        expected = model(tokens)
    program = tenon.compile(model, (tokens,))
    assert program.unsupported == []
    torch.testing.assert_close(program(tokens), expected)
    program.save(tmp_path / "model.tenon")
    torch.testing.assert_close(torch.as_tensor(tenon.load(tmp_path / "model.tenon")(tokens)), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_has_the_gradients_of_eager(name):
    model, tokens = Logits(name, num_hidden_layers=1), tokens_of(2, 8)
    compiled = torch.compile(model, backend="tenon", fullgraph=True, options={"fallback": False})
    cotangent = torch.randn(2, 8, 128, generator=RNG)
    gradients = []
    for run in (compiled, model):
        model.zero_grad()
        run(tokens).backward(cotangent)
        gradients.append({name: x.grad.clone() for name, x in model.named_parameters() if x.grad is not None})
    torch.testing.assert_close(*gradients)
    assert any("experts" in name for name in gradients[0])


def test_a_model_in_bf16_runs():
    model, tokens = Logits("mixtral").bfloat16(), tokens_of(2, 8)
    program = tenon.compile(model, (tokens,))
    assert program.unsupported == []
    with torch.no_grad():
        torch.testing.assert_close(program(tokens), model(tokens), rtol=0.05, atol=0.05)


def test_tokens_may_be_of_any_number():
    model, tokens = Logits("mixtral"), tokens_of(2, 8)
    length = torch.export.Dim("length", min=2, max=64)
    program = tenon.compile(model, (tokens,), dynamic_shapes={"tokens": {1: length}})
    assert program.unsupported == []
    for tokens in (tokens_of(2, 5), tokens_of(2, 33)):
        with torch.no_grad():
            torch.testing.assert_close(program(tokens), model(tokens))


# ---- products by groups ----------------------------------------------------------------------------------------------


def test_grouped_mm_of_pytorch_and_its_gradient():
    dtype = torch.bfloat16  # PyTorch traces no other
    x, w = torch.randn(64, 48, generator=RNG).to(dtype), torch.randn(4, 40, 48, generator=RNG).to(dtype)
    offsets = torch.tensor([10, 10, 50, 64], dtype=torch.int32)
    cotangent = torch.randn(64, 40, generator=RNG).to(dtype)

    def product(x, w):
        return nn.functional.grouped_mm(x, w.mT, offs=offsets)

    results = []
    for run in (torch.compile(product, backend="tenon", options={"fallback": False}), product):
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        out = run(*leaves)
        out.backward(cotangent)
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(*results)


def test_our_operators_have_gradients():
    x, y, w = (torch.randn(*s, generator=RNG).double().requires_grad_() for s in ((7, 3), (7, 2), (3, 3, 2)))
    for offsets in ([2, 2, 5], [0, 0, 7], [5, 3, 9]):
        ends = torch.tensor(offsets)
        torch.autograd.gradcheck(lambda x, w, ends=ends: torch.ops.tenon.grouped_matmul(x, w, ends), (x, w))
        torch.autograd.gradcheck(lambda x, y, ends=ends: torch.ops.tenon.grouped_outer(x, y, ends), (x, y))


def test_rows_after_the_last_group_are_zero():
    x, w = torch.full((5, 2), torch.nan), torch.ones(2, 2, 3)
    x[:2] = 1
    program = tenon.compile(
        lambda x, w, o: torch.ops.transformers.grouped_mm_fallback(x, w, o), (x, w, torch.tensor([1, 2]))
    )
    assert program.unsupported == []
    out = program(x, w, torch.tensor([1, 2]))
    torch.testing.assert_close(out, torch.tensor([[2.0] * 3] * 2 + [[0.0] * 3] * 3))


# ---- counting and searching ------------------------------------------------------------------------------------------


def test_bincount_has_a_size_of_the_data(tmp_path):
    def counts(x, weights):
        found = torch.bincount(x, weights, minlength=3)
        return found, found * 2

    x, weights = torch.tensor([1, 4, 1]), torch.tensor([0.5, 1.0, 2.0])
    program = tenon.compile(counts, (x, weights))
    assert program.unsupported == []
    program.save(tmp_path / "counts.tenon")
    loaded = tenon.load(tmp_path / "counts.tenon")
    for integers in ([1, 4, 1], [9, 0, 9], [0, 0, 0]):
        x = torch.tensor(integers)
        torch.testing.assert_close(tuple(program(x, weights)), counts(x, weights))
        torch.testing.assert_close(tuple(map(torch.as_tensor, loaded(x, weights))), counts(x, weights))


def test_bincount_names_what_it_cannot_count():
    program = tenon.compile(torch.bincount, (torch.tensor([1, 2]),))
    with pytest.raises(tenon.Error, match="-7 is among the integers: they must not be negative"):
        program(torch.tensor([3, -7]))
    with pytest.raises(tenon.Error, match=r"is too large|memory|bytes"):
        program(torch.tensor([3, 1 << 60]))


def test_long_lines_take_no_square_of_the_time():
    """400,000 x 400,000 comparisons take minutes."""

    def search(line, x):
        return torch.searchsorted(line, x), torch.bucketize(x, line, right=True), torch.isin(x, line)

    def most_frequent(x):
        return torch.mode(x).values

    line, x = torch.rand(400_000, generator=RNG).sort()[0], torch.rand(400_000, generator=RNG)
    x[::7] = line[::7]
    torch.testing.assert_close(tuple(tenon.compile(search, (line, x))(line, x)), search(line, x))
    x = torch.randint(0, 100_000, (300_000,), generator=RNG)
    torch.testing.assert_close(tenon.compile(most_frequent, (x,))(x), most_frequent(x))
