"""What every object's status has in common: conditions, and times."""

import datetime as dt
from dataclasses import dataclass

from gpufleet.lint.source.fields import Field


@dataclass(frozen=True)
class ReadCondition:
    """An entry of ``status.conditions``."""

    status: str
    reason: str
    message: str
    since: dt.datetime | None

    @property
    def is_true(self) -> bool:
        """Whether the condition holds."""
        return self.status == "True"


def conditions(status: Field) -> dict[str, ReadCondition]:
    """The conditions of an object by their type."""
    found = {}
    for one in status.at("conditions").items():
        state, reason, message = (one.at(name).text or "" for name in ("status", "reason", "message"))
        since = time_of(one.at("lastTransitionTime"))
        found[one.at("type").text or ""] = ReadCondition(state, reason, message, since)
    return found


def time_of(field: Field) -> dt.datetime | None:
    """A time of the API (RFC 3339); None where there is none that can be read."""
    try:
        found = dt.datetime.fromisoformat(field.text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def age_s(field: Field, now: dt.datetime) -> float | None:
    """Seconds since a time; None where it is not told."""
    then = time_of(field)
    return None if then is None else (now - then).total_seconds()
