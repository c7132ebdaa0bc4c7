"""What every object's status has in common: conditions, and times."""

import datetime as dt

import msgspec

from gpufleet.lint.source.fields import Field


class ReadCondition(msgspec.Struct, frozen=True):
    """An entry of ``status.conditions``."""

    status: str
    reason: str
    message: str
    since_text: str

    @property
    def is_true(self) -> bool:
        """Whether the condition holds."""
        return self.status == "True"

    @property
    def since(self) -> dt.datetime | None:
        """Since when it is so; None where that is not told."""
        return read_time(self.since_text)


def conditions(status: Field) -> dict[str, ReadCondition]:
    """The conditions of an object by their type."""
    found = {}
    for one in status.at("conditions").items():
        read = one.texts().get
        found[read("type", "")] = ReadCondition(
            read("status", ""), read("reason", ""), read("message", ""), read("lastTransitionTime", "")
        )
    return found


def time_of(field: Field) -> dt.datetime | None:
    """A time of the API (RFC 3339); None where there is none that can be read."""
    return read_time(field.text or "")


def read_time(text: str) -> dt.datetime | None:
    """The time that a text says (RFC 3339); None where it says none."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def age_s(field: Field, now: dt.datetime) -> float | None:
    """Seconds since a time; None where it is not told."""
    then = time_of(field)
    return None if then is None else (now - then).total_seconds()
