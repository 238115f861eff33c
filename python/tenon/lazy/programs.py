"""Called by the extension: turns a TorchScript graph of the lazy device into a program that runs on tensors."""

from __future__ import annotations

import functools
import threading
import time
import warnings
from collections import Counter
from contextlib import AbstractContextManager
from typing import Any

import torch

from tenon import modes
from tenon._tenon import Error, Executable, compile_graph, devices
from tenon.capture.captured import Captured, Output
from tenon.lazy.metrics import EagerCalls, Metrics
from tenon.lazy.translate import translate
from tenon.report import segments_text
from tenon.runner import Run, make_runner

Type = tuple[torch.dtype, tuple[int, ...]]  # the type of an input; a number is a tensor of rank 0


class Program:
    """A compiled graph of the lazy device. `run` takes a tensor for each input and returns the results. `places` has,
    for each result, the input in whose memory it is computed (contiguous, and not shared), or -1."""

    def __init__(self, captured: Captured, executable: Executable) -> None:
        self.captured = captured
        self.executable = executable
        self.places = [_place(captured, executable, output) for output in captured.outputs]
        self.run: Run = make_runner(captured, executable.run)

    def __str__(self) -> str:
        kernels = self.executable.kernels
        trees = [(kernel["name"], self.executable.loop_tree(number)) for number, kernel in enumerate(kernels)]
        parts = [str(self.captured.graph).rstrip(), segments_text(self.executable.segments)]
        parts += [f"{name}:\n{tree}" for name, tree in trees if tree]
        return "\n\n".join(parts)


class Programs:
    """Compiles the graphs of a process, and counts what happens to them."""

    def __init__(self) -> None:
        self.last: Program | None = None
        self.extension: Any = None
        self.eager_calls = EagerCalls()
        self._lock = threading.Lock()
        self._fallbacks: Counter[str] = Counter()  # incremented by programs
        self._told: set[str] = set()  # the internal errors that were reported
        self._start()

    def _start(self) -> None:
        self._compiles = 0
        self._compile_seconds = 0.0
        self._refused: Counter[str] = Counter()
        self._internal_errors: Counter[str] = Counter()
        self._fallbacks.clear()
        self.eager_calls.forget()

    def reset(self) -> None:
        with self._lock:
            self._start()
            self.extension.reset_counters()

    def metrics(self) -> Metrics:
        counts = self.extension.counters()
        with self._lock:
            return Metrics(
                compiles=self._compiles,
                compile_seconds=self._compile_seconds,
                runs=counts["runs"],
                hits=counts["hits"],
                fallbacks=dict(self._fallbacks + self.eager_calls.counts()),
                torchscript_runs=counts["torchscript_runs"],
                refused=dict(self._refused),
                internal_errors=dict(self._internal_errors),
                reused_bytes=counts["reused_bytes"],
                copied_bytes=counts["copied_bytes"],
            )

    def devices(self) -> list[str]:
        return ["cpu", *devices()]

    def device_count(self) -> int:
        return len(self.devices())

    def report(self) -> str:
        return f"Tenon:\n{self.metrics()}\n"

    def compile(
        self, graph: torch._C.Graph, inputs: list[Type], sources: list[int], dying: list[int], ordinal: int
    ) -> Program | None:
        """`sources` says which of the inputs each input of the graph is; `dying` are the inputs that are unused after a
        run; `ordinal` is the number of the device. None if Tenon cannot run the graph."""
        start = time.perf_counter()
        try:
            program = self._compiled(translate(graph, inputs, sources), dying, self.devices()[ordinal])
        except Error as error:
            with self._lock:
                self._refused[str(error)] += 1
            return None
        except Exception as error:
            self._note_internal(error)
            return None
        with self._lock:
            self._compiles += 1
            self._compile_seconds += time.perf_counter() - start
            self.last = program
        return program

    def _note_internal(self, error: Exception) -> None:
        """Reports a bug in Tenon, each once. The TorchScript executor runs the graph."""
        text = f"{type(error).__name__}: {error}"
        with self._lock:
            self._internal_errors[text] += 1
            is_new = text not in self._told
            self._told.add(text)
        if is_new:
            warnings.warn(
                f"tenon.lazy could not compile a graph, by a mistake of Tenon's, and PyTorch runs the graph instead: "
                f"{text}. Please report it with this message and the code that led to it",
                RuntimeWarning,
                stacklevel=2,
            )

    def outside_modes(self) -> AbstractContextManager[None] | None:
        """The context of a run; None if no mode is on."""
        return modes.outside() if modes.are_on() else None

    @modes.run_outside
    def text(self, graph: torch._C.Graph, inputs: list[Type]) -> str:
        """Of a graph that may never run."""
        return str(self._compiled(translate(graph, inputs), [], "cpu"))

    def _compiled(self, captured: Captured, dying: list[int], device: str) -> Program:
        kept = {output.index for output in captured.outputs if output.kind in ("input", "view of input")}
        places = {position: place for place, position in enumerate(captured.graph_inputs)}
        donated = [places[position] for position in dying if position in places and position not in kept]
        fallback = _counting(captured, self._fallbacks)
        executable = compile_graph(captured.graph, fallback=fallback, devices=[device], donated=donated, shared=True)
        return Program(captured, executable)


def _place(captured: Captured, executable: Executable, output: Output) -> int:
    place = executable.places[output.index] if output.kind == "result" else None
    return -1 if place is None else captured.graph_inputs[place]


def _counting(captured: Captured, counts: Counter[str]) -> Any:
    """The fallback, with each call counted by its name."""
    if not captured.fallback.calls:
        return captured.fallback
    fallback = captured.fallback
    names = {number: _name_of(call.function) for number, call in fallback.calls.items()}

    def run(call: int, operands: list[torch.Tensor]) -> list[torch.Tensor]:
        counts[names[call]] += 1
        return fallback(call, operands)

    return run


def _name_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        return _name_of(function.args[0])
    return (
        function.name() if isinstance(function, torch._ops.OpOverload) else getattr(function, "__name__", str(function))
    )
