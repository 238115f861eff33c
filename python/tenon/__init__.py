"""Tenon takes a PyTorch graph to a device."""

from tenon._tenon import (
    Error,
    Graph,
    InternalError,
    Tensor,
    __version__,
    differentiate,
    op,
    op_table,
    parse,
)

__all__ = ["Error", "Graph", "InternalError", "Tensor", "__version__", "differentiate", "op", "op_table", "parse"]
