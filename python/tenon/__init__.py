"""Tenon takes a PyTorch graph to a device.

    graph = tenon.Graph("scale")
    x = graph.input("x", "f32[N, 4]")
    graph.output(x * 2 + 1)
    (y,) = graph.evaluate(torch.ones(3, 4))

The nouns and verbs are those of the C++ library, and print(graph) shows the same text.
"""

from tenon import _tenon, ops
from tenon._tenon import (
    AttrDef,
    Error,
    Expr,
    Graph,
    Imported,
    InternalError,
    Leaf,
    Location,
    Node,
    OpDef,
    OperandDef,
    PassRun,
    Pt2Graph,
    Pt2Node,
    Pt2Program,
    Tensor,
    Value,
    __version__,
    differentiate,
    import_pt2,
    op,
    op_table,
    parse,
    passes,
    read_pt2,
    run_passes,
)

__all__ = [
    "AttrDef",
    "Error",
    "Expr",
    "Graph",
    "Imported",
    "InternalError",
    "Leaf",
    "Location",
    "Node",
    "OpDef",
    "OperandDef",
    "PassRun",
    "Pt2Graph",
    "Pt2Node",
    "Pt2Program",
    "Tensor",
    "Value",
    "__version__",
    "differentiate",
    "import_pt2",
    "op",
    "op_table",
    "ops",
    "parse",
    "passes",
    "read_pt2",
    "run_passes",
]

# In messages and in help() they are tenon.Graph, not tenon._tenon.Graph.
for _name in __all__:
    if isinstance(getattr(_tenon, _name, None), type):
        getattr(_tenon, _name).__module__ = "tenon"
del _name
