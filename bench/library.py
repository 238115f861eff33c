"""The library tasks of the runtime against PyTorch, interleaved, on one and two threads.

    python bench/library.py [rounds]

Calls the kernels through their C ABI. Each cell is PyTorch's time over ours, the median over rounds: above 1 is faster
than PyTorch. torch.sort is not stable where ours is; torch.rand draws from another generator.
"""

import ctypes
import statistics
import sys
import time

import tenon._tenon
import torch

INT, POINTER = ctypes.c_int64, ctypes.c_void_p


class Lines(ctypes.Structure):
    _fields_ = (("outer", INT), ("length", INT), ("inner", INT))


LIBRARY = ctypes.CDLL(tenon._tenon.__file__)


def function(name, result, *arguments):
    found = getattr(LIBRARY, name)
    found.restype, found.argtypes = result, arguments
    return found


HOST = function("tenon_default_host", POINTER)()
set_threads = function("tenon_set_threads", None, INT)
tenon_sort = function("tenon_sort", INT, POINTER, ctypes.c_int, Lines, ctypes.c_int, POINTER, POINTER, POINTER)
tenon_topk = function("tenon_topk", INT, POINTER, ctypes.c_int, Lines, INT, ctypes.c_int, POINTER, POINTER, POINTER)
tenon_nonzero_count = function("tenon_nonzero_count", INT, POINTER, ctypes.c_int, INT, POINTER, POINTER)
tenon_nonzero_write = function(
    "tenon_nonzero_write", None, POINTER, ctypes.c_int, POINTER, INT, POINTER, POINTER, POINTER
)
tenon_uniform = function("tenon_uniform", None, POINTER, ctypes.c_int, POINTER, INT, POINTER)
tenon_randint = function("tenon_randint", None, POINTER, POINTER, INT, INT, INT, POINTER)
KEY = (INT * 2)(7, 0)
DTYPES = {torch.float64: 0, torch.float32: 1, torch.int64: 4, torch.int32: 5, torch.bool: 9}
SIZES = {"1K": 1 << 10, "64K": 1 << 16, "4M": 1 << 22}


def lines_of(x):
    return Lines(x.numel() // x.shape[-1], x.shape[-1], 1)


def sort(x):
    values, indices = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64)
    tenon_sort(HOST, DTYPES[x.dtype], lines_of(x), 0, x.data_ptr(), values.data_ptr(), indices.data_ptr())
    return values, indices


def topk(x, k):
    shape = (*x.shape[:-1], k)
    values, indices = torch.empty(shape, dtype=x.dtype), torch.empty(shape, dtype=torch.int64)
    tenon_topk(HOST, DTYPES[x.dtype], lines_of(x), k, 1, x.data_ptr(), values.data_ptr(), indices.data_ptr())
    return values, indices


def nonzero(x):
    starts = (INT * 256)()
    dtype = DTYPES[x.dtype]
    count = tenon_nonzero_count(HOST, dtype, x.numel(), x.data_ptr(), starts)
    indices = torch.empty((count, x.dim()), dtype=torch.int64)
    shape = (INT * x.dim())(*x.shape)
    tenon_nonzero_write(HOST, dtype, shape, x.dim(), x.data_ptr(), starts, indices.data_ptr())
    return indices


def uniform(size, dtype):
    out = torch.empty(size, dtype=dtype)
    tenon_uniform(HOST, DTYPES[dtype], KEY, size, out.data_ptr())
    return out


def randperm(size):
    draws, indices = torch.empty(size, dtype=torch.int64), torch.empty(size, dtype=torch.int64)
    tenon_randint(HOST, KEY, 0, 1 << 59, size, draws.data_ptr())
    tenon_sort(HOST, 4, Lines(1, size, 1), 0, draws.data_ptr(), None, indices.data_ptr())
    return indices


def cases(size):
    """Name, ours, PyTorch's."""
    x = torch.randn(size)
    rows = x.reshape(size // 256, 256)
    whole = torch.randint(-(1 << 62), 1 << 62, (size,))
    small = torch.randint(0, 1000, (size,))
    positive = x > 0
    wide = rows > 0
    double = x.double()
    yield "sort f32", lambda: sort(x), lambda: torch.sort(x)
    yield "sort f32, stable", lambda: sort(x), lambda: torch.sort(x, stable=True)
    yield "sort f32, rows of 256", lambda: sort(rows), lambda: torch.sort(rows)
    yield "sort f64", lambda: sort(double), lambda: torch.sort(double)
    yield "sort i64", lambda: sort(whole), lambda: torch.sort(whole)
    yield "sort i64 in 0..999", lambda: sort(small), lambda: torch.sort(small)
    yield "topk 10 f32", lambda: topk(x, 10), lambda: torch.topk(x, 10)
    yield "topk 500 f32", lambda: topk(x, 500), lambda: torch.topk(x, 500)
    yield "topk 10, rows of 256", lambda: topk(rows, 10), lambda: torch.topk(rows, 10)
    yield "nonzero bool", lambda: nonzero(positive), lambda: torch.nonzero(positive)
    yield "nonzero bool, two dims", lambda: nonzero(wide), lambda: torch.nonzero(wide)
    yield "nonzero f32", lambda: nonzero(x), lambda: torch.nonzero(x)
    yield "uniform f32", lambda: uniform(size, torch.float32), lambda: torch.rand(size)
    yield "uniform f64", lambda: uniform(size, torch.float64), lambda: torch.rand(size, dtype=torch.float64)
    yield "randperm", lambda: randperm(size), lambda: torch.randperm(size)


def seconds(call, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def measure(ours, theirs, rounds):
    repeats = max(1, int(2e-4 / max(seconds(ours, 1), seconds(ours, 1), 1e-6)))
    times = [(seconds(ours, repeats), seconds(theirs, repeats)) for _ in range(rounds)]
    ratio = statistics.median(b / a for a, b in times)
    return ratio, statistics.median(a for a, _ in times) * 1e6


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"{'PyTorch over ours (ours in us)':32}", *(f"{f'{n}, {t}':>16}" for n in SIZES for t in (1, 2)))
    cells = {}
    for size in SIZES.values():
        for threads in (1, 2):
            torch.set_num_threads(threads)
            set_threads(threads)
            for name, ours, theirs in cases(size):
                cells.setdefault(name, []).append(measure(ours, theirs, rounds if size < 1 << 20 else 5))
    for name, row in cells.items():
        print(f"{name:32}", *(f"{ratio:6.2f} {us:9.1f}" for ratio, us in row))


if __name__ == "__main__":
    main()
