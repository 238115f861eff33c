"""torch.compile(model, backend="tenon"): found by entry point, without an import.

`Options` has the options; any other option is an error. Inference and training go through AOTAutograd: the forward
graph and the backward graph are compiled once for each set of guards.

PyTorch runs a graph that Tenon cannot compile, and a warning says which graph, why, and its share of the model. With
fallback=False that is an error. `report()` lists the graphs that were compiled in this process.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import fx
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._dynamo import exc as dynamo_exceptions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import OutputType
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tenon import modes
from tenon._tenon import MOST_THREADS, Error, InternalError, fail
from tenon._tenon import compile_graph as compile_program
from tenon.capture.captured import NO_FALLBACK, Captured
from tenon.capture.decompose import traced_decompositions
from tenon.capture.fx import import_graph_module
from tenon.capture.grouped import with_traceable_gradients
from tenon.device_names import Devices, devices_for, devices_from
from tenon.graph_reports import GraphReport, report, reports
from tenon.runner import Run, assumption_check, executor, make_runner

__all__ = ["MODES", "OPTIONS", "Backend", "Options", "backend", "report", "reports"]


@dataclass(frozen=True)
class Options:
    threads: int = 0  # per call; 0: all
    fallback: bool = True  # PyTorch runs the calls that Tenon lacks; off: such a call is an error
    # Takes the nodes that it claims, or several in order of preference; the CPU runs the rest. None named: the GPU that
    # the model is on, if it is on one.
    device: Devices = ()


OPTIONS = tuple(field.name for field in fields(Options))
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_WITH_GRAPHS = ("reduce-overhead", "max-autotune")  # on a GPU: of inference


# Functions by which the parts of PyTorch communicate: TorchDynamo breaks the graph there, and compiles its parts.
_FOR_DYNAMO = (dynamo_exceptions.TorchDynamoException, *dynamo_exceptions.exceptions_allowed_to_be_fallback)


class Backend:
    """The function that torch.compile calls with each graph."""

    __name__ = "tenon"

    def __call__(
        self, module: fx.GraphModule, inputs: list[Any], *, mode: str | None = None, options: Any = None
    ) -> Callable[..., Any]:
        _check_mode(mode)
        checked = _options_from(options)
        graphs = mode in _WITH_GRAPHS
        try:
            return _compiled(module, inputs, checked, graphs)
        except _FOR_DYNAMO:
            raise
        except Exception as error:
            if not checked.fallback:
                raise
            reports.add(GraphReport.failed("whole", module, error))
            return module.forward


backend = Backend()


def _compiled(module: fx.GraphModule, inputs: list[Any], options: Options, graphs: bool = False) -> Callable[..., Any]:
    direct: list[Callable[..., Any]] = []

    def compile_inference(graph: fx.GraphModule, inputs: list[Any]) -> Run:
        shown = len(graph.graph.output_node().args[0])
        run = _compile_or_fall_back("inference", graph, options, shown, graphs)
        if _needs_no_wrapper(module, graph, inputs):
            direct.append(run.unboxed)
        return run

    def compile_forward(graph: fx.GraphModule, inputs: list[Any]) -> Run:
        return _compile_or_fall_back("forward", graph, options, shown=TracingContext.get().fw_metadata.num_forward)

    def compile_backward(graph: fx.GraphModule, inputs: list[Any]) -> Run:
        return _compile_or_fall_back("backward", graph, options)

    with _known_attention():
        compiled = aot_autograd(
            fw_compiler=compile_forward,
            bw_compiler=compile_backward,
            inference_compiler=compile_inference,
            partition_fn=min_cut_rematerialization_partition,
            decompositions=traced_decompositions(),
            keep_inference_input_mutations=True,
        )(with_traceable_gradients(module), inputs)
    return direct[0] if direct else compiled


def _known_attention() -> contextlib.AbstractContextManager[Any]:
    """On a GPU, PyTorch chooses among kinds of attention while it traces: without that of cuDNN, which Tenon lacks."""
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def _options_from(options: Any) -> Options:
    unknown = [name for name in options or {} if name not in OPTIONS]
    if unknown:
        fail(f"backend tenon has no option '{unknown[0]}': the options are {', '.join(OPTIONS)}")
    checked = Options(**(options or {}))
    if type(checked.threads) is not int:
        fail(f"option 'threads' must be an int, got {checked.threads!r}")
    if not 0 <= checked.threads <= MOST_THREADS:
        fail(f"option 'threads' must be in [0, {MOST_THREADS}], got {checked.threads}")
    if type(checked.fallback) is not bool:
        fail(f"option 'fallback' must be True or False, got {checked.fallback!r}")
    devices_from(checked.device)
    return checked


def _check_mode(mode: str | None) -> None:
    """Accepts every mode of torch.compile: Tenon does what the modes ask for, as far as a CPU can. On a GPU, some
    ask for CUDA graphs."""
    if mode is not None and mode not in MODES:
        fail(f"backend tenon has no mode '{mode}': the modes are {', '.join(MODES)}")


def _needs_no_wrapper(module: fx.GraphModule, graph: fx.GraphModule, inputs: list[Any]) -> bool:
    """Whether AOTAutograd's wrapper merely calls the compiled graph, and can be skipped. It has work to do if results
    are views, if arguments are written, and if the graph takes other values."""
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


# ---- one graph ------------------------------------------------------------------------------------------------------


def _compile_or_fall_back(
    kind: str, module: fx.GraphModule, options: Options, shown: int = 0, graphs: bool = False
) -> Run:
    """The graph as a function of a list of values, which it may empty; `unboxed` takes the values one by one."""
    try:
        with modes.outside():  # AOTAutograd calls the compiler inside of its trace
            return _compile(kind, module, options, shown, graphs)
    except Exception as error:
        if not options.fallback:
            raise
        reports.add(GraphReport.failed(kind, module, error))
        return _in_pytorch(module)


def _compile(kind: str, module: fx.GraphModule, options: Options, shown: int, graphs: bool = False) -> Run:
    captured = import_graph_module(module, shown)
    if not options.fallback:
        captured.check_supported(NO_FALLBACK)
    found = GraphReport.of(kind, captured)
    if found.calls and not found.native_calls:
        run = _in_pytorch(module)
    else:
        devices = devices_for(options.device, captured.gpu)
        executable = compile_program(
            captured.graph, fallback=captured.fallback, threads=options.threads, devices=devices
        )
        found = replace(found, nodes=Counter(node["device"] for node in executable.placement))
        run = _runnable(found, module, captured, executable, options, graphs)
    reports.add(found)
    return run


def _runnable(
    found: GraphReport, module: fx.GraphModule, captured: Captured, executable: Any, options: Options, graphs: bool
) -> Run:
    run = make_runner(captured, executor(captured, executable, graphs))
    checked = functools.partial(_checked, found, module, options)
    if captured.assumptions is not None:
        holds = assumption_check(captured.assumptions)
        run = checked(holds, "its sizes differ from those that it was compiled for", run)
    numbers = [i for i in captured.graph_inputs if isinstance(i, int) and captured.inputs[i].size is not None]
    if numbers:  # they travel as sizes of tensors
        run = checked(lambda args: min(args[i] for i in numbers) >= 0, "an int is negative", run)

    def call(args: list[Any]) -> list[Any]:
        try:
            return run(args)
        except (Error, InternalError):
            if not any(map(_is_more_than_memory, args)):
                raise
            return module(*args)

    call._boxed_call = True
    call.unboxed = lambda *args: call(args)
    return call


def _checked(
    found: GraphReport,
    module: fx.GraphModule,
    options: Options,
    holds: Callable[[list[Any]], bool],
    failure: str,
    run: Run,
) -> Run:
    """PyTorch runs calls that the graph was not compiled for."""
    failed = replace(found, failure=failure, fallback_calls=Counter())

    def call(args: list[Any]) -> list[Any]:
        if holds(args):
            return run(args)
        if not options.fallback:
            fail(f"PyTorch would have to run this call of a graph, because {failure}, and {NO_FALLBACK}")
        reports.add(failed)
        return module(*args)

    return call


def _is_more_than_memory(value: Any) -> bool:
    """Whether a tensor is more than its elements for PyTorch: a fake tensor, one inside a transform of torch.func, one
    with a tangent."""
    if not isinstance(value, torch.Tensor):
        return False
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or is_functorch_wrapped_tensor(value):
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(value).tangent is not None


def _in_pytorch(module: fx.GraphModule) -> Run:
    def call(args: list[Any]) -> list[Any]:
        return module(*args)

    call._boxed_call = True
    call.unboxed = module
    return call
