"""The rules, one module for each with its page of the same name beside it.

A module of this package that has a ``RULE`` is found by itself, so a new rule touches no other file.
"""

import importlib
import pkgutil
from functools import cache
from importlib import resources

from gpufleet.lint.rule import Rule


@cache
def _modules() -> dict[str, tuple[Rule, str]]:
    """By id of a rule: the rule, and the name of its module."""
    found = {}
    for one in pkgutil.iter_modules(__path__):
        rule = getattr(importlib.import_module(f"{__name__}.{one.name}"), "RULE", None)
        if isinstance(rule, Rule):
            found[rule.id] = (rule, one.name)
    return dict(sorted(found.items()))


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    return tuple(rule for rule, _ in _modules().values())


def rule_of(rule_id: str) -> Rule:
    """The rule of this id."""
    return _modules()[rule_id][0]


def page(rule_id: str) -> str:
    """The page of a rule, as Markdown."""
    _, module = _modules()[rule_id]
    return resources.files(__name__).joinpath(f"{module}.md").read_text(encoding="utf-8")
