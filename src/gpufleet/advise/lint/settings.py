"""The file in which a project says how it is linted: rules left out or weighed otherwise, what to skip."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from gpufleet.devices.documents import read_document
from gpufleet.devices.yaml_text import SIZE_MAX_BYTES
from gpufleet.files.regular import read_regular
from gpufleet.lint.objects.measured_use import IDLE_HOURS_MAX
from gpufleet.lint.rule import Severity
from gpufleet.lint.suppressions import Suppression
from gpufleet.model.model_errors import InputError

NAME = ".gpufleet-lint.yaml"


class RuleSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a project says of one rule. A rule is ignored with a reason only."""

    severity: Literal["ignore", "info", "warning", "error"]
    reason: str = ""
    until: str | None = None


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The whole file."""

    fail_on: Literal["info", "warning", "error", "never"] | None = None
    exclude: tuple[str, ...] = ()
    idle_hours: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = IDLE_HOURS_MAX
    """How long at a stretch a GPU may be held and idle (GPU049)."""
    rules: Mapping[str, RuleSetting] = msgspec.field(default_factory=dict)

    def severity(self, rule_id: str) -> Severity | None:
        """The severity that the project gives a rule; None if it says nothing of it."""
        setting = self.rules.get(rule_id)
        if setting is None or setting.severity == "ignore":
            return None
        return Severity[setting.severity.upper()]

    def suppression(self, rule_id: str) -> Suppression | None:
        """Why the project leaves a rule out; None if it does not."""
        setting = self.rules.get(rule_id)
        if setting is None or setting.severity != "ignore":
            return None
        return Suppression(setting.reason, dt.date.fromisoformat(setting.until) if setting.until else None)


def read_settings(path: Path, known_rules: frozenset[str]) -> Settings:
    """The settings in this file. Raises InputError naming the field, OSError if it cannot be read."""
    settings = read_document(read_regular(path, SIZE_MAX_BYTES), Settings, str(path), InputError)
    for rule_id, setting in settings.rules.items():
        field = f"rules.{rule_id}"
        if rule_id not in known_rules:
            raise InputError("no such rule", field=field, where=str(path), expected="GPU001 to GPU057")
        if setting.severity == "ignore" and not setting.reason.strip():
            raise InputError("a rule is left out without a reason", field=f"{field}.reason", where=str(path))
        if setting.until is not None:
            _check_date(setting.until, f"{field}.until", str(path))
    return settings


def _check_date(text: str, field: str, where: str) -> None:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        expected = "a date in quotes, such as '2027-01-31'"
        raise InputError("no date", field=field, value=text, where=where, expected=expected) from None
