"""Tensors over named dimensions, and kernels: loop trees, schedules, backends.

    import tenon.loops as tl

    s = tl.SymbolGenerator()
    a = tl.Tensor(x).to(s.m, s.k)
    b = tl.Tensor(y).to(s.k, s.n)
    c = (a * b).sum(s.k)
    c.numpy()

An expression is computed when its value is read, with loops that the backend chooses. c.loop_tree has plain loops: each
edit of a tree returns a new tree, and c.set(tree) makes c run with it.
"""

import sys
from collections.abc import Callable

from tenon._tenon import (
    IR,
    Access,
    Allocation,
    Compiler,
    Fill,
    Kernel,
    Loop,
    LoopSpec,
    LoopTree,
    PreparedRun,
    Scope,
    Stretch,
    Symbol,
    annotate,
    apply,
    apply_edit,
    backends,
    bytes,
    cache_size,
    clear_cache,
    compile,
    concat,
    copy_input,
    default_backend,
    default_schedule,
    delete_copy,
    emit_asm,
    emit_cpp,
    emit_llvm,
    flops,
    fuse,
    index,
    initial_schedule,
    is_available,
    is_parallel,
    lower,
    map_ref,
    merge,
    register_backend,
    reorder,
    search,
    set_default_backend,
    set_threads,
    split,
    split_node,
    swap_loops,
    swap_nodes,
    threads,
    tuned_schedule,
    unfuse,
    unregister_backend,
)
from tenon._tenon import KernelNode as Node
from tenon._tenon import NamedTensor as Tensor

__all__ = [
    "IR",
    "Access",
    "Allocation",
    "Backend",
    "Compiler",
    "Fill",
    "Kernel",
    "Loop",
    "LoopSpec",
    "LoopTree",
    "Node",
    "PreparedRun",
    "Scope",
    "Stretch",
    "Symbol",
    "SymbolGenerator",
    "Tensor",
    "abs",
    "annotate",
    "apply",
    "apply_edit",
    "backends",
    "bytes",
    "cache_size",
    "clear_cache",
    "compile",
    "concat",
    "copy_input",
    "default_backend",
    "delete_copy",
    "emit_asm",
    "emit_cpp",
    "emit_llvm",
    "exp",
    "flops",
    "fuse",
    "index",
    "initial_schedule",
    "is_available",
    "is_parallel",
    "log",
    "lower",
    "map_ref",
    "maximum",
    "merge",
    "minimum",
    "register_backend",
    "reorder",
    "schedule",
    "search",
    "set_default_backend",
    "set_threads",
    "split",
    "split_node",
    "sqrt",
    "swap_loops",
    "swap_nodes",
    "tanh",
    "threads",
    "unfuse",
    "unregister_backend",
    "where",
]


class SymbolGenerator:
    """Makes Symbols by name, on first use: s.m is the same dimension each time."""

    def __getattr__(self, name: str) -> Symbol:
        if name.startswith("__"):
            raise AttributeError(name)
        symbol = Symbol(name)
        setattr(self, name, symbol)
        return symbol


def schedule(
    kernel: IR,
    backend: str = "cpu",
    tune: float = 0,
    sizes: dict[str, int] | None = None,
    progress: Callable[[float, int, float], None] | None = None,
) -> LoopTree:
    """A schedule that suits the backend's machine.

    With `tune`, searches for a better schedule on this machine for that many seconds, and keeps it in the cache (unless
    TENON_CACHE is off): from then on it is the schedule of this kernel, also in other processes. `sizes` gives values
    of symbolic sizes to measure with. `progress` is called with the seconds so far, the number of schedules tried, and
    the speed of the best relative to the first; without it, a terminal shows a bar.
    """
    if not tune:
        return default_schedule(kernel, backend)
    is_live = progress is None and sys.stderr.isatty()
    tree = tuned_schedule(kernel, tune, backend, sizes or {}, _bar(tune) if is_live else progress)
    if is_live:
        print(file=sys.stderr)
    return tree


def _bar(seconds: float) -> Callable[[float, int, float], None]:
    def show(elapsed: float, tried: int, speedup: float) -> None:
        filled = min(int(elapsed / seconds * 30), 30)
        bar = "#" * filled + "." * (30 - filled)
        print(
            f"\r[{bar}] {min(elapsed, seconds):4.1f} of {seconds:g} s, {tried} tried, {speedup:.2f}x ",
            end="",
            file=sys.stderr,
        )

    return show


class Backend:
    """Turns a LoopTree into something that runs. Derive a class, and register an instance:

        class Mine(tl.Backend):
            name = "mine"

            def compile(self, tree):
                return MyKernel(tree)

        tl.register_backend(Mine())

    A kernel is an object with run(memory): the kernel's inputs by slot, then its outputs by slot, as NumPy arrays (for
    bf16, which NumPy lacks, tenon.Tensors), valid during the run. run writes the outputs; the inputs are read-only. The
    kernel may have dump(), which returns its code as text.
    """

    name: str
    hardware_requirement: int = 0  # bits of the hardware that it needs; 0: any CPU

    def compile(self, tree: LoopTree) -> object:
        raise NotImplementedError(f"backend {self.name} has no compile(tree)")


def exp(x: Tensor | float) -> Tensor:
    return apply("exp", x)


def log(x: Tensor | float) -> Tensor:
    return apply("log", x)


def sqrt(x: Tensor | float) -> Tensor:
    return apply("sqrt", x)


def abs(x: Tensor | float) -> Tensor:
    return apply("abs", x)


def tanh(x: Tensor | float) -> Tensor:
    return apply("tanh", x)


def maximum(a: Tensor | float, b: Tensor | float) -> Tensor:
    return apply("maximum", a, b)


def minimum(a: Tensor | float, b: Tensor | float) -> Tensor:
    return apply("minimum", a, b)


def where(condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
    return apply("where", condition, a, b)


# In messages and in help(), the types are tenon.loops.Tensor and so on, not tenon._tenon.NamedTensor.
for _name in __all__:
    _object = globals()[_name]
    if isinstance(_object, type):
        _object.__module__ = "tenon.loops"
        _object.__name__ = _object.__qualname__ = _name
del _name, _object
