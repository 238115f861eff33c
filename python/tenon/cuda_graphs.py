"""CUDA graphs: a model's run as one launch, for torch.compile(mode="reduce-overhead") on a GPU.

A graph reads and writes the same memory in each run. Parameters are read where they are; other inputs are copied to
memory of the graph, and results are copied from it. There is a graph for each set of shapes, up to MOST_GRAPHS: what
has none runs as without graphs, and so does a model whose run needs the host.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from tenon import _tenon
from tenon._tenon import Error

MOST_GRAPHS = 16
_WARM_UPS = 2


class GraphedRun:
    """Runs an executable whose results all stay on the GPU."""

    def __init__(self, executable: _tenon.Executable, device: str, results: set[int]) -> None:
        self._executable = executable
        self._device = device
        self._results = results
        self._graphs: dict[Any, _Graph | None] = {}

    def __call__(self, inputs: list[Any]) -> list[Any]:
        key = tuple(
            value.data_ptr() if _is_fixed(value) else (value.shape, value.dtype)
            for value in inputs
            if isinstance(value, torch.Tensor)
        )
        if key not in self._graphs and len(self._graphs) < MOST_GRAPHS:
            self._graphs[key] = self._captured(inputs)
        graph = self._graphs.get(key)
        if graph is None or torch.cuda.is_current_stream_capturing():
            return self._executable.run(inputs, self._device, self._results, True)
        return graph.run(inputs)

    def _captured(self, inputs: list[Any]) -> _Graph | None:
        if not all(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs):
            return None
        try:
            return _Graph(self._executable.in_own_context(), inputs, self._device, self._results)
        except (Error, RuntimeError) as error:
            warnings.warn(f"a graph runs without CUDA graphs: {error}", stacklevel=2)
            return None


class _Graph:
    def __init__(self, own: Any, inputs: Sequence[torch.Tensor], device: str, results: set[int]) -> None:
        self._own = own  # its memory is that of the graph
        self._inputs = [value if _is_fixed(value) else value.clone() for value in inputs]
        self._copied = [i for i, value in enumerate(inputs) if not _is_fixed(value)]
        with torch.cuda.device(torch.device(device).index or 0):  # PyTorch's current one may be another GPU
            self._capture(device, results)

    def _capture(self, device: str, results: set[int]) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # all memory is there before the capture
            for _ in range(_WARM_UPS):
                self._own.run(self._inputs, device, results)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = self._own.run(self._inputs, device, results)

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        _tenon.check_cuda_graphs()
        for i in self._copied:
            self._inputs[i].copy_(inputs[i])
        self._graph.replay()
        return [output.clone() for output in self._outputs]


def _is_fixed(value: Any) -> bool:
    return type(value) is torch.nn.Parameter
