"""One function for each op of the table: tenon.ops.sum(x, dims=[0], keepdim=True).

Operands are Values of one graph; numbers and arrays beside them become constants. Attributes are keywords. An op
without operands takes the graph first: tenon.ops.iota(graph, size=5).
"""

from tenon._op_functions import op_functions as _op_functions

_functions = _op_functions()
__all__ = [*_functions]
globals().update(_functions)
