"""Convolution and pooling of random geometry against PyTorch: values and gradients, with constant sizes and with
symbols for the batch and the spatial dimensions."""

import tenon
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tenon import torch_backend

FEW = st.integers(1, 3)


def attr_text(value):
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def graph_of(op, operands, attrs, symbols):
    """One node. The first operand has a symbol for each dimension that `symbols` names."""
    shapes = [None if x is None else [str(size) for size in x.shape] for x in operands]
    for dim, symbol in symbols.items():
        shapes[0][dim] = symbol
    inputs = ", ".join(f"%a{i}: f64[{', '.join(s)}]" for i, s in enumerate(shapes) if s is not None)
    values = ", ".join("none" if s is None else f"%a{i}" for i, s in enumerate(shapes))
    given_attrs = ", ".join(f"{name}={attr_text(value)}" for name, value in attrs.items())
    results = ", ".join(f"%r{i}" for i in range(len(tenon.op(op).results)))
    return tenon.parse(f"graph g({inputs}) {{ {results} = {op}({values}) {{{given_attrs}}} return {results} }}")


def check(op, operands, attrs, expected):
    """`expected` are the results of the peer, of which the first is differentiated."""
    leaves = [x for x in operands if x is not None]
    cotangent = torch.randn(expected[0].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradients = torch.autograd.grad(expected[0], leaves, cotangent)
    plain = [x.detach() for x in leaves]
    spatial = {dim: f"S{dim}" for dim in range(2, operands[0].dim())}
    for symbols in ({}, {0: "N"}, {0: "N", **spatial}):
        graph = graph_of(op, operands, attrs, symbols)
        compare(graph.evaluate(*plain), expected)
        names = [f"a{i}" for i, x in enumerate(operands) if x is not None]
        compare(tenon.differentiate(graph, names).evaluate(*plain, cotangent), gradients)


def compare(mine, theirs):
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(torch.from_dlpack(a), b.detach())


def numbers(data, strategy, dimensions):
    return [data.draw(strategy) for _ in range(dimensions)]


def values(data, shape):
    seed = data.draw(st.integers(0, 2**30))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.requires_grad_()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_conv(data):
    dimensions = data.draw(st.integers(1, 2))
    groups, group_in, group_out = data.draw(FEW), data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    sizes = numbers(data, st.integers(1, 7), dimensions)
    kernel = numbers(data, FEW, dimensions)
    stride, dilation = numbers(data, FEW, dimensions), numbers(data, FEW, dimensions)
    padding = numbers(data, st.integers(0, 3), dimensions)
    transposed = data.draw(st.booleans())
    rest = [
        data.draw(st.integers(0, max(s, d) - 1)) if transposed else 0 for s, d in zip(stride, dilation, strict=True)
    ]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    for size, span, step, pad, more in zip(sizes, spans, stride, padding, rest, strict=True):
        assume((size - 1) * step - 2 * pad + span + more > 0 if transposed else size + 2 * pad >= span)
    batch = data.draw(st.integers(1, 2))
    weight_channels = [group_in * groups, group_out] if transposed else [group_out * groups, group_in]
    x = values(data, [batch, group_in * groups, *sizes])
    weight = values(data, [*weight_channels, *kernel])
    bias = values(data, [group_out * groups]) if data.draw(st.booleans()) else None
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    attrs |= {"transposed": transposed, "output_padding": rest}
    peer = torch.convolution(x, weight, bias, stride, padding, dilation, transposed, rest, groups)
    check("conv", [x, weight, bias], attrs, [peer])


def pooling_geometry(data, dimensions, dilated):
    kernel, stride = numbers(data, FEW, dimensions), numbers(data, st.integers(1, 4), dimensions)
    dilation = numbers(data, FEW, dimensions) if dilated else [1] * dimensions
    padding = [data.draw(st.integers(0, k // 2)) for k in kernel]
    sizes = numbers(data, st.integers(1, 8), dimensions)
    ceil_mode = data.draw(st.booleans())
    for size, k, d, pad in zip(sizes, kernel, dilation, padding, strict=True):
        assume(size + 2 * pad >= d * (k - 1) + 1)
        assume(size > pad)  # a dilated window could have padding only
    return sizes, kernel, stride, padding, dilation, ceil_mode


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_max_pool(data):
    dimensions = data.draw(st.integers(1, 2))
    sizes, kernel, stride, padding, dilation, ceil_mode = pooling_geometry(data, dimensions, dilated=True)
    x = values(data, [data.draw(st.integers(1, 2)), 2, *sizes])
    peer = [F.max_pool1d, F.max_pool2d][dimensions - 1]
    expected = peer(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)
    assume(torch.isfinite(expected[0]).all())
    attrs = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    check("max_pool", [x], attrs, expected)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_avg_pool(data):
    sizes, kernel, stride, padding, _, ceil_mode = pooling_geometry(data, 2, dilated=False)
    x = values(data, [data.draw(st.integers(1, 2)), 2, *sizes])
    count_padding = data.draw(st.booleans())
    divisor = data.draw(st.none() | st.integers(1, 5))
    expected = F.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_padding, divisor)
    attrs = {"kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    attrs |= {"count_include_pad": count_padding, "divisor_override": divisor}
    check("avg_pool", [x], attrs, [expected])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_adaptive_pools(data):
    x = values(data, [data.draw(st.integers(1, 2)), 2, *numbers(data, st.integers(1, 9), 2)])
    output_size = numbers(data, st.integers(1, 9), 2)
    check("adaptive_avg_pool", [x], {"output_size": output_size}, [F.adaptive_avg_pool2d(x, output_size)])
    expected = F.adaptive_max_pool2d(x, output_size, return_indices=True)
    check("adaptive_max_pool", [x], {"output_size": output_size}, expected)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_im2col(data):
    sizes = numbers(data, st.integers(1, 7), 2)
    kernel, stride, dilation = numbers(data, FEW, 2), numbers(data, FEW, 2), numbers(data, FEW, 2)
    padding = numbers(data, st.integers(0, 2), 2)
    for size, k, d, pad in zip(sizes, kernel, dilation, padding, strict=True):
        assume(size + 2 * pad >= d * (k - 1) + 1)
    x = values(data, [data.draw(st.integers(1, 2)), 2, *sizes])
    columns = F.unfold(x, kernel, dilation, padding, stride)
    attrs = {"kernel": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    check("im2col", [x], attrs, [columns])
    y = values(data, list(columns.shape))
    check_col2im = {"output_size": sizes, **attrs}
    expected = F.fold(y, sizes, kernel, dilation, padding, stride)
    graph = graph_of("col2im", [y], check_col2im, {0: "N"})
    compare(graph.evaluate(y.detach()), [expected])


def test_a_huge_window_over_a_small_image_takes_little_memory(monkeypatch):
    programs = []
    compile_graph = torch_backend.compile_program
    monkeypatch.setattr(
        torch_backend,
        "compile_program",
        lambda *args, **named: programs.append(compile_graph(*args, **named)) or programs[-1],
    )
    x = torch.randn(2, 4, 2, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    compiled = torch.compile(lambda x: F.avg_pool2d(x, 1280, ceil_mode=True).tanh(), backend="tenon")
    found, expected = compiled(x), F.avg_pool2d(x, 1280, ceil_mode=True).tanh()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(result.sum(), x)[0] for result in (found, expected)))
    assert len(programs) == 2
    assert all(program.arena_bytes < 1 << 16 for program in programs)
