"""Makes a Python function of each op of the table, with its signature and documentation."""

import inspect
import keyword

from tenon import _tenon

_ATTR_TYPES = {
    "bool": "bool",
    "int": "int",
    "real": "float",
    "string": "str",
    "dtype": "DTypeLike",
    "expression": "SizeLike",
    "symbol": "SizeLike",
    "scalar": "float | SizeLike",
    "list of ints": "Sequence[int] | int",
    "list of reals": "Sequence[float] | float",
    "list of expressions": "Sequence[SizeLike] | SizeLike",
}


def _signature(op):
    """The signature of an op's function."""
    parameters = []
    if not op.operands:
        parameters.append(inspect.Parameter("graph", inspect.Parameter.POSITIONAL_ONLY, annotation="Graph"))
    for position, operand in enumerate(op.operands):
        optional = operand.arity == "optional"
        trailing = all(later.arity == "optional" for later in op.operands[position:])
        annotation = "Sequence[ValueLike | None]" if operand.arity.startswith("variadic") else "ValueLike"
        parameters.append(
            inspect.Parameter(
                operand.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if trailing else inspect.Parameter.empty,
                annotation=annotation + (" | None" if optional else ""),
            )
        )
    for attr in op.attrs:
        default = inspect.Parameter.empty if attr.required else attr.default
        annotation = _ATTR_TYPES[attr.kind] + (" | None" if default is None else "")
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(attr.name, kind, default=default, annotation=annotation))
    result = "Value" if len(op.results) == 1 else f"tuple[{', '.join(['Value'] * len(op.results))}]"
    return inspect.Signature(parameters, return_annotation=result)


def _doc(op):
    lines = [op.doc]
    if op.attrs:
        lines.append("")
        lines += [f"{attr.name}: {attr.doc}" for attr in op.attrs]
    return "\n".join(lines)


def _function(op, name):
    def function(*operands, **attrs):
        return op(*operands, **attrs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _doc(op)
    function.__signature__ = _signature(op)
    return function


def _python_name(name):
    return name + "_" if keyword.iskeyword(name) else name


def op_functions():
    """The functions by name."""
    return {_python_name(op.name): _function(op, _python_name(op.name)) for op in _tenon.op_table()}
