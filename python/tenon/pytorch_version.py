"""Which versions of PyTorch are supported: `make versions` runs each, and writes the table of docs/install.md."""

from __future__ import annotations

import functools
import importlib.metadata
import warnings

SUPPORTED = ("2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")
TESTED = "2.13"  # all tests run with this one

# Releases that are known to break, and what breaks.
BROKEN: dict[str, str] = {}


def release_of(version: str) -> str:
    """ "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def problem_of(version: str) -> str | None:
    """What is wrong with this version of PyTorch; None: it is supported."""
    release = release_of(version)
    if release in SUPPORTED:
        return None
    known = BROKEN.get(release, "nothing is known to break, and nothing was tested")
    return f"PyTorch {version} is not supported: {known}. Supported: {SUPPORTED[0]} to {SUPPORTED[-1]}"


def installed() -> str | None:
    """The version of PyTorch, without importing it; None: there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def warn_if_unsupported() -> None:
    """Once: before Tenon's PyTorch code is imported, which may fail with another version."""
    if (version := installed()) and (problem := problem_of(version)):
        warnings.warn(f"tenon: {problem}", stacklevel=2)
