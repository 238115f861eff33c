"""Reports about the graphs that torch.compile gave to Tenon."""

from __future__ import annotations

import threading
import warnings
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch._guards import CompileContext

from tenon._tenon import Error
from tenon.capture.captured import Captured, counted

_MOST_REPORTS = 10_000
_HOW_TO_REPORT = (
    "This is a defect of Tenon: please report it with the model, or with the graph that TORCH_LOGS=aot shows"
)


@dataclass(frozen=True)
class GraphReport:
    """The report of one graph. `failure` says why PyTorch runs all of it."""

    kind: str  # "inference", "forward", "backward", or "whole": the graph before it was split
    compile_id: str  # the compilation's name in PyTorch's logs: "0/1"
    calls: int
    fallback_calls: Counter[str] = field(default_factory=Counter)  # the calls that PyTorch runs, by name
    failure: str = ""
    is_defect: bool = False
    nodes: Counter[str] = field(default_factory=Counter)  # with devices, how many each runs

    @staticmethod
    def of(kind: str, captured: Captured) -> GraphReport:
        calls = [row for row in captured.rows if row.op == "call_function"]
        fallback_calls = Counter(row.target for row in calls if row.reason is not None)
        return GraphReport(kind, _compile_id(), len(calls), fallback_calls)

    @staticmethod
    def failed(kind: str, module: fx.GraphModule, error: Exception) -> GraphReport:
        calls = sum(node.op == "call_function" for node in module.graph.nodes)
        is_defect = not isinstance(error, Error)
        reason = f"{type(error).__name__}: {error}" if is_defect else error.message
        reason = reason.partition("\n")[0]
        return GraphReport(kind, _compile_id(), calls, failure=reason, is_defect=is_defect)

    @property
    def native_calls(self) -> int:
        return 0 if self.failure else self.calls - sum(self.fallback_calls.values())

    def __str__(self) -> str:
        name = f"{self.kind} graph {self.compile_id}" if self.compile_id else f"{self.kind} graph"
        return f"{name} ({counted(self.calls, 'call')})"


class GraphReports:
    """The reports of a process, the newest last."""

    def __init__(self) -> None:
        self._reports: deque[GraphReport] = deque(maxlen=_MOST_REPORTS)
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def add(self, report: GraphReport) -> None:
        """Keeps the report, and warns if PyTorch runs the whole graph: once for each reason."""
        with self._lock:
            self._reports.append(report)
            reason = _reason(report)
            if reason is None or reason in self._warned:
                return
            self._warned.add(reason)
            all_calls = sum(each.calls for each in self._reports)
        ending = f". {_HOW_TO_REPORT}" if report.is_defect else ""
        share = f"{report.calls} of the {counted(all_calls, 'call')} that Tenon was given so far"
        warnings.warn(f"tenon compiles nothing of the {report}, {share}: {reason}{ending}", stacklevel=3)

    def clear(self) -> None:
        with self._lock:
            self._reports.clear()
            self._warned.clear()

    def __iter__(self) -> Any:
        with self._lock:
            return iter(list(self._reports))

    def __len__(self) -> int:
        return len(self._reports)

    def __str__(self) -> str:
        from tenon.report import table

        rows = [("graph", "calls", "native", "in PyTorch", "devices")]
        for each in self:
            fallback_calls = ", ".join(f"{name} x{count}" for name, count in each.fallback_calls.most_common())
            placed = ", ".join(f"{count} nodes on {device}" for device, count in each.nodes.most_common())
            rows.append(
                (
                    f"{each.kind} {each.compile_id}",
                    str(each.calls),
                    str(each.native_calls),
                    each.failure or fallback_calls,
                    placed,
                )
            )
        return table(rows)


reports = GraphReports()


def report() -> str:
    """The graphs that torch.compile gave to Tenon in this process, with the calls that PyTorch runs."""
    return str(reports)


def _reason(report: GraphReport) -> str | None:
    if report.failure:
        return report.failure
    if report.calls and not report.native_calls:
        return f"Tenon lacks all of its calls: {', '.join(sorted(report.fallback_calls))}"
    return None


def _compile_id() -> str:
    current = CompileContext.current_compile_id()
    return "" if current is None else str(current)
