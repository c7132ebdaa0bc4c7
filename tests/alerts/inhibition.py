"""The rules that ship for Alertmanager, by which an alert is not sent beside a greater fault."""

import re
from typing import Any

import msgspec

from tests.alerts.promtool import FOLDER, Labels

MATCHER = re.compile(r'(\w+) (=~?) "?([^"]+)"?')


def inhibit_rules() -> list[dict[str, Any]]:
    """All of them, as Alertmanager reads them."""
    found: list[dict[str, Any]] = msgspec.yaml.decode((FOLDER / "inhibit-rules.yaml").read_bytes())[
        "inhibit_rules"
    ]
    return found


def parts(matcher: str) -> tuple[str, str, str]:
    """A matcher's label, kind (``=`` or ``=~``) and value."""
    read = MATCHER.fullmatch(matcher)
    assert read is not None, matcher
    return read[1], read[2], read[3]


def matches(labels: Labels, matchers: list[str]) -> bool:
    """As Alertmanager has it: all matchers hold, and a regular expression is for the whole value."""
    for one in matchers:
        label, kind, wanted = parts(one)
        value = labels.get(label, "")
        if not (value == wanted if kind == "=" else re.fullmatch(wanted, value)):
            return False
    return True


def inhibits(rule: dict[str, Any], source: Labels, target: Labels) -> bool:
    """Whether an alert silences another; two that match both sides of a rule do not silence one another."""
    return (
        matches(target, rule["target_matchers"])
        and matches(source, rule["source_matchers"])
        and not (matches(target, rule["source_matchers"]) and matches(source, rule["target_matchers"]))
        and all(source.get(label, "") == target.get(label, "") for label in rule["equal"])
    )


def sent(firing: list[Labels]) -> list[Labels]:
    """The alerts that Alertmanager sends of those that fire; ``test_alertmanager`` asks a real one."""

    def is_inhibited(target: Labels) -> bool:
        return any(inhibits(rule, source, target) for rule in inhibit_rules() for source in firing)

    return [labels for labels in firing if not is_inhibited(labels)]
