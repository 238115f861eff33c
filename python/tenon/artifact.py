"""Programs in files: Program.save writes a file, tenon.load reads it. Running it elsewhere needs no PyTorch."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tenon import _tenon, modes
from tenon._tenon import fail
from tenon.budgets import Budget, budgets_from
from tenon.capture.host_calls import find_call
from tenon.runner import random_key
from tenon.structure import Tree, arguments_tree

_SYMBOL = re.compile(r"[A-Za-z_][\w.]*")  # the name of a size


class States(Mapping[str, torch.Tensor]):
    """The states of a model, by name. They start with the saved values. The programs of one file share them.

    Reading a state returns a copy; assigning copies a tensor of the same dtype and shape into it.
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
        """The notes of the checkpoint that was loaded last."""
        return self._artifact.state_notes

    def reset(self) -> None:
        """Resets all states to the values in the file."""
        self._artifact.reset_states()

    def save(self, path: str | os.PathLike[str], notes: Mapping[str, str] | None = None) -> None:
        """Writes a checkpoint. Replaces a file atomically: a process that is killed leaves the old file or the new
        one."""
        self._artifact.save_states(os.fspath(path), dict(self.notes if notes is None else notes))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Loads a checkpoint, which must have these names, dtypes and shapes; otherwise no state changes."""
        self._artifact.load_states(os.fspath(path))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes a .safetensors file."""
        self._artifact.export_states(os.fspath(path))

    def __repr__(self) -> str:
        return f"<tenon.States {', '.join(self)}>"


class LoadedProgram:
    """A program from a file. If the file says how the model is called, you call it the same way; otherwise with its
    inputs in order or by name, and it returns a tuple of its outputs. States live in this object, and start with the
    saved values. Each call draws a key of random numbers from PyTorch's generator.

    Pickling and copy.deepcopy take the file and the states along: the copy has states of its own.
    """

    def __init__(self, artifact: _tenon.Artifact, source: _Source, entry: str | None = None) -> None:
        self._artifact = artifact
        self._source = source
        self._entry = entry  # None: the first
        self._types = artifact.inputs
        self._key = artifact.key_input
        parameters, results = artifact.call_form or self._plain_form()
        arguments, self._names = arguments_tree(parameters)
        self._arguments = arguments
        self._leaves = list(arguments.leaves())
        self._results = Tree.of(results)
        self._givers = [_giver(leaf) for leaf in self._results.leaves()]

    @modes.run_outside
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self._flatten(args, kwargs)
        outputs = self._artifact.run(self._inputs_of(values))
        return self._results.unflatten(give(outputs, values) for give in self._givers)

    def results_on(self, device: str) -> Callable[..., Any]:
        """A function that is called like the program, and leaves tensors that it returns in the memory of a device, as
        tenon.DeviceTensor: another program that runs there takes them without a transfer."""
        leaves = list(self._results.leaves())
        others = {leaf.data for leaf in leaves if leaf.kind in ("int", "float", "bool")}
        kept = {leaf.data for leaf in leaves if leaf.kind == "tensor"} - others

        @modes.run_outside
        def call(*args: Any, **kwargs: Any) -> Any:
            values = self._flatten(args, kwargs)
            outputs = self._artifact.run(self._inputs_of(values), device, kept)
            return self._results.unflatten(give(outputs, values) for give in self._givers)

        return call

    @property
    def entries(self) -> list[str]:
        """The names of the file's programs. This object is the first, or the one of `entry`."""
        return self._artifact.entries

    def entry(self, name: str) -> LoadedProgram:
        """Another program of the same file, over the same states."""
        return LoadedProgram(self._artifact.entry(name), self._source, name)

    @property
    def devices(self) -> list[str]:
        """The devices that it uses, besides the CPU."""
        return self._artifact.devices

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
        """The peak memory of all calls so far: temporaries, scratch and results."""
        return self._artifact.peak_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return load_bytes, (self._source.read(), self._source.options, self._entry, dict(self.states))

    def _plain_form(self) -> tuple[list[tuple[str, bool, Any]], Any]:
        """Takes inputs by name, and returns a tuple of the outputs."""
        numbers = [i for i in range(len(self._types)) if i != self._key]
        parameters = [(self._types[i][0], False, ("tensor", i, None)) for i in numbers]
        return parameters, ("tuple", None, [("tensor", i, None) for i in range(len(self.outputs))])

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The values of a call, in the order of the form's leaves."""
        given, named = list(args), dict(kwargs)
        for name in self._names[len(given) :]:  # a positional argument may be passed by name
            if name not in named:
                break
            given.append(named.pop(name))
        try:
            positional, keywords = self._arguments.children or ()
            return [*positional.flatten(tuple(given), "args"), *keywords.flatten(named, "kwargs")]
        except ValueError as error:
            what = "the arguments nest otherwise than those that the model was saved with"
            return fail(f"{what}: {error}; it takes {self._described()}")

    def _inputs_of(self, values: list[Any]) -> list[Any]:
        inputs: list[Any] = [None] * len(self._types)
        if self._key is not None:
            inputs[self._key] = random_key()
        for leaf, value in zip(self._leaves, values, strict=True):
            if leaf.kind == "tensor":
                inputs[leaf.data] = value.detach() if isinstance(value, torch.Tensor) else value
            elif leaf.kind in ("int", "float"):
                inputs[leaf.data] = _number_input(leaf.kind, value)
            elif leaf.kind == "constant":
                _check_constant(leaf.data, value)
        self._check_sizes(values, inputs)
        return inputs

    def _check_sizes(self, values: list[Any], inputs: list[Any]) -> None:
        """Checks integers that follow from the sizes of tensors."""
        wanted = [(leaf.data, value) for leaf, value in zip(self._leaves, values, strict=True) if leaf.kind == "size"]
        if not wanted:
            return
        known: dict[str, int] = {}
        for (_, type_), given in zip(self._types, inputs, strict=True):
            dims = [dim.strip() for dim in type_.partition("[")[2].rstrip("]").split(",")]
            known |= {dim: size for dim, size in zip(dims, given.shape, strict=False) if _SYMBOL.fullmatch(dim)}
        for expr, value in wanted:
            if set(expr.symbols) <= known.keys() and expr.evaluate(known) != value:
                said = f"{expr} = {expr.evaluate(known)}, as the sizes of the others say"
                fail(f"an argument must be {said}, got {value!r}")

    def _described(self) -> str:
        return ", ".join(f"{name}: {type_}" for name, type_ in self._types)

    def __repr__(self) -> str:
        return f"<tenon.LoadedProgram {self._artifact.name}({self._described()})>"


def load(
    path: str | os.PathLike[str],
    *,
    native: bool = True,
    threads: int = 0,
    budget: Budget | None = None,
    device: str | None = None,
    fallback: bool | None = None,
) -> LoadedProgram:
    """Loads a file that Program.save or `tenon compile` wrote, and verifies all of it.

    With native=False, no code of the file is made executable: it runs on an interpreter, slowly, and cannot touch
    foreign memory. `budget` bounds the bytes of temporaries, scratch and results; {"npu": "64MiB"}
    bounds the memory of a device, constants and states included. A file without code for this CPU is
    compiled again.

    A file may have programs with devices. The first whose devices this process has loaded is taken, else the CPU's.
    `device` chooses: "npu" takes a program with this device, or fails; "cpu" takes none of them.

    A file may need calls that Tenon lacks: PyTorch runs them, by the names of its operators. With fallback=False that
    is an error; native=False has it too, unless fallback=True. What a C extension registers (tenon_register_call) is
    there in any case.
    """
    options = {"native": native, "threads": threads, "budget": budget, "device": device, "fallback": fallback}
    host, of_devices = budgets_from(budget)
    artifact = _tenon.Artifact(
        os.fspath(path),
        native=native,
        threads=threads,
        budget=host,
        device_budgets=of_devices,
        device=device or "",
        find_call=find_call if fallback or (fallback is None and native) else None,
    )
    return LoadedProgram(artifact, _Source(os.fspath(path), options))


# ---- pickling -------------------------------------------------------------------------------------------------------


class _Source:
    """The file of a loaded program, and the options of `load`."""

    def __init__(self, path: str, options: dict[str, Any], file: bytes | None = None) -> None:
        self.options = options
        self._path = path
        self._file = file  # None: it is at the path
        self._status = self._found() if file is None else None

    def read(self) -> bytes:
        if self._file is not None:
            return self._file
        if self._found() != self._status:
            fail(f"{self._path} is another file than the one that was loaded: a copy of the program needs that one")
        with open(self._path, "rb") as file:
            return file.read()

    def _found(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def load_bytes(
    file: bytes, options: dict[str, Any], entry: str | None = None, states: Mapping[str, torch.Tensor] | None = None
) -> LoadedProgram:
    """Loads what a file contains. `options` are those of `load`; `entry` is a program of the file, by default the
    first; `states` are values for its states."""
    with tempfile.NamedTemporaryFile(suffix=".tenon") as copy:
        copy.write(file)
        copy.flush()
        program = load(copy.name, **options)
    program._source = _Source(copy.name, options, file)
    program = program if entry is None else program.entry(entry)
    for name, value in (states or {}).items():
        program.states[name] = value
    return program


# ---- arguments and results ------------------------------------------------------------------------------------------


def _number_input(kind: str, value: Any) -> torch.Tensor:
    """A float is passed as a tensor, an integer as the size of a tensor."""
    wanted = (int, float) if kind == "float" else int
    if not isinstance(value, wanted) or isinstance(value, bool):
        fail(f"an argument must be {'a float' if kind == 'float' else 'an int'}, got {value!r}")
    if kind == "float":
        return torch.tensor(value, dtype=torch.float64)
    if value < 0:
        fail(f"an argument must be an int that is not negative, got {value}")
    return torch.zeros(1, dtype=torch.uint8).expand(value)


def _check_constant(expected: Any, value: Any) -> None:
    if type(value) is not type(expected) or value != expected:
        shown = f"a {type(value).__qualname__}" if isinstance(value, torch.Tensor) else repr(value)
        fail(f"an argument must be {expected!r}, as it was in the trace of the model, got {shown}")


def _giver(leaf: Tree) -> Callable[[list[Any], list[Any]], Any]:
    """Makes a result from the outputs of the program and the values of the call."""
    position = leaf.data
    if leaf.kind == "tensor":
        return lambda outputs, values: outputs[position]
    if leaf.kind == "argument":
        return lambda outputs, values: values[position]
    if leaf.kind == "constant":
        return lambda outputs, values: leaf.data
    convert = {"int": int, "float": float, "bool": bool}[leaf.kind]
    return lambda outputs, values: convert(outputs[position].item())
