"""The checks, one module for each.

A module of this package that has a ``CHECK`` is found by itself, so a new check touches no other file.
"""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from gpufleet.doctor.check import Check


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, by point, layer and id."""
    found = []
    for one in pkgutil.iter_modules([str(Path(__file__).parent)]):
        check = getattr(importlib.import_module(f"{__name__}.{one.name}"), "CHECK", None)
        if isinstance(check, Check):
            found.append(check)
    return tuple(sorted(found, key=lambda one: (one.point.number, one.layer, one.id)))
