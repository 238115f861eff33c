"""Programs in files: Program.save writes one, tenon.load reads it. No PyTorch is needed to run it elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree

from tenon import _tenon, modes
from tenon._tenon import fail


class States(Mapping[str, torch.Tensor]):
    """What a model keeps from call to call, by name: it starts as it was saved. The programs of one file share it.

    Reading gives a copy; assigning takes one, of the same dtype and shape.
    """

    def __init__(self, artifact: _tenon.Artifact) -> None:
        self._artifact = artifact

    @modes.run_outside
    def __getitem__(self, name: str) -> torch.Tensor:
        if not isinstance(name, str):
            raise KeyError(name)
        return self._artifact.get_state(name)

    @modes.run_outside
    def __setitem__(self, name: str, value: Any) -> None:
        self._artifact.set_state(name, value.detach() if isinstance(value, torch.Tensor) else value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._artifact.state_names)

    def __len__(self) -> int:
        return len(self._artifact.state_names)

    @property
    def notes(self) -> dict[str, str]:
        """What was saved with the checkpoint that was loaded last."""
        return self._artifact.state_notes

    def reset(self) -> None:
        """Back to what the file says."""
        self._artifact.reset_states()

    def save(self, path: str | os.PathLike[str], notes: Mapping[str, str] | None = None) -> None:
        """Writes a checkpoint. It replaces a file in one step: whoever is killed leaves the old one or the new one."""
        self._artifact.save_states(os.fspath(path), dict(self.notes if notes is None else notes))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes the values of a checkpoint, which must have these names, dtypes and shapes; else nothing changes."""
        self._artifact.load_states(os.fspath(path))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes a .safetensors file."""
        self._artifact.export_states(os.fspath(path))

    def __repr__(self) -> str:
        return f"<tenon.States {', '.join(self)}>"


class LoadedProgram:
    """A program from a file. It is called as the model was, where the file says how; else with its inputs in order, and
    gives a tuple of its outputs. What the model updates lives here, and starts as it was saved.
    """

    def __init__(self, artifact: _tenon.Artifact) -> None:
        self._artifact = artifact
        notes = artifact.notes
        self._in_spec = pytree.treespec_loads(notes["in_spec"]) if "in_spec" in notes else None
        self._out_spec = pytree.treespec_loads(notes["out_spec"]) if "out_spec" in notes else None

    @modes.run_outside
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        results = self._artifact.run(self._flatten(args, kwargs))
        return tuple(results) if self._out_spec is None else pytree.tree_unflatten(results, self._out_spec)

    @property
    def entries(self) -> list[str]:
        """The programs of the file: this is the first of them, or what `entry` gave."""
        return self._artifact.entries

    def entry(self, name: str) -> LoadedProgram:
        """Another program of the same file, over the same states."""
        return LoadedProgram(self._artifact.entry(name))

    @property
    def states(self) -> States:
        return States(self._artifact)

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """(name, type) of each: ("x", "f32[batch, 784]")."""
        return self._artifact.inputs

    @property
    def outputs(self) -> list[tuple[str, str]]:
        return self._artifact.outputs

    @property
    def peak_bytes(self) -> int:
        """The most memory that calls took so far: temporaries, scratch and results."""
        return self._artifact.peak_bytes

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self._in_spec is None:
            if kwargs:
                fail("this file does not know the names of arguments: give its inputs in order")
            flat = list(args)
        else:
            flat, spec = pytree.tree_flatten((args, kwargs))
            if spec != self._in_spec:
                fail(f"the arguments nest otherwise than those that the model was saved with: {self._described()}")
        return [value.detach() if isinstance(value, torch.Tensor) else value for value in flat]

    def _described(self) -> str:
        return ", ".join(f"{name}: {type_}" for name, type_ in self.inputs)

    def __repr__(self) -> str:
        return f"<tenon.LoadedProgram {self._artifact.name}({self._described()})>"


def load(
    path: str | os.PathLike[str], *, native: bool = True, threads: int = 0, budget: int | None = None
) -> LoadedProgram:
    """Loads a file that Program.save or `tenon compile` wrote. Everything in it is verified.

    With native=False none of its code is made executable: it runs on an interpreter, slowly, and cannot touch memory
    that is not its own. `budget` bounds the bytes of temporaries, scratch and results. A file without code for this CPU
    is compiled anew.
    """
    return LoadedProgram(_tenon.Artifact(os.fspath(path), native=native, threads=threads, budget=budget))
