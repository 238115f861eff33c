"""The ways to run a model: by eager PyTorch, by PyTorch's own compilers, and by Tenon. One class for each mode."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Protocol

import tenon
import torch
from tenon.graph_reports import GraphReport
from tenon.torch_backend import reports

from .judging import Results
from .making import Inputs, Made, run


class Mode(Protocol):
    def prepare(self, made: Made) -> None: ...  # sets the model up; says in `made` whether it is random
    def eager(self, made: Made) -> Results: ...
    def pytorch(self, made: Made) -> Results: ...
    def tenon(self, made: Made) -> tuple[Results, list[GraphReport]]: ...


@dataclass
class Exported:
    """`tenon.compile` of what `torch.export` gives."""

    is_dynamic: bool = False
    device: str = ""

    def prepare(self, made: Made) -> None:
        pass

    def eager(self, made: Made) -> Results:
        return _results(made.module, made, self.is_dynamic)

    def pytorch(self, made: Made) -> Results:
        return _results(self._export(made).module(), made, self.is_dynamic)

    def tenon(self, made: Made) -> tuple[Results, list[GraphReport]]:
        program = tenon.compile(self._export(made), threads=1, device=self.device or ())
        report = GraphReport.of("exported", program._captured)
        return _results(program, made, self.is_dynamic), [report]

    def _export(self, made: Made) -> torch.export.ExportedProgram:
        shapes = _dynamic_shapes(made) if self.is_dynamic else None
        return torch.export.export(made.module, (), made.inputs, dynamic_shapes=shapes, strict=False)


@dataclass
class Compiled:
    """`torch.compile`."""

    is_dynamic: bool = False
    device: str = ""

    def prepare(self, made: Made) -> None:
        pass

    def eager(self, made: Made) -> Results:
        return _results(made.module, made, self.is_dynamic)

    def pytorch(self, made: Made) -> Results:
        return self._compile(made, backend="aot_eager")

    def tenon(self, made: Made) -> tuple[Results, list[GraphReport]]:
        reports.clear()
        return self._compile(made, backend="tenon", options=_backend_options(self.device)), list(reports)

    def _compile(self, made: Made, **options: Any) -> Results:
        torch._dynamo.reset()
        function = torch.compile(made.module, dynamic=self.is_dynamic or None, **options)
        return _results(function, made, self.is_dynamic)


@dataclass
class Trained:
    """A step of training by `torch.compile`: results, gradients and buffers."""

    device: str = ""

    def prepare(self, made: Made) -> None:
        made.module.train()
        for module in made.module.modules():
            if isinstance(module, torch.nn.modules.dropout._DropoutNd):
                module.p = 0.0
        made.is_random = made.is_random or self._is_random(made)

    def eager(self, made: Made, seed: int = 0) -> Results:
        module = copy.deepcopy(made.module)
        return gradients(module, module, made.inputs, seed)

    def pytorch(self, made: Made) -> Results:
        return self._compile(made, backend="aot_eager")

    def tenon(self, made: Made) -> tuple[Results, list[GraphReport]]:
        reports.clear()
        return self._compile(made, backend="tenon", options=_backend_options(self.device)), list(reports)

    def _compile(self, made: Made, **options: Any) -> Results:
        torch._dynamo.reset()
        module = copy.deepcopy(made.module)
        return gradients(module, torch.compile(module, **options), made.inputs)

    def _is_random(self, made: Made) -> bool:
        first, second = (self.eager(made, seed) for seed in (0, 1))
        return any(not torch.equal(second[name].nan_to_num(), value.nan_to_num()) for name, value in first.items())


def modes_on(device: str) -> dict[str, Mode]:
    """By name. The device runs the nodes that it claims, the CPU the rest; "" is the CPU alone."""
    return {
        "export": Exported(device=device),
        "export dynamic": Exported(is_dynamic=True, device=device),
        "compile": Compiled(device=device),
        "compile dynamic": Compiled(is_dynamic=True, device=device),
        "training": Trained(device=device),
    }


MODES = modes_on("")


def _backend_options(device: str) -> dict[str, Any]:
    return {"threads": 1, "device": device} if device else {"threads": 1}


def gradients(module: torch.nn.Module, function: Any, inputs: Inputs, seed: int = 0) -> Results:
    """The results of a step of training with `function`, the gradients of the module's parameters, and its buffers."""
    results = run(function, inputs, seed, grad=True)
    losses = [result.pow(2).mean() for result in results if result.requires_grad]
    if not losses:
        raise RuntimeError("no result depends on a parameter")
    torch.stack(losses).sum().backward()
    found = _named("result", results)
    for name, parameter in module.named_parameters():
        unused = parameter.grad is None  # a compiled graph gives zeros
        found[f"gradient of {name}"] = torch.zeros_like(parameter) if unused else parameter.grad
    return found | {f"buffer {name}": buffer for name, buffer in module.named_buffers()}


def _dynamic_shapes(made: Made) -> dict[str, Any]:
    """The sizes that differ between the two examples are dynamic."""
    others = made.other_inputs
    return {
        name: {dim: torch.export.Dim.AUTO for dim, size in enumerate(value.shape) if size != others[name].shape[dim]}
        for name, value in made.inputs.items()
    }


def _results(function: Any, made: Made, is_dynamic: bool) -> Results:
    """Those of the inputs, and where shapes are dynamic also those of the other inputs."""
    found = _named("result", run(function, made.inputs))
    return found | (_named("other result", run(function, made.other_inputs)) if is_dynamic else {})


def _named(what: str, tensors: list[torch.Tensor]) -> Results:
    return {f"{what} {i}": tensor.detach() for i, tensor in enumerate(tensors)}
