"""torch.compile(model, backend="tenon"): found by entry point, nothing to import.

Options are those of `Options`; any other is an error. Inference and training go through AOTAutograd: the forward and
the backward graph are each compiled once for each set of guards, and run without another look at their structure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import OutputType
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tenon._tenon import compile_graph as compile_program
from tenon._tenon import fail
from tenon.capture.captured import NO_FALLBACK
from tenon.capture.models import capture_graph_module, missing_decompositions
from tenon.runner import Run, make_runner


@dataclass(frozen=True)
class Options:
    threads: int = 0  # of a call; 0 is all
    fallback: bool = True  # whether PyTorch runs what Tenon lacks; else it is an error


OPTIONS = tuple(field.name for field in fields(Options))
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Backend:
    """What torch.compile calls with each graph that it captures."""

    __name__ = "tenon"

    def __call__(
        self, module: fx.GraphModule, inputs: list[Any], *, mode: str | None = None, options: Any = None
    ) -> Callable[..., Any]:
        _check_mode(mode)
        compile_graph = _graph_compiler(_options_from(options))
        direct: list[Callable[..., Any]] = []

        def compile_inference(graph: fx.GraphModule, inputs: list[Any]) -> Run:
            run = compile_graph(graph, inputs, shown=len(graph.graph.output_node().args[0]))
            if _needs_no_wrapper(module, graph, inputs):
                direct.append(run.unboxed)
            return run

        def compile_forward(graph: fx.GraphModule, inputs: list[Any]) -> Run:
            return compile_graph(graph, inputs, shown=TracingContext.get().fw_metadata.num_forward)

        compiled = aot_autograd(
            fw_compiler=compile_forward,
            bw_compiler=compile_graph,
            inference_compiler=compile_inference,
            partition_fn=min_cut_rematerialization_partition,
            decompositions=missing_decompositions(),
            keep_inference_input_mutations=True,
        )(module, inputs)
        return direct[0] if direct else compiled


backend = Backend()


def _options_from(options: Any) -> Options:
    unknown = [name for name in options or {} if name not in OPTIONS]
    if unknown:
        fail(f"backend tenon has no option '{unknown[0]}': the options are {', '.join(OPTIONS)}")
    checked = Options(**(options or {}))
    if type(checked.threads) is not int:
        fail(f"option 'threads' must be an int, got {checked.threads!r}")
    if type(checked.fallback) is not bool:
        fail(f"option 'fallback' must be True or False, got {checked.fallback!r}")
    return checked


def _check_mode(mode: str | None) -> None:
    """Every mode of torch.compile asks for what Tenon does anyway, as far as a CPU can have it."""
    if mode is not None and mode not in MODES:
        fail(f"backend tenon has no mode '{mode}': the modes are {', '.join(MODES)}")


def _needs_no_wrapper(module: fx.GraphModule, graph: fx.GraphModule, inputs: list[Any]) -> bool:
    """Whether AOTAutograd's function would do no more than call the compiled graph: then the call spares it. There is
    work for it where results are views, where arguments are written, and where the graph takes other values."""
    metadata = TracingContext.get().fw_metadata
    return (
        metadata is not None
        and not metadata.num_mutated_inp_runtime_indices
        and not metadata.num_intermediate_bases
        and not metadata.tokens
        and all(output.output_type is OutputType.non_alias for output in metadata.output_info)
        and not any(True for _ in itertools.chain(module.parameters(), module.buffers()))
        and not any(is_traceable_wrapper_subclass(value) for value in inputs)
        and len(graph.graph.find_nodes(op="placeholder")) == len(module.graph.find_nodes(op="placeholder"))
    )


def _graph_compiler(options: Options) -> Callable[..., Run]:
    def compile_graph(module: fx.GraphModule, inputs: list[Any], shown: int = 0) -> Run:
        captured = capture_graph_module(module, inputs, shown)
        if not options.fallback:
            captured.check_supported(NO_FALLBACK)
        executable = compile_program(captured.graph, host=captured.host, threads=options.threads)
        execute = executable.run
        run = make_runner(captured, execute)

        def call(args: list[Any]) -> list[Any]:
            return run(args)

        call._boxed_call = True
        call.unboxed = executable if run is execute else lambda *args: run(args)
        return call

    return compile_graph
