"""The rows: exactly those that the bars of the cpu backend speak of."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from tenon import ops

from bench.kernels.case import Case, random, random_integers

FLOATS = ("f32", "bf16")
CUBES = (64, 128, 256, 512, 1024, 2048)
SEQUENCES = (1, 128, 512)
# Features in and out of the linear layers; ViT-B/16, GPT-2 and BERT-base share theirs. Llama's small one has 16 heads
# of 64 that share 8 of keys and values.
LAYERS = {
    "BERT/GPT-2/ViT qkv": (768, 2304),
    "BERT/GPT-2/ViT out": (768, 768),
    "BERT/GPT-2/ViT up": (768, 3072),
    "BERT/GPT-2/ViT down": (3072, 768),
    "Llama-1024 qkv": (1024, 2048),
    "Llama-1024 out": (1024, 1024),
    "Llama-1024 gate": (1024, 2816),
    "Llama-1024 down": (2816, 1024),
    "Llama-7B qkv": (4096, 12288),
    "Llama-7B out": (4096, 4096),
    "Llama-7B gate": (4096, 11008),
    "Llama-7B down": (11008, 4096),
}
BERT_GELU = {"BERT up": (768, 3072), "BERT head": (768, 768)}
SIZES = {"1KB": 1 << 8, "16KB": 1 << 12, "256KB": 1 << 16, "4MB": 1 << 20, "64MB": 1 << 24}  # in f32 elements
MATRICES = {"1KB": (4, 64), "16KB": (32, 128), "256KB": (128, 512), "4MB": (1024, 1024), "64MB": (4096, 4096)}
BOXES = {"1KB": (4, 8, 8), "16KB": (16, 16, 16), "256KB": (32, 32, 64), "4MB": (64, 128, 128), "64MB": (256, 256, 256)}


def all_cases() -> list[Case]:
    families = (matmuls, linears, int8_matmuls, linears_with_gelu, attentions, convolutions, depthwise_convolutions)
    streams = (softmaxes, layer_norms, rms_norms, reductions, transposes, gathers, chains)
    return [case for family in families + streams for case in family()]


# ---- contractions ----------------------------------------------------------------------------------------------------


def matmuls() -> Iterator[Case]:
    for dtype in FLOATS:
        for n in CUBES:
            yield Case(
                family="matmul",
                name=f"{n}^3",
                size=str(n),
                dtype=dtype,
                inputs=partial(matmul_inputs, n, n, n, dtype),
                graph=ops.matmul,
                reference=torch.matmul,
                rivals=lambda i, out: {"mm(out=)": partial(torch.mm, i["a"], i["b"], out=out)},
                flops=2 * n**3,
                quick=n == 512,
            )


def matmul_inputs(m, n, k, dtype):
    return {"a": random(m, k, dtype=dtype), "b": random(k, n, dtype=dtype, scale=k**-0.5, seed=1)}


def linears() -> Iterator[Case]:
    for dtype in FLOATS:
        for n in CUBES:
            yield linear(f"{n}^3", str(n), n, n, n, dtype, quick=n == 256)
        for layer, (k, n) in LAYERS.items():
            for m in SEQUENCES:
                quick = layer.endswith("ViT up") and m < 512
                yield linear(f"{layer} {m}x{n}x{k}", str(m), m, n, k, dtype, quick=quick)


def linear(name, size, m, n, k, dtype, quick) -> Case:
    return Case(
        family="linear",
        name=name,
        size=size,
        dtype=dtype,
        inputs=partial(linear_inputs, m, n, k, dtype),
        graph=ops.linear,
        reference=F.linear,
        rivals=linear_rivals,
        constants=frozenset(("weight", "bias")),
        flops=2 * m * n * k,
        quick=quick,
    )


def linear_inputs(m, n, k, dtype):
    return {
        "x": random(m, k, dtype=dtype),
        "weight": random(n, k, dtype=dtype, scale=k**-0.5, seed=1),
        "bias": random(n, dtype=dtype, seed=2),
    }


def linear_rivals(i, out):
    return {
        "linear": partial(F.linear, i["x"], i["weight"], i["bias"]),
        "addmm(out=)": partial(torch.addmm, i["bias"], i["x"], i["weight"].t(), out=out),
    }


def int8_matmuls() -> Iterator[Case]:
    for n in CUBES[:-1]:
        yield Case(
            family="int8",
            name=f"{n}^3 to i32",
            size=str(n),
            dtype="i8",
            inputs=partial(int8_inputs, n),
            graph=lambda a, b: ops.matmul(ops.cast(a, dtype="i32"), ops.cast(b, dtype="i32")),
            reference=torch.matmul,
            rivals=lambda i, out: {"_int_mm(out=)": partial(torch._int_mm, i["a"], i["b"], out=out)},
            flops=2 * n**3,
        )


def int8_inputs(n):
    return {"a": random_integers(128, n, n, low=-128, dtype="i8"), "b": random_integers(128, n, n, dtype="i8", seed=1)}


def linears_with_gelu() -> Iterator[Case]:
    for layer, (k, n) in BERT_GELU.items():
        for m in SEQUENCES:
            yield Case(
                family="linear_gelu",
                name=f"{layer} {m}x{n}x{k}",
                size=str(m),
                dtype="f32",
                inputs=partial(linear_inputs, m, n, k, "f32"),
                graph=lambda x, weight, bias: ops.gelu(ops.linear(x, weight, bias)),
                reference=lambda x, weight, bias: F.gelu(F.linear(x, weight, bias)),
                rivals=linear_gelu_rivals,
                constants=frozenset(("weight", "bias")),
                flops=2 * m * n * k,
                quick=layer == "BERT up" and m == 128,
            )


def linear_gelu_rivals(i, out):
    x, weight, bias = i["x"], i["weight"], i["bias"]
    transposed, hidden = weight.t(), torch.empty_like(out)
    gelu_to = torch._C._nn.gelu

    def into_buffers():
        torch.addmm(bias, x, transposed, out=hidden)
        return gelu_to(hidden, out=out)

    return {"gelu(linear)": lambda: F.gelu(F.linear(x, weight, bias)), "addmm, gelu(out=)": into_buffers}


def attentions() -> Iterator[Case]:
    heads, features = 12, 64
    for length in (128, 256, 512, 1024, 2048):
        shape = (1, heads, length, features)
        yield Case(
            family="attention",
            name=f"B1 H{heads} S{length} D{features}",
            size=str(length),
            dtype="f32",
            inputs=partial(lambda shape: {n: random(*shape, seed=s) for s, n in enumerate(("q", "k", "v"))}, shape),
            graph=lambda q, k, v: ops.scaled_dot_product_attention(q, k, v),
            reference=lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
            rivals=lambda i, out: {"sdpa": partial(F.scaled_dot_product_attention, i["q"], i["k"], i["v"])},
            flops=4 * heads * length**2 * features,
            quick=length == 256,
        )


# ---- convolutions ----------------------------------------------------------------------------------------------------

ConvShape = tuple[int, int, int, int, int, int]  # channels in and out, groups, height and width, kernel, stride


def resnet50_convolutions() -> list[ConvShape]:
    shapes = [(3, 64, 1, 224, 7, 2)]
    channels, size = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            shapes.append((channels, width, 1, size, 1, 1))
            shapes.append((width, width, 1, size, 3, stride))
            shapes.append((width, 4 * width, 1, size // stride, 1, 1))
            if block == 0:
                shapes.append((channels, 4 * width, 1, size, 1, stride))
            channels, size = 4 * width, size // stride
    return shapes


def mobilenet_v2_depthwise() -> list[ConvShape]:
    shapes = []
    channels, size = 32, 112
    for expansion, width, blocks, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            hidden = channels * expansion
            shapes.append((hidden, hidden, hidden, size, 3, stride))
            channels, size = width, size // stride
    return shapes


def convolutions() -> Iterator[Case]:
    for shape, count in Counter(resnet50_convolutions()).items():
        yield convolution("conv", shape, count, quick=shape in ((64, 64, 1, 56, 3, 1), (256, 1024, 1, 14, 1, 1)))


def depthwise_convolutions() -> Iterator[Case]:
    for shape, count in Counter(mobilenet_v2_depthwise()).items():
        yield convolution("depthwise", shape, count, quick=shape[0] == 384)


def convolution(family, shape: ConvShape, count, quick) -> Case:
    channels, out_channels, groups, size, kernel, stride = shape
    padding, fan_in = kernel // 2, channels // groups * kernel**2
    positions = ((size + 2 * padding - kernel) // stride + 1) ** 2
    options = {"stride": [stride, stride], "padding": [padding, padding], "groups": groups}
    suffix = f" s{stride}" if stride > 1 else ""
    return Case(
        family=family,
        name=f"{channels}->{out_channels} {size}x{size} k{kernel}{suffix}",
        size=str(size),
        dtype="f32",
        inputs=partial(convolution_inputs, shape),
        graph=lambda x, weight: ops.conv(x, weight, **options),
        reference=lambda x, weight: torch.conv2d(x, weight, **options),
        rivals=lambda i, out: {"conv2d": partial(torch.conv2d, i["x"], i["weight"], **options)},
        constants=frozenset(("weight",)),
        flops=2 * out_channels * positions * fan_in,
        count=count,
        quick=quick,
    )


def convolution_inputs(shape: ConvShape):
    channels, out_channels, groups, size, kernel, _ = shape
    scale = (channels // groups * kernel**2) ** -0.5
    weight = random(out_channels, channels // groups, kernel, kernel, scale=scale, seed=1)
    return {"x": random(1, channels, size, size), "weight": weight}


# ---- streams: what memory and dispatch bound -------------------------------------------------------------------------


def stream(family, name, size, shape, graph, reference, rivals, inputs=None, constants=(), quick=False) -> Case:
    return Case(
        family=family,
        name=f"{name} {'x'.join(map(str, shape))} {size}".strip(),
        size=size,
        dtype="f32",
        inputs=inputs or (lambda: {"x": random(*shape)}),
        graph=graph,
        reference=reference,
        rivals=rivals,
        constants=frozenset(constants),
        quick=quick,
    )


def softmaxes() -> Iterator[Case]:
    for size, shape in MATRICES.items():
        yield stream(
            "softmax",
            "",
            size,
            shape,
            graph=lambda x: ops.softmax(x, dim=-1),
            reference=lambda x: torch.softmax(x, -1),
            rivals=lambda i, out: {
                "softmax(out=)": partial(torch.softmax, i["x"], -1, out=out),
                "softmax": partial(torch.softmax, i["x"], -1),
            },
            quick=size in ("16KB", "4MB"),
        )


def layer_norms() -> Iterator[Case]:
    for size, shape in MATRICES.items():
        yield stream(
            "layer_norm",
            "",
            size,
            shape,
            inputs=partial(norm_inputs, shape, ("weight", "bias")),
            graph=lambda x, weight, bias: ops.layer_norm(x, weight, bias, normalized_rank=1)[0],
            reference=lambda x, weight, bias: torch.layer_norm(x, x.shape[1:], weight, bias, 1e-5),
            rivals=lambda i, out: {
                "layer_norm": partial(torch.layer_norm, i["x"], i["x"].shape[1:], i["weight"], i["bias"], 1e-5)
            },
            constants=("weight", "bias"),
            quick=size in ("16KB", "4MB"),
        )


def norm_inputs(shape, weights):
    inputs = {"x": random(*shape)}
    return inputs | {name: random(shape[1], seed=seed) for seed, name in enumerate(weights, start=1)}


def rms_norms() -> Iterator[Case]:
    for size, shape in MATRICES.items():
        yield stream(
            "rms_norm",
            "",
            size,
            shape,
            inputs=partial(norm_inputs, shape, ("weight",)),
            graph=lambda x, weight: ops.rms_norm(x, weight, normalized_rank=1, eps=1e-6)[0],
            reference=lambda x, weight: torch.rms_norm(x, x.shape[1:], weight, 1e-6),
            rivals=lambda i, out: {"rms_norm": partial(torch.rms_norm, i["x"], i["x"].shape[1:], i["weight"], 1e-6)},
            constants=("weight",),
            quick=size in ("16KB", "4MB"),
        )


def reductions() -> Iterator[Case]:
    pairs = {"sum": (ops.sum, torch.sum), "mean": (ops.mean, torch.mean), "max": (ops.amax, torch.amax)}
    for name, (our_op, torch_op) in pairs.items():
        for axis in (0, 1, 2):
            for size, shape in BOXES.items():
                yield reduction(name, our_op, torch_op, axis, size, shape)


def reduction(name, our_op, torch_op, axis, size, shape) -> Case:
    return stream(
        "reduce",
        f"{name} axis {axis} of",
        size,
        shape,
        graph=lambda x: our_op(x, dims=[axis]),
        reference=lambda x: torch_op(x, dim=axis),
        rivals=lambda i, out: {f"{name}(out=)": partial(torch_op, i["x"], dim=axis, out=out)},
        quick=name == "sum" and size in ("16KB", "4MB"),
    )


def transposes() -> Iterator[Case]:
    for name, dims, shapes in (
        ("2-D", (1, 0), MATRICES),
        ("heads first", (1, 0, 2), BOXES),
        ("channels last", (1, 2, 0), BOXES),
    ):
        for size, shape in shapes.items():
            yield transpose(name, dims, size, shape)


def transpose(name, dims, size, shape) -> Case:
    return stream(
        "transpose",
        name,
        size,
        shape,
        graph=lambda x: ops.permute(x, dims=list(dims)),
        reference=lambda x: x.permute(dims).contiguous(),
        rivals=lambda i, out: {"copy_(permute)": partial(out.copy_, i["x"].permute(dims))},
        quick=name == "2-D" and size in ("16KB", "4MB"),
    )


def gathers() -> Iterator[Case]:
    for size, shape in MATRICES.items():
        yield embedding(size, shape)
    for size, shape in MATRICES.items():
        yield gather(size, shape)
    for size, shape in MATRICES.items():
        yield index_select(size, shape)


def embedding(size, shape) -> Case:
    return stream(
        "gather",
        "embedding",
        size,
        shape,
        inputs=lambda: {"x": random(*shape), "index": random_integers(shape[0], shape[0], seed=1)},
        graph=ops.embedding,
        reference=torch.embedding,
        rivals=lambda i, out: {
            "embedding": partial(torch.embedding, i["x"], i["index"]),
            "index_select(out=)": partial(torch.index_select, i["x"], 0, i["index"], out=out),
        },
        quick=size == "4MB",
    )


def gather(size, shape) -> Case:
    return stream(
        "gather",
        "gather dim 1",
        size,
        shape,
        inputs=lambda: {"x": random(*shape), "index": random_integers(shape[1], *shape, seed=1)},
        graph=lambda x, index: ops.gather(x, index, dim=1),
        reference=lambda x, index: torch.gather(x, 1, index),
        rivals=lambda i, out: {"gather(out=)": partial(torch.gather, i["x"], 1, i["index"], out=out)},
    )


def index_select(size, shape) -> Case:
    return stream(
        "gather",
        "index_select dim 1",
        size,
        shape,
        inputs=lambda: {"x": random(*shape), "index": random_integers(shape[1], shape[1], seed=1)},
        graph=lambda x, index: ops.index_select(x, index, dim=1),
        reference=lambda x, index: torch.index_select(x, 1, index),
        rivals=lambda i, out: {"index_select(out=)": partial(torch.index_select, i["x"], 1, i["index"], out=out)},
    )


# A chain is the first so many of these steps. The other operand is one of the inputs, or there is none.
CHAIN = (
    ("mul", "y"),
    ("add", "z"),
    ("relu", None),
    ("mul", "z"),
    ("sub", "y"),
    ("sigmoid", None),
    ("mul", "x"),
    ("maximum", "z"),
    ("tanh", None),
    ("add", "x"),
    ("neg", None),
    ("exp", None),
)


def chains() -> Iterator[Case]:
    for length in (3, 6, 12):
        for size, elements in SIZES.items():
            yield stream(
                f"chain{length}",
                "",
                size,
                (elements,),
                inputs=partial(lambda n: {name: random(n, seed=s) for s, name in enumerate("xyz")}, elements),
                graph=partial(chain_of, ops, CHAIN[:length]),
                reference=partial(chain_of, torch, CHAIN[:length]),
                rivals=partial(chain_rivals, CHAIN[:length]),
                quick=size in ("16KB", "4MB"),
            )


def chain_of(functions, steps, x, y, z):
    operands, value = {"x": x, "y": y, "z": z}, x
    for name, operand in steps:
        value = getattr(functions, name)(*([value] if operand is None else [value, operands[operand]]))
    return value


def chain_rivals(steps, i, out):
    calls = [chain_step(name, i["x"] if place == 0 else out, operand and i[operand], out)
             for place, (name, operand) in enumerate(steps)]  # fmt: skip

    def in_place():
        for call in calls:
            call()
        return out

    return {f"{len(steps)} ops in place": in_place}


def chain_step(name, value, operand, out):
    if name == "relu":  # the one without out=
        return partial(torch.relu_, out)
    return partial(getattr(torch, name), *([value] if operand is None else [value, operand]), out=out)
