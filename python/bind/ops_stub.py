"""Writes the stub of tenon.ops, whose functions come from the op table: ops_stub.py OUTPUT."""

import sys
import textwrap
from pathlib import Path

from tenon import ops

HEAD = """\
from collections.abc import Sequence

from tenon._tenon import DTypeLike, Graph, SizeLike, Value, ValueLike
"""


def stub(function):
    parameters = []
    for parameter in function.__signature__.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parameters.append(f"{parameter.name}: {parameter.annotation}{default}")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            parameters.append("/")
    doc = textwrap.indent(function.__doc__, "    ").strip()
    result = function.__signature__.return_annotation
    return f'def {function.__name__}({", ".join(parameters)}) -> {result}:\n    r"""{doc}"""\n'


def main(output):
    functions = [getattr(ops, name) for name in ops.__all__]
    Path(output).write_text("\n".join([HEAD, *map(stub, functions)]))


if __name__ == "__main__":
    main(sys.argv[1])
