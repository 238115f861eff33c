"""Devices by name, as every front door takes them."""

from __future__ import annotations

from collections.abc import Sequence

from tenon._tenon import fail, is_available

# "npu", or names in order of preference. The CPU runs what no device claims.
Devices = str | Sequence[str]


def devices_from(device: Devices) -> list[str]:
    names = [device] if isinstance(device, str) else list(device) if isinstance(device, Sequence) else [device]
    if not all(isinstance(name, str) and name for name in names):
        fail(f"a device is a name, or a list of names, got {device!r}")
    names = ["cuda" if name == "cuda:0" else name for name in names]
    for name in names:
        is_available(name)  # an error for a device that there is not
    return names


def gpu_name(number: int) -> str:
    return "cuda" if number == 0 else f"cuda:{number}"


def devices_for(device: Devices, gpu: int | None) -> list[str]:
    """The devices that a user named, or else the GPU that the model is on."""
    named = devices_from(device)
    return named if named or gpu is None else [gpu_name(gpu)]
