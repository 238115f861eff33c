"""The operators of PT2E's quantized models. Integers are equal to PyTorch's."""

import torch
import torch.ao.quantization.fx._decomposed
from core_aten_samples import F64, I32, RANDOM, call, f

I8, U8, I16, F32 = torch.int8, torch.uint8, torch.int16, torch.float32
BYTE, SIGNED = (0, 255, U8), (-128, 127, I8)
# Halves, which round to even; what is cut off; signed zeros.
HALVES = torch.tensor([0.25, 0.75, 1.25, -0.25, -0.75, 1e9, -1e9, 0.0, -0.0, 63.75, 64.0])


def q(*shape, dtype=U8):
    low, high = (0, 256) if dtype == U8 else (-128, 128)
    return torch.randint(low, high, shape, generator=RANDOM).to(dtype)


def scales(*shape, dtype=F32):
    return (torch.rand(shape, generator=RANDOM) * 0.1 + 0.01).to(dtype)


def zeros(*shape, dtype=torch.int64):
    return torch.randint(-20, 20, shape, generator=RANDOM).to(dtype)


NUMBERS = [
    call(f(3, 4), 0.1, 3, *BYTE),
    call(f(2, 3, 4), 0.03, -7, *SIGNED),
    call(HALVES, 0.5, 1, *BYTE),
    call(HALVES, 0.5, 0, -127, 127, I8),
    call(f(5).bfloat16(), 0.1, 3, *BYTE),
    call(f(5).half(), 0.1, 3, *SIGNED),
    call(f(0, 3), 0.1, 3, *BYTE),
    call(f(7), 0.001, 0, -(2**15), 2**15 - 1, I16),
    call(f(7), 0.001, 0, -(10**6), 10**6, I32),
]
TENSORS = [
    call(f(3, 4), torch.tensor([0.1], dtype=F64), torch.tensor([3]), *BYTE),
    call(f(3, 4), torch.tensor(0.03), torch.tensor(-7), *SIGNED),
]
BOUNDS = [
    call(f(3, 4), torch.tensor([0.1]), torch.tensor([3]), torch.tensor(0), torch.tensor(100), U8),
    call(HALVES, torch.tensor(0.5), torch.tensor(1), torch.tensor(-100), torch.tensor(100), I8),
]
CHANNELS = [
    call(f(3, 4), scales(3), zeros(3), 0, *SIGNED),
    call(f(3, 4), scales(4), zeros(4, dtype=I32), 1, -127, 127, I8),
    call(f(2, 3, 4, 2), scales(3), zeros(3), 1, *SIGNED),
    call(f(3, 4).bfloat16(), scales(3), zeros(3), 0, *SIGNED),
    call(f(3, 4), scales(3, dtype=F64), zeros(3), 0, *SIGNED),
    call(f(0, 4), scales(0), zeros(0), 0, *SIGNED),
]
RANGE = [
    call(f(3, 4), 0, 255, 2**-12, U8),
    call(f(3, 4, low=1.0), 0, 255, 2**-12, U8),
    call(f(3, 4, high=-1.0), -128, 127, 2**-12, I8),
    call(f(3, 4), -128, 127, 5.0, I8),
    call(f(3, 4) * 0, 0, 255, 1e-5, U8),
    call(f(5).bfloat16(), 0, 255, 2**-12, U8),
    call(f(5).half(), -128, 127, 2**-12, I8),
]
ROWS = [call(f(3, 4), I8), call(f(2, 3, 5), I8), call(f(3, 4) * 0, I8)]


def dequantized(samples):
    """The same for integers, and once to bf16."""
    inputs = [q(*args[0].shape, dtype=args[-1]) for args, _ in samples if args[-1] in (I8, U8)]
    rest = [args[1:] for args, _ in samples if args[-1] in (I8, U8)]
    plain = [call(x, *args) for x, args in zip(inputs, rest, strict=True)]
    return [*plain, call(inputs[0], *rest[0], out_dtype=torch.bfloat16), call(inputs[0], *rest[0], out_dtype=F32)]


SAMPLES = {
    f"quantized_decomposed.{name}": samples
    for name, samples in {
        "quantize_per_tensor.default": NUMBERS,
        "quantize_per_tensor.tensor": TENSORS,
        "quantize_per_tensor.tensor2": BOUNDS,
        "dequantize_per_tensor.default": dequantized(NUMBERS),
        "dequantize_per_tensor.tensor": dequantized(TENSORS),
        "dequantize_per_tensor.tensor2": dequantized(BOUNDS),
        "quantize_per_channel.default": CHANNELS,
        "dequantize_per_channel.default": [
            *dequantized(CHANNELS),
            call(q(3, 4, dtype=I8), scales(3), None, 0, *SIGNED),
        ],
        "quantize_per_token.default": [
            call(f(3, 4), scales(3, 1), zeros(3, 1), *SIGNED),
            call(f(2, 3, 4), scales(2, 3, 1, dtype=F64), zeros(2, 3, 1), *BYTE),
        ],
        "dequantize_per_token.default": [
            call(q(3, 4, dtype=I8), scales(3, 1), zeros(3, 1).float(), *SIGNED, F32),
            call(q(2, 3, 4), scales(2, 3, 1, dtype=F64), zeros(2, 3, 1), *BYTE, torch.bfloat16),
        ],
        "quantize_per_channel_group.default": [
            call(f(3, 4), scales(3, 2), zeros(3, 2), *SIGNED, 2),
            call(f(3, 4), scales(3, 1), zeros(3, 1), *SIGNED, 8),
        ],
        "dequantize_per_channel_group.default": [
            call(q(3, 4, dtype=I8), scales(3, 2), zeros(3, 2), *SIGNED, 2, F32),
            call(q(3, 4, dtype=I8), scales(3, 2), None, *SIGNED, 2, torch.bfloat16),
        ],
        "choose_qparams.tensor": RANGE,
        "choose_qparams_symmetric.tensor": RANGE,
        "choose_qparams_per_token.default": ROWS,
        "choose_qparams_per_token_asymmetric.default": ROWS,
        "_choose_qparams_per_token_asymmetric_impl.default": ROWS,
        "convert_element_type.no_fuse": [call(f(3, 4), torch.bfloat16), call(q(3, 4), F32)],
    }.items()
}

STATIC = {
    "quantized_decomposed.quantize_per_channel_group.default": "rows divide into parts of a given size",
    "quantized_decomposed.dequantize_per_channel_group.default": "rows divide into parts of a given size",
}
