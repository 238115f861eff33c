"""Tensors of device "lazy" behave as those of the CPU do: writes in place, views, random numbers, files, threads. And
each call that was recorded runs once, whoever asks for which result."""

import copy
import io
import pickle
import threading
import time

import pytest
import tenon
import tenon.lazy
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.python import lazy_device

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def lazy_device_of_tenon():
    lazy_device.start()


def both(function, *tensors):
    """What it gives on the CPU and on the lazy device, where Tenon runs all of it."""
    expected = function(*(tensor.clone() for tensor in tensors))
    result = function(*(tensor.to("lazy") for tensor in tensors))
    torch.testing.assert_close([x.cpu() for x in as_list(result)], as_list(expected))
    metrics = tenon.lazy.metrics()
    assert metrics["torchscript_runs"] == 0
    return metrics


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ---- modes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode",
    [
        lambda: torch.device("lazy"),
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    ],
    ids=["device", "inference", "no grad", "autocast"],
)
def test_a_step_under_a_mode_of_the_caller(mode):
    weight = torch.rand(3, 3)
    lazy = weight.to("lazy")
    with mode():
        total = F.dropout(lazy @ lazy, 0.0).sum()
        masked = F.dropout(lazy, 0.5)
        tenon.lazy.mark_step()
        value = total.item()
    assert value == pytest.approx((weight @ weight).sum().item(), rel=1e-2)
    assert masked.cpu().dtype == torch.float32


def test_the_device_as_default():
    torch.set_default_device("lazy")
    try:
        model = torch.nn.Linear(3, 2)
        result = model(F.dropout(torch.ones(4, 3), 0.5))
        tenon.lazy.mark_step()
    finally:
        torch.set_default_device(None)
    assert result.cpu().shape == (4, 2)


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(f"seen: {func}")


def test_a_step_under_a_mode_that_sees_calls():
    value = F.dropout(torch.ones(8).to("lazy"), 0.5) * 3
    with Seen():
        tenon.lazy.mark_step()
    assert set(value.cpu().tolist()) <= {0.0, 6.0}


# ---- each recorded call runs once -----------------------------------------------------------------------------------


def trained(model, read, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.linspace(-1, 1, 32).reshape(4, 8).to(model.weight.device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if read == "before backward":
            losses.append(loss.item())
        loss.backward()
        optimizer.step()
        if read == "after the step":
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("read", ["after the step", "before backward"])
def test_a_loss_that_is_read_without_mark_step(read):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 3)
    losses = trained(copy.deepcopy(model).to("lazy"), read, 12)
    torch.testing.assert_close(losses, trained(model, read, 12))
    metrics = tenon.lazy.metrics()
    assert metrics["compiles"] <= 3
    assert metrics["runs"] == 12
    assert metrics["hits"] >= 9


def test_what_shares_nothing_waits():
    x = torch.ones(4).to("lazy")
    a, b = x + 1, torch.nn.functional.embedding(torch.tensor([7]).to("lazy"), torch.ones(3, 2).to("lazy"))
    assert a.cpu().tolist() == [2] * 4
    with pytest.raises(RuntimeError, match="7"):
        b.cpu()


def test_the_hash_of_a_graph_runs_nothing():
    total = torch.ones(3).to("lazy") + 1
    first = torch._C._lazy._get_graph_hash([total])
    assert torch._C._lazy._get_graph_hash([total]) == first
    assert tenon.lazy.metrics()["runs"] == 0
    assert total.cpu().tolist() == [2] * 3


def test_many_writes_are_one_graph():
    def write(y):
        for i in range(40):
            y[i] += 0.1
        return y

    metrics = both(write, torch.zeros(50))
    assert (metrics["compiles"], metrics["runs"], metrics["fallbacks"]) == (1, 1, {})


# ---- writes in place, and views -------------------------------------------------------------------------------------

WRITES = {
    "elements": lambda x: x[1].copy_(x[0] * 2),
    "a number": lambda x: x.__setitem__((0, 1), 7.0),
    "slices": lambda x: x[:, 1:3].add_(x[:, 2:4]),
    "steps": lambda x: x[::2, ::3].mul_(-1),
    "another dtype": lambda x: x.copy_(torch.arange(12, device=x.device).reshape(3, 4)),
    "one row to all": lambda x: x.copy_(torch.arange(4.0, device=x.device)),
    "from the CPU": lambda x: x[2].copy_(torch.arange(4.0)),
    "by index": lambda x: x.__setitem__(torch.tensor([2, 0], device=x.device), 3.0),
    "by index, added": lambda x: x.index_put_((torch.tensor([1, 1], device=x.device),), x[:2] * 1, accumulate=True),
    "by mask": lambda x: x.__setitem__(x > 0.5, 0.0),
    "masked fill": lambda x: x.masked_fill_(x > 0.5, -1.0),
    "a diagonal": lambda x: x.diagonal().zero_(),
    "a transpose": lambda x: x.t()[1].add_(1),
    "a view of a view": lambda x: x.view(4, 3)[1:].reshape(-1)[2:5].unsqueeze(0).exp_(),
    "as strided": lambda x: x.as_strided((2, 2), (4, 1), 1).add_(5),
    "chunks": lambda x: [part.mul_(number) for number, part in enumerate(x.chunk(2, 1))],
    "unbind": lambda x: x.unbind(0)[1].fill_(2),
    "narrow, squeeze": lambda x: x.narrow(0, 1, 1).squeeze(0).sqrt_(),
    "fill, zero": lambda x: (x[0].fill_(3), x[1].zero_()),
    "scatter": lambda x: x.scatter_(1, torch.tensor([[0], [2], [1]], device=x.device), 9.0),
    "out=": lambda x: torch.add(x[0], 1, out=x[2]),
    "twice": lambda x: (x.add_(1), x[0].mul_(2), x.sub_(x[0].clone())),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    def write(x):
        before = x.clone()
        view = x[1:]
        WRITES[name](x)
        return x, view, before, x + view.sum()

    assert both(write, torch.arange(12.0).reshape(3, 4) / 12)["fallbacks"] == {}


def test_a_view_and_its_base_after_a_step():
    x = torch.zeros(2, 3).to("lazy")
    row = x[0]
    x.add_(1)
    tenon.lazy.mark_step()
    row.add_(1)
    assert x.sum().item() == 9
    x.zero_()
    assert row.cpu().tolist() == [0, 0, 0]


def test_gradients_through_writes():
    def gradient(x):
        x = x.requires_grad_()
        y = x * 1
        y[0] = y[1] * 2
        y[:, 1].mul_(3)
        (result,) = torch.autograd.grad(y.square().sum(), x)
        return result

    both(gradient, torch.rand(3, 4))


def test_copies_to_the_cpu():
    x = torch.arange(3.0).to("lazy") * 2
    target = torch.zeros(2, 3, dtype=torch.float64)
    assert target.copy_(x) is target
    assert target.tolist() == [[0, 2, 4]] * 2
    target[0].copy_(x + 1)
    assert target.tolist() == [[1, 3, 5], [0, 2, 4]]
    with torch.inference_mode():
        target.copy_(x)
    assert target.tolist() == [[0, 2, 4]] * 2
    weight = torch.ones(3, device="lazy", requires_grad=True)
    (torch.zeros(3).copy_(weight * 2) * 3).sum().backward()
    assert weight.grad.cpu().tolist() == [6, 6, 6]


def test_lists_of_tensors_come_first():
    metrics = both(lambda a, b: torch._chunk_cat([a, b], 0, 2), torch.rand(2, 3), torch.rand(3, 3))
    assert metrics["fallbacks"] == {}


MASKED = {
    "read": lambda x, mask, index: aten._unsafe_masked_index(x, mask, [index], 5.0),
    "added": lambda x, mask, index: aten._unsafe_masked_index_put_accumulate(x, mask, [index], mask * 2.0),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_indices(name):
    both(MASKED[name], torch.rand(4), torch.tensor([True, False, True]), torch.tensor([1, 9, 3]))


@pytest.mark.parametrize("op", [aten._native_batch_norm_legit, aten._batch_norm_with_update], ids=str)
def test_batch_norm_of_bf16(op):
    x, one, zero = torch.rand(4, 3, 2), torch.ones(3), torch.zeros(3)
    flags = (True,) if op is aten._native_batch_norm_legit else ()

    def normalized(*given):
        mean, variance = given[3:]
        return [op(*given, *flags, 0.1, 1e-5)[0], mean, variance]

    both(normalized, *(tensor.bfloat16() for tensor in (x, one, zero, zero, one)))


def test_a_cast_to_what_tenon_lacks_says_so():
    eighths = (torch.ones(3).to("lazy") * 2).to(torch.float8_e4m3fn).cpu()
    assert eighths.float().tolist() == [2, 2, 2]
    (reason,) = tenon.lazy.metrics()["refused"]
    assert "float8_e4m3fn" in reason


# ---- random numbers -------------------------------------------------------------------------------------------------

DRAWS = {
    "uniform_": lambda x, g: x.uniform_(generator=g),
    "normal_": lambda x, g: x.normal_(generator=g),
    "bernoulli": lambda x, g: torch.bernoulli(x, generator=g),
    "bernoulli_": lambda x, g: x.bernoulli_(0.5, generator=g),
    "random_": lambda x, g: x.random_(generator=g),
    "random_ to": lambda x, g: x.random_(1000, generator=g),
    "exponential_": lambda x, g: x.exponential_(generator=g),
    "geometric_": lambda x, g: x.geometric_(0.1, generator=g),
    "cauchy_": lambda x, g: x.cauchy_(generator=g),
    "log_normal_": lambda x, g: x.log_normal_(generator=g),
    "rand": lambda x, g: torch.rand(8, generator=g, device="lazy"),
    "randn": lambda x, g: torch.randn(8, generator=g, device="lazy"),
    "randn complex": lambda x, g: torch.randn(8, generator=g, device="lazy", dtype=torch.complex64),
    "randint": lambda x, g: torch.randint(1000, (8,), generator=g, device="lazy"),
    "randperm": lambda x, g: torch.randperm(8, generator=g, device="lazy"),
    "multinomial": lambda x, g: torch.multinomial(x, 4, generator=g),
    "normal": lambda x, g: torch.normal(x, x, generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_generators(name):
    def draw(seed):
        return DRAWS[name](torch.full((8,), 0.5).to("lazy"), torch.Generator().manual_seed(seed)).cpu()

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = draw(5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(first, draw(5))
    assert any(not torch.equal(first, draw(seed)) for seed in (6, 7, 8, 9))


def test_a_generator_goes_on():
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.rand(8, generator=generator, device="lazy") for _ in range(2))
    generator.manual_seed(1)
    again = [torch.rand(8, generator=generator, device="lazy").cpu() for _ in range(2)]
    assert torch.equal(first.cpu(), again[0])
    assert torch.equal(second.cpu(), again[1])
    assert not torch.equal(*again)


def test_random_numbers_are_drawn_once():
    noise = torch.rand(8, device="lazy")
    one, two = noise + 0, noise * 1
    seen = one.cpu()
    assert torch.equal(seen, two.cpu())
    assert torch.equal(seen, noise.cpu())
    assert torch.equal(seen, (noise * 2).cpu() / 2)


def test_seeds_count_when_a_call_is_recorded():
    torch.manual_seed(3)
    first = torch.rand(8, device="lazy")
    torch.manual_seed(4)
    other = torch.rand(8, device="lazy")
    torch.manual_seed(3)
    again = torch.rand(8, device="lazy")
    tenon.lazy.mark_step()
    assert torch.equal(first.cpu(), again.cpu())
    assert not torch.equal(first.cpu(), other.cpu())


# ---- files, checkpoints ---------------------------------------------------------------------------------------------


def test_files():
    model = torch.nn.Linear(2, 3).to("lazy")
    file = io.BytesIO()
    torch.save({**model.state_dict(), "twice": model.weight * 2}, file)
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")
    torch.testing.assert_close(on_cpu["weight"], model.weight.detach().cpu())
    torch.testing.assert_close(on_cpu["twice"].detach(), model.weight.detach().cpu() * 2)
    file.seek(0)
    assert torch.load(file)["bias"].device.type == "lazy"
    again = pickle.loads(pickle.dumps(model))
    assert again.weight.requires_grad
    assert torch.equal(again.weight.detach().cpu(), model.weight.detach().cpu())
    assert torch.equal(pickle.loads(pickle.dumps(torch.ones(3))), torch.ones(3))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(use_reentrant):
    def forward(x):
        return F.dropout(x * 2, 0.5).sin()

    torch.manual_seed(0)
    x = torch.ones(64, device="lazy", requires_grad=True)
    y = checkpoint(forward, x, use_reentrant=use_reentrant)
    y.sum().backward()
    tenon.lazy.mark_step()
    kept = (y != 0).detach().cpu()
    assert torch.equal(x.grad.cpu() != 0, kept)
    assert 0 < kept.sum() < 64


def test_autocast_on_the_device_is_refused():
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'lazy'"):
        torch.autocast("lazy", dtype=torch.bfloat16)


# ---- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [tenon.lazy.mark_step, lambda: None], ids=["steps", "values"])
def test_threads_that_record_at_once(end):
    failures = []

    def work(number):
        try:
            weight = torch.full((8,), float(number)).to("lazy")
            for _ in range(60):
                weight = weight * 1.5 - weight * 0.5
                end()
            assert weight.cpu().tolist() == [float(number)] * 8
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_a_thread_recorded_is_everybodys_when_it_has_ended():
    made = []
    thread = threading.Thread(target=lambda: made.append(torch.ones(3).to("lazy") + 1))
    thread.start()
    thread.join()
    for _ in range(1200):  # Python's threads end a moment before the system's do
        tenon.lazy.mark_step()
        if tenon.lazy.metrics()["runs"]:
            break
        time.sleep(0.05)
    assert tenon.lazy.metrics()["runs"] == 1
    assert made[0].cpu().tolist() == [2] * 3


# ---- mistakes, counters, versions -----------------------------------------------------------------------------------


def test_what_torch_resets_stays_counted():
    x = torch.tensor([3.0, 1.0]).to("lazy")
    for _ in range(3):
        torch.unique(x)
    tenon.lazy.reset_metrics()
    torch.unique(x)
    torch._lazy.metrics.reset()
    torch.unique(x)
    assert tenon.lazy.metrics()["fallbacks"] == {"aten::_unique2": 2}


def test_overloads_that_this_torch_lacks_are_left_out():
    """One of them has a name in Python, and is TorchScript's alone, as aten::dim is in some versions."""
    known = ["aten.Float.Tensor", "aten._cslt_sparse_mm.default", "aten.no_such_op.default", "aten.cos.gone"]
    names = tenon.lazy._extension.names_to_record(known)
    assert names[0] == "aten::_cslt_sparse_mm"
    assert "aten::pixel_shuffle" in names
    assert len(names) == 1 + len(tenon.lazy._extension.names_to_record([]))
