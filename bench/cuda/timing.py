"""Times of functions that work on a GPU, taken in turns: a machine that becomes slower harms all of them."""

import statistics
from collections.abc import Callable

import torch

WARM_UP = 3


def medians_ms(functions: dict[str, Callable[[], object]], rounds: int = 15, calls: int = 5) -> dict[str, float]:
    """The median over rounds of the time of a call, by the GPU's clock, with the gaps that the host leaves."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(WARM_UP):
            function()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for name, function in functions.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(calls):
                function()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / calls)
    return {name: statistics.median(given) for name, given in times.items()}


def in_graph(function: Callable[[], object]) -> Callable[[], object]:
    """The function as a CUDA graph, over the tensors that it reads now."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def table(rows: list[list[object]]) -> str:
    """Columns of equal width; numbers to the right."""
    texts = [[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    aligned = (
        [text.rjust(width) if i else text.ljust(width) for i, (text, width) in enumerate(zip(row, widths, strict=True))]
        for row in texts
    )
    return "\n".join("  ".join(row).rstrip() for row in aligned)
