"""The checks: one module for each, one table for those that ask a rule of lint (``lint_rules``).

A module of this package that has a ``CHECK``, or several ``CHECKS``, is found by itself, so a new check
touches no other file.
"""

import importlib
import pkgutil
from functools import cache

from gpufleet.doctor.check import Check


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, by point, layer and id."""
    found: list[Check] = []
    for one in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{one.name}")
        found += getattr(module, "CHECKS", ())
        check = getattr(module, "CHECK", None)
        if isinstance(check, Check):
            found.append(check)
    return tuple(sorted(found, key=lambda one: (one.point.number, one.layer, one.id)))
