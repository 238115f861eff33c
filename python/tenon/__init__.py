"""Tenon compiles PyTorch graphs for a device.

    graph = tenon.Graph("scale")
    x = graph.input("x", "f32[N, 4]")
    graph.output(x * 2 + 1)
    (y,) = graph.evaluate(torch.ones(3, 4))

Names are those of the C++ library, and print(graph) shows the same text.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tenon import _tenon, aten, ops, pytorch_version, schedules
from tenon._tenon import (
    AttrDef,
    DeviceTensor,
    Error,
    Expr,
    Graph,
    Imported,
    InternalError,
    Leaf,
    Location,
    Loss,
    Node,
    OpDef,
    OperandDef,
    Optimizer,
    PassRun,
    PositionError,
    Pt2Graph,
    Pt2Node,
    Pt2Program,
    Tensor,
    Value,
    __version__,
    add_loss,
    add_optimizer,
    devices,
    differentiate,
    from_dlpack,
    import_pt2,
    load_plugin,
    op,
    op_table,
    parse,
    parse_srepr,
    passes,
    read_pt2,
    run_passes,
    set_threads,
    threads,
    to_device,
)
from tenon.optim import (
    L1,
    MSE,
    NLL,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    BCEWithLogits,
    CrossEntropy,
    Lion,
    Output,
    RMSprop,
)

if TYPE_CHECKING:
    from tenon.artifact import LoadedProgram, load
    from tenon.program import Program, compile
    from tenon.report import explain
    from tenon.training import LocalModelTrainingInstance, LocalTrainingInstance, Training

__all__ = [
    "L1",
    "MSE",
    "NLL",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "AttrDef",
    "BCEWithLogits",
    "CrossEntropy",
    "DeviceTensor",
    "Error",
    "Expr",
    "Graph",
    "Imported",
    "InternalError",
    "Leaf",
    "Lion",
    "LoadedProgram",
    "LocalModelTrainingInstance",
    "LocalTrainingInstance",
    "Location",
    "Loss",
    "Node",
    "OpDef",
    "OperandDef",
    "Optimizer",
    "Output",
    "PassRun",
    "PositionError",
    "Program",
    "Pt2Graph",
    "Pt2Node",
    "Pt2Program",
    "RMSprop",
    "Tensor",
    "Training",
    "Value",
    "__version__",
    "add_loss",
    "add_optimizer",
    "aten",
    "compile",
    "devices",
    "differentiate",
    "explain",
    "from_dlpack",
    "import_pt2",
    "load",
    "load_plugin",
    "op",
    "op_table",
    "ops",
    "parse",
    "parse_srepr",
    "passes",
    "read_pt2",
    "run_passes",
    "schedules",
    "set_threads",
    "threads",
    "to_device",
]

# Names that need PyTorch, which is imported on their first use.
_OF_TORCH = {
    "LoadedProgram": "tenon.artifact",
    "LocalModelTrainingInstance": "tenon.training",
    "LocalTrainingInstance": "tenon.training",
    "Program": "tenon.program",
    "Training": "tenon.training",
    "compile": "tenon.program",
    "explain": "tenon.report",
    "load": "tenon.artifact",
}


def __getattr__(name: str) -> Any:
    if name not in _OF_TORCH:
        raise AttributeError(f"module 'tenon' has no attribute '{name}'")
    pytorch_version.warn_if_unsupported()
    value = globals()[name] = getattr(importlib.import_module(_OF_TORCH[name]), name)
    return value


# In messages and in help(), the types are tenon.Graph and so on, not tenon._tenon.Graph.
for _name in __all__:
    if isinstance(getattr(_tenon, _name, None), type):
        getattr(_tenon, _name).__module__ = "tenon"
del _name
