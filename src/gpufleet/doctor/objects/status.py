"""What every object's status has in common: conditions, and times."""

import datetime as dt
from dataclasses import dataclass

from gpufleet.lint.source.fields import Field


@dataclass(frozen=True)
class ReadCondition:
    """An entry of ``status.conditions``. Of most, no more than one part is read."""

    field: Field

    @property
    def status(self) -> str:
        """True, False, or Unknown."""
        return self.field.text_at("status") or ""

    @property
    def reason(self) -> str:
        """Why it is so, in one word."""
        return self.field.text_at("reason") or ""

    @property
    def message(self) -> str:
        """Why it is so, in a sentence."""
        return self.field.text_at("message") or ""

    @property
    def is_true(self) -> bool:
        """Whether the condition holds."""
        return self.status == "True"

    @property
    def since(self) -> dt.datetime | None:
        """Since when it is so; None where that is not told."""
        return read_time(self.field.text_at("lastTransitionTime") or "")


def conditions(status: Field) -> dict[str, ReadCondition]:
    """The conditions of an object by their type."""
    return {one.text_at("type") or "": ReadCondition(one) for one in status.items_at("conditions")}


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
