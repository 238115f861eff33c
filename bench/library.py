"""The library tasks of the runtime against PyTorch, interleaved, on one and two threads.

    python bench/library.py [rounds]

Calls the kernels through their C ABI, and both into memory that is there. Each cell is PyTorch's time over ours, the
median over rounds: above 1 is faster than PyTorch. torch.sort is not stable where ours is; torch.rand draws from
another generator, and torch.randperm orders otherwise.
"""

import ctypes
import statistics
import sys
import time

import tenon._tenon
import torch

INT, FLAG, POINTER = ctypes.c_int64, ctypes.c_int, ctypes.c_void_p


class Lines(ctypes.Structure):
    _fields_ = (("outer", INT), ("length", INT), ("inner", INT))


LIBRARY = ctypes.CDLL(tenon._tenon.__file__)


def function(name, result, *arguments):
    found = getattr(LIBRARY, name)
    found.restype, found.argtypes = result, arguments
    return found


SERVICES = function("tenon_default_services", POINTER)()
KEY = (INT * 2)(7, 0)
set_threads = function("tenon_set_threads", None, INT)
tenon_sort = function("tenon_sort", INT, POINTER, FLAG, Lines, FLAG, *[POINTER] * 3)
tenon_topk = function("tenon_topk", INT, POINTER, FLAG, Lines, INT, FLAG, *[POINTER] * 3)
tenon_nonzero_count = function("tenon_nonzero_count", INT, POINTER, FLAG, INT, *[POINTER] * 2)
tenon_nonzero_write = function("tenon_nonzero_write", None, POINTER, FLAG, POINTER, INT, *[POINTER] * 3)
tenon_uniform = function("tenon_uniform", None, POINTER, FLAG, POINTER, INT, POINTER)
tenon_randint = function("tenon_randint", None, POINTER, POINTER, INT, INT, INT, POINTER)
DTYPES = {torch.float64: 0, torch.float32: 1, torch.int64: 4, torch.int32: 5, torch.bool: 9}
SIZES = {"1K": 1 << 10, "64K": 1 << 16, "4M": 1 << 22}


def lines_of(x):
    return Lines(x.numel() // x.shape[-1], x.shape[-1], 1)


def integers(*shape):
    return torch.empty(shape, dtype=torch.int64)


# Each gives what ours does, and what PyTorch does.


def sort(x, stable=False):
    values, indices = torch.empty_like(x), integers(*x.shape)
    ours = (SERVICES, DTYPES[x.dtype], lines_of(x), 0, x.data_ptr(), values.data_ptr(), indices.data_ptr())
    return lambda: tenon_sort(*ours), lambda: torch.sort(x, stable=stable, out=(values, indices))


def topk(x, k):
    shape = (*x.shape[:-1], k)
    values, indices = torch.empty(shape, dtype=x.dtype), integers(*shape)
    ours = (SERVICES, DTYPES[x.dtype], lines_of(x), k, 1, x.data_ptr(), values.data_ptr(), indices.data_ptr())
    return lambda: tenon_topk(*ours), lambda: torch.topk(x, k, out=(values, indices))


def nonzero(x):
    starts, indices = (INT * 256)(), torch.nonzero(x)
    shape = (INT * x.dim())(*x.shape)
    counting = (SERVICES, DTYPES[x.dtype], x.numel(), x.data_ptr(), starts)
    writing = (SERVICES, DTYPES[x.dtype], shape, x.dim(), x.data_ptr(), starts, indices.data_ptr())

    def ours():
        tenon_nonzero_count(*counting)
        tenon_nonzero_write(*writing)

    return ours, lambda: torch.nonzero(x, out=indices)


def uniform(size, dtype):
    out = torch.empty(size, dtype=dtype)
    ours = (SERVICES, DTYPES[dtype], KEY, size, out.data_ptr())
    return lambda: tenon_uniform(*ours), lambda: torch.rand(size, out=out)


def randperm(size):
    draws, indices = integers(size), integers(size)
    lines = Lines(1, size, 1)

    def ours():
        tenon_randint(SERVICES, KEY, 0, 1 << 59, size, draws.data_ptr())
        tenon_sort(SERVICES, DTYPES[torch.int64], lines, 0, draws.data_ptr(), None, indices.data_ptr())

    return ours, lambda: torch.randperm(size, out=indices)


def cases(size):
    x = torch.randn(size)
    rows = x.reshape(size // 256, 256)
    return {
        "sort f32": sort(x),
        "sort f32, stable": sort(x, stable=True),
        "sort f32, rows of 256": sort(rows),
        "sort f64": sort(x.double()),
        "sort i64": sort(torch.randint(-(1 << 62), 1 << 62, (size,))),
        "sort i64 in 0..999": sort(torch.randint(0, 1000, (size,))),
        "topk 10 f32": topk(x, 10),
        "topk 500 f32": topk(x, 500),
        "topk 10, rows of 256": topk(rows, 10),
        "nonzero bool": nonzero(x > 0),
        "nonzero bool, two dims": nonzero(rows > 0),
        "nonzero f32": nonzero(x),
        "uniform f32": uniform(size, torch.float32),
        "uniform f64": uniform(size, torch.float64),
        "randperm": randperm(size),
    }


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
            for name, (ours, theirs) in cases(size).items():
                cells.setdefault(name, []).append(measure(ours, theirs, rounds if size < 1 << 20 else 5))
    for name, row in cells.items():
        print(f"{name:32}", *(f"{ratio:6.2f} {us:9.1f}" for ratio, us in row))


if __name__ == "__main__":
    main()
