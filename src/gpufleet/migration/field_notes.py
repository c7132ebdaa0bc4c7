"""What became of each field of another system's object, so that nothing is lost without a word.

A converter says of every field that it knows what it made of it. ``FieldNotes.finish`` adds the fields that
no converter named.
"""

import enum
from collections.abc import Iterator
from typing import Any

import msgspec

from gpufleet.migration.sources import Source

WITHOUT_CHANGE = "the same"
"""The reason of a field that keeps its value and its meaning; texts for people leave it out."""


class FieldVerdict(enum.StrEnum):
    """How much of a field's meaning is kept."""

    HONOURED = "honoured"
    APPROXIMATED = "approximated"
    NO_EQUIVALENT = "no equivalent"


class Note(msgspec.Struct, frozen=True):
    """One field of one object: what became of it, and why. ``becomes`` is the field of what is written."""

    object: str
    field: str
    verdict: FieldVerdict
    reason: str
    becomes: str = ""


class FieldNotes:
    """The notes on all objects that are converted together."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._spoken: dict[str, set[str]] = {}

    def honoured(self, source: Source, field: str, becomes: str, reason: str = "") -> None:
        """The field means the same in what is written."""
        self._note(source, field, FieldVerdict.HONOURED, reason or WITHOUT_CHANGE, becomes)

    def approximated(self, source: Source, field: str, becomes: str, reason: str) -> None:
        """The field is taken over, and differs in what the reason says."""
        self._note(source, field, FieldVerdict.APPROXIMATED, reason, becomes)

    def lost(self, source: Source, field: str, reason: str) -> None:
        """The field has no equivalent; the reason says what to do instead."""
        self._note(source, field, FieldVerdict.NO_EQUIVALENT, reason, "")

    def of_queue(self, title: str, resource: str, verdict: FieldVerdict, reason: str) -> None:
        """What became of a queue's quota together with those below it."""
        becomes = f"spec.quotas[{resource}].nominal"
        self.notes.append(Note(title, f"quota of {resource}", verdict, reason, becomes))

    def _note(self, source: Source, field: str, verdict: FieldVerdict, reason: str, becomes: str) -> None:
        self._spoken.setdefault(source.title, set()).add(field)
        self.notes.append(Note(source.title, field, verdict, reason, becomes))

    def finish(self, source: Source) -> None:
        """Note every field of the spec that no converter named."""
        for path in leaves(source.body.get("spec", {}), "spec"):
            if not self.has_spoken_of(source, path):
                self.lost(source, path, "not known to this version of gpufleet")

    def has_spoken_of(self, source: Source, path: str) -> bool:
        """Whether a note is on this field, or on one that it is a part of."""
        spoken = self._spoken.get(source.title, set())
        return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in spoken)


def leaves(part: Any, path: str) -> Iterator[str]:
    """The paths of all values below; those of empty lists and maps too."""
    if isinstance(part, dict) and part:
        for name, inner in part.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(part, list) and part:
        for position, inner in enumerate(part):
            # People know an item by its name, and its place in the list may change.
            named = isinstance(inner, dict) and isinstance(inner.get("name"), str)
            yield from leaves(inner, f"{path}[{inner['name'] if named else position}]")
    else:
        yield path
