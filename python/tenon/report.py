"""tenon.explain: what a compiled model consists of, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenon.program import Program


def explain(program: Program) -> str:
    """The nodes of the model, with what Tenon does not run and why; the segments; the kernels; the bytes."""
    return report(program)


def report(program: Program) -> str:
    parts = [_nodes(program), _segments(program), _unsupported(program), _totals(program)]
    return "\n\n".join(part for part in parts if part)


def _nodes(program: Program) -> str:
    rows = [("op", "name", "target", "type", "runs on", "where")]
    for node in program.nodes:
        runs_on = "" if node.op != "call_function" else "tenon" if node.reason is None else "pytorch"
        where = "{}:{}".format(*node.location) if node.location else ""
        rows.append((node.op, node.name, node.target, node.type, runs_on, where))
    return table(rows)


def _segments(program: Program) -> str:
    lines = []
    for number, (kind, ops) in enumerate(program.segments):
        lines.append(f"Segment {number}: {kind} ({len(ops)} op{'' if len(ops) == 1 else 's'})")
        lines.append(f"  {', '.join(ops)}")
    return "\n".join(lines)


def _unsupported(program: Program) -> str:
    if not program.unsupported:
        return "every call is compiled"
    lines = [f"{len(program.unsupported)} of the calls run in PyTorch:"]
    for target, reason, location in program.unsupported:
        where = f"{location}: " if str(location) else ""
        lines.append(f"  {where}{target}: {reason}")
    return "\n".join(lines)


def _totals(program: Program) -> str:
    weights = sum(leaf.data.nbytes for leaf in program.graph.leaves if leaf.data is not None)
    calls = sum(node.op == "call_function" for node in program.nodes)
    return (
        f"program length: {calls} calls, {len(program.graph.nodes)} nodes, {len(program.kernels)} kernels\n"
        f"weights: {weights} bytes"
    )


def table(rows: list[tuple[str, ...]]) -> str:
    """Columns that line up; the first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
