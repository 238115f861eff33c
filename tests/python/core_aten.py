"""PyTorch's core ATen set, each overload expressed with the ops of the table.

TABLE has a function for each overload, by the name that PyTorch gives it. The function takes what the overload takes,
with a Value for each tensor, adds nodes to their graph, and gives Values where the overload gives tensors. Besides:

  - A number beside tensors becomes a constant of the dtype that PyTorch promotes it to; tenon.ops sees to that.
  - A SymInt is an integer or an Expr.
  - An overload without tensors takes the graph first, as in tenon.ops.
  - A random one adds an input to the graph: the key that its numbers are a function of.
  - One that writes an argument gives the argument's new value, after its results unless that is its result.
  - A complex tensor is a real one with a last dimension of 2.
  - Layout, device, strides and memory format say nothing about a Value: it is as if contiguous. `_` takes them.
"""

import functools
import math

import tenon
from tenon import ops

TABLE = {}


def given(**arguments):
    """Those that are not None; the others keep the defaults of the op."""
    return {name: value for name, value in arguments.items() if value is not None}


def each(sizes, count):
    """An argument of type int[count]: one number may stand for all."""
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    return sizes * count if len(sizes) == 1 else sizes


def to(x, dtype):
    return x if dtype is None else ops.cast(x, dtype=dtype)


def full_like(x, value, dtype=None, **_):
    return ops.full(x.graph, value=value, shape=x.shape, dtype=dtype or x.dtype)


def nothing(x):
    """A result that the overload leaves empty."""
    return ops.full(x.graph, value=0, shape=[0], dtype=x.dtype)


def dtype_of(*numbers):
    """The dtype of a tensor that PyTorch makes of Python numbers."""
    if all(isinstance(number, bool) for number in numbers):
        return "bool"
    return "f32" if any(isinstance(number, float) for number in numbers) else "i64"


# ---- from nothing ----------------------------------------------------------------------------------------------------


def full(graph, size, value, dtype=None, **_):
    return ops.full(graph, value=value, shape=size, dtype=dtype or dtype_of(value))


def empty(graph, size, dtype=None, **_):
    return ops.full(graph, value=0, shape=size, dtype=dtype or "f32")


def arange(graph, start, end, step=1, dtype=None, **_):
    return ops.arange(graph, start=start, end=end, step=step, dtype=dtype or dtype_of(start, end, step))


TABLE |= {
    "aten.arange.start_step": arange,
    "aten.empty.memory_format": empty,
    "aten.empty_strided.default": lambda graph, size, stride, **options: empty(graph, size, **options),
    "aten.fill.Scalar": full_like,
    "aten.full.default": full,
    "aten.full_like.default": full_like,
    "aten.scalar_tensor.default": lambda graph, s, dtype=None, **_: full(graph, [], s, dtype or "f32"),
}

# ---- one tensor, element by element ----------------------------------------------------------------------------------


def hardtanh(x, min_val=-1, max_val=1):
    if x.dtype.startswith(("f", "bf")):
        return ops.hardtanh(x, min_val=min_val, max_val=max_val)
    return ops.clamp(x, int(min_val), int(max_val))


TABLE |= {
    "aten._to_copy.default": lambda x, dtype=None, **_: to(x, dtype),
    "aten.abs.default": ops.abs,
    "aten.acos.default": ops.acos,
    "aten.acosh.default": ops.acosh,
    "aten.alias.default": lambda x: x,
    "aten.asin.default": ops.asin,
    "aten.asinh.default": ops.asinh,
    "aten.atan.default": ops.atan,
    "aten.atanh.default": ops.atanh,
    "aten.bitwise_not.default": ops.bitwise_not,
    "aten.ceil.default": ops.ceil,
    "aten.clone.default": lambda x, **_: x,
    "aten.copy.default": lambda x, src, non_blocking=False: ops.expand(to(src, x.dtype), shape=x.shape),
    "aten.cos.default": ops.cos,
    "aten.cosh.default": ops.cosh,
    "aten.elu.default": lambda x, alpha=1, scale=1, input_scale=1: ops.elu(
        x, alpha=alpha, scale=scale, input_scale=input_scale
    ),
    "aten.erf.default": ops.erf,
    "aten.exp.default": ops.exp,
    "aten.expm1.default": ops.expm1,
    "aten.floor.default": ops.floor,
    "aten.gelu.default": lambda x, *, approximate="none": ops.gelu(x, approximate=approximate),
    "aten.hardtanh.default": hardtanh,
    "aten.isinf.default": ops.isinf,
    "aten.isnan.default": ops.isnan,
    "aten.leaky_relu.default": lambda x, negative_slope=0.01: ops.leaky_relu(x, negative_slope=negative_slope),
    "aten.log.default": ops.log,
    "aten.log10.default": ops.log10,
    "aten.log1p.default": ops.log1p,
    "aten.log2.default": ops.log2,
    "aten.logical_not.default": ops.logical_not,
    "aten.neg.default": ops.neg,
    "aten.reciprocal.default": ops.reciprocal,
    "aten.relu.default": ops.relu,
    "aten.round.default": ops.rint,
    "aten.rsqrt.default": ops.rsqrt,
    "aten.sigmoid.default": ops.sigmoid,
    "aten.sign.default": ops.sign,
    "aten.sin.default": ops.sin,
    "aten.sinh.default": ops.sinh,
    "aten.sqrt.default": ops.sqrt,
    "aten.tan.default": ops.tan,
    "aten.tanh.default": ops.tanh,
    "aten.trunc.default": ops.trunc,
}

# ---- several, element by element -------------------------------------------------------------------------------------


def scaled(y, alpha):
    return y if alpha == 1 else y * alpha


def div(x, y, *, rounding_mode=None):
    return {None: ops.div, "floor": ops.floor_div, "trunc": ops.trunc_div}[rounding_mode](x, y)


TABLE |= {
    "aten.add.Scalar": lambda x, y, alpha=1: x + scaled(y, alpha),
    "aten.add.Tensor": lambda x, y, *, alpha=1: x + scaled(y, alpha),
    "aten.atan2.default": ops.atan2,
    "aten.atan2.out": lambda x, y, *, out: to(ops.atan2(x, y), out.dtype),
    "aten.bitwise_and.Scalar": ops.bitwise_and,
    "aten.bitwise_and.Tensor": ops.bitwise_and,
    "aten.bitwise_or.Scalar": ops.bitwise_or,
    "aten.bitwise_or.Tensor": ops.bitwise_or,
    "aten.bitwise_xor.Scalar": ops.bitwise_xor,
    "aten.bitwise_xor.Tensor": ops.bitwise_xor,
    "aten.clamp.Tensor": lambda x, min=None, max=None: ops.clamp(x, min, max),
    "aten.clamp.default": lambda x, min=None, max=None: ops.clamp(x, min, max),
    "aten.div.Scalar": div,
    "aten.div.Scalar_mode": div,
    "aten.div.Tensor": div,
    "aten.div.Tensor_mode": div,
    "aten.eq.Scalar": ops.eq,
    "aten.eq.Tensor": ops.eq,
    "aten.fmod.Scalar": ops.fmod,
    "aten.fmod.Tensor": ops.fmod,
    "aten.ge.Scalar": ops.ge,
    "aten.ge.Tensor": ops.ge,
    "aten.gt.Scalar": ops.gt,
    "aten.gt.Tensor": ops.gt,
    "aten.le.Scalar": ops.le,
    "aten.le.Tensor": ops.le,
    "aten.logical_and.default": ops.logical_and,
    "aten.logical_or.default": ops.logical_or,
    "aten.logical_xor.default": ops.logical_xor,
    "aten.lt.Scalar": ops.lt,
    "aten.lt.Tensor": ops.lt,
    "aten.maximum.default": ops.maximum,
    "aten.minimum.default": ops.minimum,
    "aten.mul.Scalar": ops.mul,
    "aten.mul.Tensor": ops.mul,
    "aten.ne.Scalar": ops.ne,
    "aten.ne.Tensor": ops.ne,
    "aten.pow.Scalar": ops.pow,
    "aten.pow.Tensor_Scalar": ops.pow,
    "aten.pow.Tensor_Tensor": ops.pow,
    "aten.remainder.Scalar": ops.remainder,
    "aten.remainder.Tensor": ops.remainder,
    "aten.sub.Scalar": lambda x, y, alpha=1: x - scaled(y, alpha),
    "aten.sub.Tensor": lambda x, y, *, alpha=1: x - scaled(y, alpha),
    "aten.where.self": ops.where,
}

# ---- reductions and scans --------------------------------------------------------------------------------------------


def all_or(dims):
    """The table's way to say that no dimensions given means all."""
    return [] if dims is None else dims


def reduction(op):
    """Of the form (x, dim, keepdim, dtype)."""

    def reduce(x, dim=None, keepdim=False, *, dtype=None):
        return op(to(x, dtype), dims=all_or(dim), keepdim=keepdim)

    return reduce


def any_of(x, dim=None, keepdim=False):
    result = ops.ne(x, 0) if dim == [] else ops.any(x, dims=all_or(dim), keepdim=keepdim)
    return to(result, "u8" if x.dtype == "u8" else None)


def softmax(op, x, dim, half_to_float):
    return op(to(x, "f32" if half_to_float else None), dim=dim)


def var(x, dim=None, *, correction=None, keepdim=False):
    return ops.var(x, dims=all_or(dim), keepdim=keepdim, **given(correction=correction))


TABLE |= {
    "aten._log_softmax.default": functools.partial(softmax, ops.log_softmax),
    "aten._softmax.default": functools.partial(softmax, ops.softmax),
    "aten.amax.default": reduction(ops.amax),
    "aten.amin.default": reduction(ops.amin),
    "aten.any.default": any_of,
    "aten.any.dim": any_of,
    "aten.any.dims": any_of,
    "aten.argmax.default": lambda x, dim=None, keepdim=False: ops.argmax(x, dim=dim, keepdim=keepdim),
    "aten.argmin.default": lambda x, dim=None, keepdim=False: ops.argmin(x, dim=dim, keepdim=keepdim),
    "aten.cumsum.default": lambda x, dim, *, dtype=None: ops.cumsum(to(x, dtype), dim=dim),
    "aten.max.dim": lambda x, dim, keepdim=False: ops.max_dim(x, dim=dim, keepdim=keepdim),
    "aten.mean.default": reduction(ops.mean),
    "aten.mean.dim": reduction(ops.mean),
    "aten.min.dim": lambda x, dim, keepdim=False: ops.min_dim(x, dim=dim, keepdim=keepdim),
    "aten.prod.default": reduction(ops.prod),
    "aten.prod.dim_int": reduction(ops.prod),
    "aten.sum.dim_IntList": reduction(ops.sum),
    "aten.var.correction": var,
    "aten.var.dim": lambda x, dim, unbiased=True, keepdim=False: var(
        x, dim, correction=1 if unbiased else 0, keepdim=keepdim
    ),
}

# ---- products and distances ------------------------------------------------------------------------------------------


def cdist(x1, x2, p, compute_mode):
    return ops.norm(ops.unsqueeze(x1, dim=-2) - ops.unsqueeze(x2, dim=-3), p=p, dims=[-1])


def pdist(x, p=2.0):
    """Of each pair of rows once: the distances above the diagonal. A sort brings their places to the front."""
    rows = x.shape[0]
    is_above = ops.triu(ops.full(x.graph, value=1, shape=[rows, rows], dtype="bool"), diagonal=1)
    order = ops.argsort(ops.flatten(is_above), descending=True)
    pairs = ops.slice(order, end=rows * (rows - 1) // 2)
    return ops.index(ops.flatten(cdist(x, x, p, None)), [pairs])


TABLE |= {
    "aten._cdist_forward.default": cdist,
    "aten._pdist_forward.default": pdist,
    "aten.addmm.default": lambda x, a, b, *, beta=1, alpha=1: ops.addmm(x, a, b, beta=beta, alpha=alpha),
    "aten.bmm.default": ops.matmul,
    "aten.mm.default": ops.matmul,
}

# ---- views -----------------------------------------------------------------------------------------------------------


def as_strided(x, size, stride, storage_offset=None):
    return ops.as_strided(x, size=size, stride=stride, **given(offset=storage_offset))


def resize(x, size, **_):
    added = math.prod(size) - math.prod(x.shape)
    return ops.reshape(ops.pad(ops.flatten(x), low=[0], high=[added]), shape=size)


TABLE |= {
    "aten.as_strided.default": as_strided,
    "aten.diagonal.default": lambda x, offset=0, dim1=0, dim2=1: ops.diagonal(x, offset=offset, dim1=dim1, dim2=dim2),
    "aten.expand.default": lambda x, size, **_: ops.expand(x, shape=size),
    "aten.flip.default": lambda x, dims: ops.flip(x, dims=dims),
    "aten.permute.default": lambda x, dims: ops.permute(x, dims=dims),
    "aten.repeat.default": lambda x, repeats: ops.repeat(x, repeats=repeats),
    "aten.resize_.default": resize,
    "aten.select.int": lambda x, dim, index: ops.select(x, dim=dim, index=index),
    "aten.slice.Tensor": lambda x, dim=0, start=None, end=None, step=1: ops.slice(
        x, dim=dim, step=step, **given(start=start, end=end)
    ),
    "aten.split_with_sizes.default": lambda x, split_sizes, dim=0: ops.split(x, sizes=split_sizes, dim=dim),
    "aten.squeeze.dim": lambda x, dim: ops.squeeze(x, dims=[dim]),
    "aten.squeeze.dims": lambda x, dim: ops.squeeze(x, dims=dim) if dim else x,
    "aten.unsqueeze.default": lambda x, dim: ops.unsqueeze(x, dim=dim),
    "aten.view.default": lambda x, size: ops.reshape(x, shape=size),
}

# ---- joining and padding ---------------------------------------------------------------------------------------------


def concat(tensors, dim=0):
    """PyTorch skips vectors without elements, whatever the rank of the others."""
    return ops.concat([x for x in tensors if x.shape != (0,)] or tensors, dim=dim)


def padded(op, x, pad, **attrs):
    """PyTorch counts dimensions from the last, and gives both amounts of one after the other."""
    untouched = [0] * (x.ndim - len(pad) // 2)
    return op(x, low=untouched + list(pad[0::2])[::-1], high=untouched + list(pad[1::2])[::-1], **attrs)


TABLE |= {
    "aten.cat.default": concat,
    "aten.constant_pad_nd.default": lambda x, pad, value=0: padded(ops.pad, x, pad, value=value),
    "aten.reflection_pad1d.default": functools.partial(padded, ops.pad_reflect),
    "aten.reflection_pad2d.default": functools.partial(padded, ops.pad_reflect),
    "aten.reflection_pad3d.default": functools.partial(padded, ops.pad_reflect),
    "aten.replication_pad2d.default": functools.partial(padded, ops.pad_replicate),
    "aten.replication_pad3d.default": functools.partial(padded, ops.pad_replicate),
}

# ---- reading and writing at computed places --------------------------------------------------------------------------


def nonzero(x, count=None):
    """How many there are is a symbol from here on, unless it is given."""
    earlier = sum(node.op.name == "nonzero" for node in x.graph.nodes)
    return ops.nonzero(x, count=f"nonzero{earlier}" if count is None else count)


def is_mask(index):
    return index is not None and index.dtype in ("bool", "u8")


def places(indices, count=None):
    """Indices with each mask replaced by the `count` places where it is true."""
    result = []
    for index in indices:
        if is_mask(index):
            found = nonzero(index, count)
            result += [ops.select(found, dim=1, index=dim) for dim in range(index.ndim)]
        else:
            result.append(index)
    return result


def index(x, indices):
    """A mask is true as often as the indices beside it say."""
    beside = [index.shape[-1] for index in indices if index is not None and not is_mask(index) and index.ndim > 0]
    return ops.index(x, places(indices, next((length for length in beside if length != 1), None)))


def index_put(x, indices, values, accumulate=False):
    """A mask is true as often as there are values for it, unless one stands for all."""
    kept = x.ndim - sum(index.ndim if is_mask(index) else 1 for index in indices)
    length = values.shape[-1 - kept] if values.ndim > kept else 1
    at = places(indices, None if length == 1 else length)
    return ops.index_put(x, values, at, reduce="add" if accumulate else "set")


def scatter_reduce(x, dim, index, src, reduce, *, include_self=True):
    reduce = {"sum": "add", "prod": "mul"}.get(reduce, reduce)
    return ops.scatter(x, index, src, dim=dim, reduce=reduce, include_self=include_self)


def embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    zeros = ops.full(grad.graph, value=0, shape=[num_weights, grad.shape[-1]], dtype=grad.dtype)
    if scale_grad_by_freq:
        counts = ops.index_put(ops.select(zeros, dim=1, index=0), 1, [indices], reduce="add")
        grad = grad / ops.unsqueeze(ops.index(counts, [indices]), dim=-1)
    if padding_idx >= 0:
        grad = ops.where(ops.unsqueeze(indices != padding_idx, dim=-1), grad, 0)
    return ops.index_put(zeros, grad, [indices], reduce="add")


def embedding_bag(weight, indices, offsets, scale_by_freq=False, mode=0, sparse=False, *options):
    """The bags, and what their gradient needs: the bag of each index, the sizes of the bags, the rows of the maxima."""
    weights, include_last_offset, padding_idx = [*options, *[None, False, -1][len(options) :]]
    how = {"mode": ["sum", "mean", "max"][mode], "include_last_offset": include_last_offset, "padding_idx": padding_idx}
    bags = ops.embedding_bag(weight, indices, offsets, weights, **how)
    order = ops.iota(weight.graph, size=indices.shape[0])
    bag_of = ops.sum(ops.unsqueeze(order, dim=1) >= offsets, dims=[1]) - 1
    no_sizes = ops.full(weight.graph, value=0, shape=[bags.shape[0]], dtype="i64")
    if how["mode"] == "sum":  # PyTorch's kernels leave the sizes zero here, and bag_of empty where nothing is padding
        return bags, nothing(indices) if padding_idx < 0 else bag_of, no_sizes, no_sizes
    counts = indices != padding_idx
    sizes = ops.index_put(no_sizes, to(counts, "i64"), [bag_of], reduce="add")
    if how["mode"] == "mean":
        return bags, bag_of, sizes, sizes
    is_maximum = (ops.index(weight, [indices]) == ops.index(bags, [bag_of])) & ops.unsqueeze(counts, dim=1)
    count = indices.shape[0]
    candidates = ops.where(is_maximum, ops.unsqueeze(order, dim=1), count)
    none = ops.full(weight.graph, value=count, shape=bags.shape, dtype="i64")
    first = ops.index_put(none, candidates, [bag_of], reduce="amin")
    return bags, bag_of, sizes, ops.index(ops.pad(indices, low=[0], high=[1]), [first])


TABLE |= {
    "aten._embedding_bag.default": embedding_bag,
    "aten.embedding.default": lambda weight, indices, padding_idx=-1, *_: ops.embedding(
        weight, indices, padding_idx=padding_idx
    ),
    "aten.embedding_dense_backward.default": embedding_dense_backward,
    "aten.gather.default": lambda x, dim, index, **_: ops.gather(x, index, dim=dim),
    "aten.index.Tensor": index,
    "aten.index_put.default": index_put,
    "aten.index_select.default": lambda x, dim, index: ops.index_select(x, index, dim=dim),
    "aten.masked_scatter.default": ops.masked_scatter,
    "aten.nonzero.default": nonzero,
    "aten.scatter.src": lambda x, dim, index, src: ops.scatter(x, index, src, dim=dim),
    "aten.scatter.value": lambda x, dim, index, value: ops.scatter(x, index, full_like(index, value, x.dtype), dim=dim),
    "aten.scatter_add.default": lambda x, dim, index, src: ops.scatter(x, index, src, dim=dim, reduce="add"),
    "aten.scatter_reduce.two": scatter_reduce,
    "aten.select_scatter.default": lambda x, src, dim, index: ops.select_scatter(x, src, dim=dim, index=index),
    "aten.slice_scatter.default": lambda x, src, dim=0, start=None, end=None, step=1: ops.slice_scatter(
        x, src, dim=dim, step=step, **given(start=start, end=end)
    ),
    "aten.sort.default": lambda x, dim=-1, descending=False: ops.sort(x, dim=dim, descending=descending),
    "aten.topk.default": lambda x, k, dim=-1, largest=True, sorted=True: ops.topk(
        x, k=k, dim=dim, largest=largest, sorted=sorted
    ),
}

# ---- convolution, pooling, resampling --------------------------------------------------------------------------------


def gradients(function, operands, cotangent):
    """The gradients of function(*operands) by its operands: those of the table, put into the graph of the operands."""
    graph = operands[0].graph
    forward = tenon.Graph("forward")
    for name, (low, high) in graph.symbols.items():
        forward.symbol(name, low, high)
    inputs = [forward.input(f"x{i}", (x.dtype, x.shape)) for i, x in enumerate(operands)]
    forward.output(function(*inputs))
    return put_inline(graph, tenon.differentiate(forward, inputs), [*operands, cotangent])


def put_inline(graph, callee, arguments):
    """Adds the nodes of a graph to another; gives the Values of its outputs."""
    values = {value.id: argument for value, argument in zip(callee.inputs, arguments, strict=True)}
    for leaf in callee.leaves:
        if leaf.kind == "constant":
            values[leaf.value.id] = graph.constant(leaf.data)
    for node in callee.nodes:
        operands = [None if x is None else values[x.id] for x in node.operands]
        results = graph.op(node.op.name, *operands, **node.attrs)
        results = results if isinstance(results, tuple) else [results]
        values.update({old.id: new for old, new in zip(node.results, results, strict=True)})
    return [values[value.id] for value in callee.outputs]


def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    sizes = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    return ops.conv(x, weight, bias, **sizes, transposed=transposed, groups=groups)


def convolution_backward(grad, x, weight, bias_sizes, *geometry_and_mask):
    *geometry, output_mask = geometry_and_mask
    by_operands = gradients(lambda x, weight: convolution(x, weight, None, *geometry), [x, weight], grad)
    return masked([*by_operands, ops.sum(grad, dims=[0, *range(2, grad.ndim)])], output_mask)


def masked(results, output_mask):
    return [result if wanted else None for result, wanted in zip(results, output_mask, strict=True)]


def avg_pool(rank, x, kernel_size, stride=(), padding=0, ceil_mode=False, include_pad=True, divisor=None):
    sizes = {"kernel": each(kernel_size, rank), "stride": stride, "padding": padding}
    return ops.avg_pool(x, **sizes, ceil_mode=ceil_mode, count_include_pad=include_pad, divisor_override=divisor)


def max_pool(rank, x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    sizes = {"kernel": each(kernel_size, rank), "stride": stride, "padding": padding, "dilation": dilation}
    return ops.max_pool(x, **sizes, ceil_mode=ceil_mode)


def max_pool2d_backward(grad, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    zeros = ops.flatten(full_like(x, 0), start=-2)
    spread = ops.scatter(zeros, ops.flatten(indices, start=-2), ops.flatten(grad, start=-2), dim=-1, reduce="add")
    return ops.reshape(spread, shape=x.shape)


def adaptive_avg_pool(rank, x, output_size):
    return ops.adaptive_avg_pool(x, output_size=each(output_size, rank))


def col2im(x, output_size, kernel_size, dilation, padding, stride):
    return ops.col2im(x, output_size=output_size, kernel=kernel_size, dilation=dilation, padding=padding, stride=stride)


def grid_sampler_2d(x, grid, interpolation_mode, padding_mode, align_corners):
    mode = ["bilinear", "nearest", "bicubic"][interpolation_mode]
    padding = ["zeros", "border", "reflection"][padding_mode]
    return ops.grid_sample(x, grid, mode=mode, padding=padding, align_corners=align_corners)


def times(size, scale):
    """A symbolic size has only integral multiples."""
    return size * int(scale) if int(scale) == scale else int(size * scale)


def upsample(op, x, output_size, scale_factors, **attrs):
    if output_size is None:
        output_size = [times(size, scale) for size, scale in zip(x.shape[2:], scale_factors, strict=True)]
    return op(x, output_size=output_size, **given(scales=scale_factors), **attrs)


TABLE |= {
    "aten._adaptive_avg_pool2d.default": functools.partial(adaptive_avg_pool, 2),
    "aten._adaptive_avg_pool2d_backward.default": lambda grad, x: gradients(
        lambda x: adaptive_avg_pool(2, x, grad.shape[-2:]), [x], grad
    ),
    "aten._adaptive_avg_pool3d.default": functools.partial(adaptive_avg_pool, 3),
    "aten.adaptive_avg_pool1d.default": functools.partial(adaptive_avg_pool, 1),
    "aten.avg_pool1d.default": functools.partial(avg_pool, 1),
    "aten.avg_pool2d.default": functools.partial(avg_pool, 2),
    "aten.avg_pool2d_backward.default": lambda grad, x, *how: gradients(lambda x: avg_pool(2, x, *how), [x], grad),
    "aten.avg_pool3d.default": functools.partial(avg_pool, 3),
    "aten.col2im.default": col2im,
    "aten.convolution.default": convolution,
    "aten.convolution_backward.default": convolution_backward,
    "aten.grid_sampler_2d.default": grid_sampler_2d,
    "aten.max_pool2d_with_indices.default": functools.partial(max_pool, 2),
    "aten.max_pool2d_with_indices_backward.default": max_pool2d_backward,
    "aten.max_pool3d_with_indices.default": functools.partial(max_pool, 3),
    "aten.upsample_bilinear2d.vec": lambda x, output_size, align_corners, scale_factors: upsample(
        ops.upsample_linear, x, output_size, scale_factors, align_corners=align_corners
    ),
    "aten.upsample_nearest2d.vec": functools.partial(upsample, ops.upsample_nearest),
}

# ---- normalization ---------------------------------------------------------------------------------------------------


def standardize_backward(grad, out, rstd, dims):
    """Through the mean and the variance, each element takes part in all results."""
    mean = functools.partial(ops.mean, dims=dims, keepdim=True)
    return rstd * (grad - mean(grad) - out * mean(grad * out))


def layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias, output_mask):
    own = list(range(x.ndim - len(normalized_shape), x.ndim))
    others = list(range(x.ndim - len(normalized_shape)))
    out = (x - mean) * rstd
    dx = standardize_backward(grad if weight is None else grad * weight, out, rstd, own)
    over_others = (lambda y: ops.sum(y, dims=others)) if others else (lambda y: y)
    return masked([dx, over_others(grad * out), over_others(grad)], output_mask)


def group_norm_backward(grad, x, mean, rstd, weight, N, C, HxW, group, output_mask):  # noqa: N803
    """In groups: [N, groups, channels of a group, the rest]."""
    channels = [group, C // group, 1]
    shape, grad = x.shape, ops.reshape(grad, shape=[N, group, C // group, HxW])
    mean, rstd = (ops.reshape(y, shape=[N, group, 1, 1]) for y in (mean, rstd))
    out = (ops.reshape(x, shape=grad.shape) - mean) * rstd
    dout = grad if weight is None else grad * ops.reshape(weight, shape=channels)
    dx = ops.reshape(standardize_backward(dout, out, rstd, [2, 3]), shape=shape)
    by_channel = [ops.reshape(ops.sum(y, dims=[0, 3]), shape=[C]) for y in (grad * out, grad)]
    return masked([dx, *by_channel], output_mask)


def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    if not training:
        out = ops.batch_norm_inference(x, weight, bias, running_mean, running_var, eps=eps)
        return out, nothing(x), nothing(x), running_mean, running_var
    out, mean, rstd, variance = ops.batch_norm(x, weight, bias, eps=eps)
    new_mean = running_mean * (1 - momentum) + mean * momentum
    new_var = running_var * (1 - momentum) + variance * momentum
    return out, mean, rstd, new_mean, new_var


TABLE |= {
    "aten._native_batch_norm_legit.default": batch_norm,
    "aten._native_batch_norm_legit.no_stats": lambda x, weight, bias, training, momentum, eps: ops.batch_norm(
        x, weight, bias, eps=eps
    )[:3],
    "aten._native_batch_norm_legit_no_training.default": lambda x, weight, bias, mean, var, momentum, eps: batch_norm(
        x, weight, bias, mean, var, False, momentum, eps
    )[:3],
    "aten.native_group_norm.default": lambda x, weight, bias, N, C, HxW, group, eps: ops.group_norm(  # noqa: N803
        x, weight, bias, groups=group, eps=eps
    ),
    "aten.native_group_norm_backward.default": group_norm_backward,
    "aten.native_layer_norm.default": lambda x, normalized_shape, weight, bias, eps: ops.layer_norm(
        x, weight, bias, normalized_rank=len(normalized_shape), eps=eps
    ),
    "aten.native_layer_norm_backward.default": layer_norm_backward,
}

# ---- Fourier transforms: products with matrices of roots of unity ----------------------------------------------------


def roots(x, rows, columns, period):
    """The real and the imaginary part of exp(2 pi i * row * column / period)."""
    row, column = ops.iota(x.graph, size=rows), ops.iota(x.graph, size=columns)
    turns = to(ops.unsqueeze(row, dim=1) * column % period, "f64") / period
    angle = turns * (2 * math.pi)
    return to(ops.cos(angle), x.dtype), to(ops.sin(angle), x.dtype)


def along(dim, x, matrix):
    """Multiplies by a matrix along a dimension."""
    return ops.movedim(ops.movedim(x, source=dim, destination=-1) @ matrix, source=-1, destination=dim)


def transform(parts, dim, sign):
    real, imaginary = parts
    size = real.shape[dim]
    cos, sin = roots(real, size, size, size)
    sin = sin * sign
    return (
        along(dim, real, cos) - along(dim, imaginary, sin),
        along(dim, real, sin) + along(dim, imaginary, cos),
    )


def normalized(x, sizes, normalization):
    if normalization == 0:
        return x
    count = ops.full(x.graph, value=math.prod(sizes), shape=[], dtype=x.dtype)
    return x * ops.rsqrt(count) if normalization == 1 else x / count


def fft_r2c(x, dim, normalization, onesided):
    *others, last = dim
    size = x.shape[last]
    cos, sin = roots(x, size, size // 2 + 1 if onesided else size, size)
    parts = along(last, x, cos), along(last, x, -sin)
    for other in others:
        parts = transform(parts, other, -1)
    return normalized(ops.stack(parts, dim=-1), [x.shape[d] for d in dim], normalization)


def fft_c2r(x, dim, normalization, last_dim_size):
    """The other half of the last dimension is the conjugate: each of its elements counts twice, but for the middle."""
    *others, last = dim
    parts = [ops.select(x, dim=-1, index=part) for part in (0, 1)]
    for other in others:
        parts = transform(parts, other, 1)
    real, imaginary = parts
    half = real.shape[last]
    cos, sin = roots(x, half, last_dim_size, last_dim_size)
    row = ops.unsqueeze(ops.iota(x.graph, size=half), dim=1)
    weight = ops.where(row * 2 % last_dim_size == 0, 1.0, ops.full(x.graph, value=2, shape=[], dtype=x.dtype))
    out = along(last, real, cos * weight) - along(last, imaginary, sin * weight)
    return normalized(out, [out.shape[d] for d in dim], normalization)


TABLE |= {
    "aten._fft_c2r.default": fft_c2r,
    "aten._fft_r2c.default": fft_r2c,
}

# ---- random numbers --------------------------------------------------------------------------------------------------


def key(graph):
    return graph.input(f"key{len(graph.inputs)}", "i64[2]")


def dropout(x, p, train):
    return (x, full_like(x, True, "bool")) if train is False else ops.dropout(x, key(x.graph), p=p)


TABLE |= {
    "aten.native_dropout.default": dropout,
    "aten.rand.default": lambda graph, size, dtype=None, **_: ops.uniform(key(graph), shape=size, dtype=dtype or "f32"),
    "aten.randn.default": lambda graph, size, dtype=None, **_: ops.normal(key(graph), shape=size, dtype=dtype or "f32"),
    "aten.randperm.default": lambda graph, n, dtype="i64", **_: ops.randperm(key(graph), n=n, dtype=dtype),
}

# ---- no tensors: sizes are expressions, which `full` makes data of; a tensor's only element stays a tensor -----------

TABLE |= {
    "aten._local_scalar_dense.default": lambda x: ops.reshape(x, shape=[]),
    "aten.sym_is_contiguous.default": lambda x, memory_format=None: True,
    "aten.sym_numel.default": lambda x: math.prod(x.shape),
    "aten.sym_size.int": lambda x, dim: x.shape[dim],
    "aten.sym_storage_offset.default": lambda x: 0,
    "aten.sym_stride.int": lambda x, dim: math.prod(x.shape[dim:][1:]),
}
