import aten_calls
import torch
from core_aten_samples import SAMPLES as CORE
from core_aten_samples import call, f

F32, BF16 = torch.float32, torch.bfloat16
TRAINED = CORE["aten._native_batch_norm_legit.default"]
NORMALIZED = CORE["aten.native_layer_norm.default"]


def without_training(samples):
    return [call(*args[:5], *args[6:]) for args, _ in samples]


def backward(train, output_mask, weight=True):
    x, mean, var = f(4, 3, 2), f(3), f(3, low=0.1)
    weight = f(3) if weight else None
    saved = (
        torch.ops.aten.native_batch_norm(x, weight, None, None, None, True, 0.1, 1e-5)[1:] if train else [None, None]
    )
    return call(f(4, 3, 2), x, weight, mean, var, *saved, train, 1e-5, output_mask)


def narrow_batch_norm(parameters):
    """Statistics have the dtype of the parameters."""
    statistics = f(3, dtype=parameters), f(3, low=0.1, dtype=parameters)
    return call(f(4, 3, 2, dtype=BF16), f(3, dtype=parameters), f(3, dtype=parameters), *statistics, True, 0.1, 1e-5)


def rms_backward(x, rank, weight, output_mask):
    shape = list(x.shape[x.ndim - rank :])
    rstd = torch.ops.aten._fused_rms_norm(x, shape, weight, 1e-5)[1]
    return call(f(*x.shape), x, shape, rstd, weight, output_mask)


def weights(dim):
    v = f(3, 4, 2)
    sizes = [size if d == dim % 3 else 1 for d, size in enumerate(v.shape)]
    return v, f(*sizes), dim


def weight_backward(dim):
    v, g, _ = weights(dim)
    return call(f(3, 4, 2), v, g, torch.norm_except_dim(v, 2, dim), dim)


# ---- judging what PyTorch's schema does not say that it writes -------------------------------------------------------


def check_written(call, name, args, kwargs):
    """The running statistics, too: they are the graph's updates."""
    tensors, args = aten_calls.copied(call.tensors), aten_calls.copied(list(args))
    mine = [torch.from_dlpack(x) for x in aten_calls.listed(call.graph.evaluate(*tensors))]
    theirs = aten_calls.listed(aten_calls.overload_named(name)(*args, **kwargs))
    aten_calls.check_alike(mine, theirs)
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(tensors, [x for x in args if isinstance(x, torch.Tensor)])


def check_first_three(call, name, args, kwargs):
    """What else it gives, only its own kernel understands."""
    mine, theirs = call.evaluate(), aten_calls.eager(name, args, kwargs)
    for a, b in zip(mine[:3] + mine[4:], theirs[:3] + theirs[4:], strict=True):
        torch.testing.assert_close(a, b)


def check_rms_backward(call, name, args, kwargs):
    """PyTorch has it for other devices only."""
    grad, x, shape, _, weight, output_mask = args
    operands = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    theirs = torch.autograd.grad(torch.nn.functional.rms_norm(operands[0], shape, operands[1], 1e-5), operands, grad)
    for a, b, wanted in zip(call.evaluate(), theirs, output_mask, strict=True):
        assert (a is not None) == wanted
        if wanted:
            torch.testing.assert_close(a, b)


SAMPLES = {
    "aten.batch_norm.default": [call(*args, False) for args, _ in TRAINED]
    + [call(f(3, 2), f(2), f(2), None, None, True, 0.1, 1e-5, False)],
    "aten.native_batch_norm.default": TRAINED,
    "aten._native_batch_norm_legit_functional.default": [*TRAINED, narrow_batch_norm(F32)],
    "aten._batch_norm_with_update.default": without_training(TRAINED[:2]),
    "aten._batch_norm_with_update_functional.default": without_training(TRAINED[:2]),
    "aten._batch_norm_no_update.default": without_training(TRAINED),
    "aten.native_batch_norm_backward.default": [
        backward(True, [True, True, True]),
        backward(True, [True, False, True], weight=False),
        backward(False, [True, True, True]),
    ],
    "aten.batch_norm_backward.default": [
        call(*args, torch.empty(0))
        for args, _ in (backward(True, [True, True, True]), backward(False, [True, True, False]))
    ],
    "aten.layer_norm.default": [call(*args) for args, _ in NORMALIZED] + [call(f(2, 3), [3])],
    "aten.rms_norm.default": [
        call(f(3, 4), [4]),
        call(f(3, 4), [4], f(4), 1e-3),
        call(f(2, 3, 4), [3, 4], f(3, 4)),
        call(f(3, 4).half(), [4], f(4).half(), 1e-5),
        call(f(3, 4).half(), [4]),
    ],
    "aten._fused_rms_norm.default": [call(f(3, 4), [4], f(4), 1e-5), call(f(2, 3, 4), [3, 4], None, None)],
    "aten._fused_rms_norm_backward.default": [
        rms_backward(f(3, 4), 1, f(4), [True, True]),
        rms_backward(f(2, 3, 4), 2, f(3, 4), [True, False]),
    ],
    "aten.group_norm.default": [
        call(f(2, 4, 3), 2, f(4), f(4)),
        call(f(2, 4, 2, 3), 4, None, None, 1e-3),
        call(f(2, 6), 1),
    ],
    "aten.instance_norm.default": [
        call(f(2, 3, 4), f(3), f(3), None, None, True, 0.1, 1e-5, False),
        call(f(2, 3, 4, 2), None, None, f(3), f(3, low=0.1), True, 0.25, 1e-3, False),
        call(f(2, 3, 4), f(3), f(3), f(3), f(3, low=0.1), False, 0.1, 1e-5, False),
    ],
    "aten._weight_norm.default": [call(*weights(dim)) for dim in (0, 1, 2)],
    "aten._weight_norm_interface.default": [call(*weights(dim)) for dim in (0, 2)],
    "aten._weight_norm_interface_backward.default": [weight_backward(dim) for dim in (0, 2)],
    "aten._weight_norm_differentiable_backward.default": [weight_backward(dim) for dim in (0, 2)],
    "aten.norm_except_dim.default": [call(f(3, 4), 2, 0), call(f(3, 4, 2), 1, 2), call(f(3, 4), 2, -1)],
}

CHECKS = {
    "aten._fused_rms_norm_backward.default": check_rms_backward,
    "aten.batch_norm.default": check_written,
    "aten.native_batch_norm.default": check_written,
    "aten.instance_norm.default": check_written,
    "aten._batch_norm_with_update.default": check_first_three,
    "aten._batch_norm_with_update_functional.default": check_first_three,
    "aten._batch_norm_no_update.default": check_first_three,
}
