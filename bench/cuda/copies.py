"""python -m bench.cuda.copies --mib 256: bandwidth of streams kernels, counting bytes read and written, against a copy
on the same GPU and Inductor's kernels, on random data."""

import argparse

import tenon
import torch

from bench.cuda.timing import medians_ms, table

CASES = {  # the function, how many tensors of the size it reads, how many it writes
    "add": (lambda x, y: x + y, 2, 1),
    "gelu(x * y)": (lambda x, y: torch.nn.functional.gelu(x * y), 2, 1),
    "softmax": (lambda x, y: torch.softmax(x, -1), 1, 1),
    "layer_norm": (lambda x, y: torch.nn.functional.layer_norm(x, x.shape[-1:]), 1, 1),
    "sum of rows": (lambda x, y: x.sum(-1), 1, 0),
    "transposed add": (lambda x, y: x + y.T.contiguous().T, 2, 1),
}
COLUMNS = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="of each tensor")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--no-inductor", action="store_true")
    given = parser.parse_args()
    dtype = getattr(torch, given.dtype)
    rows = (given.mib << 20) // dtype.itemsize // COLUMNS
    x, y = (torch.randn(rows, COLUMNS, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(x)
    copy_ms = medians_ms({"copy": lambda: out.copy_(x)})["copy"]
    ceiling = 2 * x.nbytes / copy_ms / 1e9
    lines = [["kernel", "TB/s", "of copy", "of Inductor", "relative error"], ["copy", ceiling, 1.0, "", ""]]
    for name in given.case or CASES:
        function, reads, writes = CASES[name]
        lines.append(measured(name, function, (x, y), (reads + writes) * x.nbytes, ceiling, not given.no_inductor))
        print(lines[-1], flush=True)
    print(table(lines))


def measured(name, function, args, moved, ceiling, with_inductor):
    program = tenon.compile(function, args)
    expected = function(*(arg.double() for arg in args))
    error = float((program(*args).double() - expected).norm() / expected.norm())
    functions = {"tenon": lambda: program(*args)}
    if with_inductor:
        compiled = torch.compile(function)
        functions["inductor"] = lambda: compiled(*args)
    with torch.no_grad():
        times = medians_ms(functions)
    rate = moved / times["tenon"] / 1e9
    ratio = times["inductor"] / times["tenon"] if with_inductor else ""
    return [name, rate, rate / ceiling, ratio, f"{error:.1e}"]


if __name__ == "__main__":
    main()
