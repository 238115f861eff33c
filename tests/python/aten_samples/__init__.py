"""Calls of every overload that the registry has beyond the core set, a module for each family of the registry.

A module has SAMPLES, like core_aten_samples.py. It may have CHECKS, the overloads whose results are judged by something
else than equality with PyTorch, and STATIC: why an overload's samples cannot have symbolic sizes.
"""

import importlib
import pkgutil

from core_aten_samples import RANDOM

SAMPLES, CHECKS, STATIC = {}, {}, {}
for _module in pkgutil.iter_modules(__path__):
    RANDOM.manual_seed(193)  # so that the samples of one family do not depend on those of the others
    _family = importlib.import_module(f"{__name__}.{_module.name}")
    SAMPLES |= _family.SAMPLES
    CHECKS |= getattr(_family, "CHECKS", {})
    STATIC |= getattr(_family, "STATIC", {})
