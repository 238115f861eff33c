"""tenon.explain: describes a compiled model as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenon._tenon import Error, fail, warnings
from tenon.capture.captured import counted

if TYPE_CHECKING:
    from tenon.program import Program


def explain(program: Program) -> str:
    """The nodes of the model, with the calls that PyTorch runs and why; the segments; the kernels; the bytes.
    With devices, how many nodes each runs, and why devices declined others."""
    from tenon.program import Program

    if not isinstance(program, Program):
        what = type(program).__qualname__
        fail(f"explain takes a compiled program, got a {what}: give it what tenon.compile makes of the model")
    return report(program)


def report(program: Program) -> str:
    placement = program._executable.placement_summary.rstrip("\n")
    parts = [_nodes(program), segments_text(program.segments), placement, _unsupported(program), _totals(program)]
    return "\n\n".join(part for part in parts if part)


def _nodes(program: Program) -> str:
    rows = [("op", "name", "target", "type", "runs on", "where")]
    for node in program.nodes:
        runs_on = "" if node.op != "call_function" else "tenon" if node.reason is None else "pytorch"
        where = "{}:{}".format(*node.location) if node.location else ""
        rows.append((node.op, node.name, node.target, node.type, runs_on, where))
    return table(rows)


def segments_text(segments: list[tuple[str, list[str]]]) -> str:
    lines = []
    for number, (kind, ops) in enumerate(segments):
        lines.append(f"Segment {number}: {kind} ({counted(len(ops), 'op')})")
        lines.append(f"  {', '.join(ops)}")
    return "\n".join(lines)


def _unsupported(program: Program) -> str:
    if not program.unsupported:
        return "every call is compiled"
    verb = "runs" if len(program.unsupported) == 1 else "run"
    lines = [f"{len(program.unsupported)} of the calls {verb} in PyTorch:"]
    for target, reason, location in program.unsupported:
        where = f"{location}: " if location.line else ""
        lines.append(f"  {where}{target}: {reason}")
    return "\n".join(lines)


def _totals(program: Program) -> str:
    weights = sum(leaf.data.nbytes for leaf in program.graph.leaves if leaf.data is not None)
    calls = sum(node.op == "call_function" for node in program.nodes)
    fallbacks = sum(kernel["kind"] == "external" for kernel in program.kernels)
    length = [(calls, "call"), (len(program.graph.nodes), "node"), (len(program.kernels) - fallbacks, "kernel")]
    program_length = f"program length: {', '.join(counted(*part) for part in length)}"
    origin = "from the cache" if program.is_from_cache else "in this process"
    lines = [
        program_length,
        f"compiled: {origin}",
        f"weights: {counted(weights, 'byte')}",
        _artifact(program),
    ]
    lines += [f"warning in this process ({counted(count, 'time')}): {text}" for text, count in warnings()]
    return "\n".join(lines)


def _artifact(program: Program) -> str:
    try:
        size = program.artifact_bytes()
    except Error as error:  # its arguments, results or external calls have something that no file can hold
        return f"artifact: none, for {error.message}"
    parts = {
        "weights": size["weights"],
        "code": size["code"],
        "the rest": size["file"] - size["weights"] - size["code"],
    }
    return f"artifact: {counted(size['file'], 'byte')} ({', '.join(f'{name} {part}' for name, part in parts.items())})"


def table(rows: list[tuple[str, ...]]) -> str:
    """Aligns columns; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
