"""What a call costs beside its kernels: torch.compile of relu-matmul-softmax, 4x8x16, with Tenon and with Inductor.

The kernels take about a microsecond, so the whole call is the overhead, but for that microsecond: a call that takes
half as long has less than half the overhead. In turns, in one process, medians of rounds.

"least" is a backend that computes nothing, and gives a new tensor: what PyTorch's guards, frames and allocation cost
whatever the backend does.
"""

import statistics
import time

import torch

CALLS, ROUNDS = 2000, 15


def model(x, w):
    return torch.softmax(torch.relu(x) @ w, dim=-1)


def least(module, inputs):
    shape = model(*inputs).shape
    return lambda *args: (torch.empty(shape),)


def time_of(function, x, w):
    start = time.perf_counter()
    for _ in range(CALLS):
        function(x, w)
    return (time.perf_counter() - start) / CALLS * 1e6


def main():
    torch.set_num_threads(1)
    x, w = torch.randn(4, 8), torch.randn(8, 16)
    compiled = {}
    for backend in ("tenon", "inductor"):
        torch._dynamo.reset()
        compiled[backend] = torch.compile(lambda x, w: model(x, w), backend=backend)
        torch.testing.assert_close(compiled[backend](x, w), model(x, w))
    compiled["least"] = torch.compile(lambda x, w: model(x, w), backend=least)
    compiled["least"](x, w)
    compiled["eager"] = model
    times = {name: [] for name in compiled}
    with torch.no_grad():
        for _ in range(ROUNDS):
            for name, function in compiled.items():
                times[name].append(time_of(function, x, w))
    for name, own in times.items():
        print(f"{name:<10} {statistics.median(own):7.2f} us a call")
    ratios = {
        name: statistics.median(own / theirs for own, theirs in zip(times[name], times["inductor"], strict=True))
        for name in ("tenon", "least")
    }
    print(
        f"tenon / inductor: {ratios['tenon']:.2f} (the bar: 0.50); the least that a backend can: {ratios['least']:.2f}"
    )


main()
