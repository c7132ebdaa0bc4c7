"""What became of each field, as text for people and as JSON for programs."""

from collections.abc import Sequence

import msgspec

from gpufleet.migration.field_notes import WITHOUT_CHANGE, FieldVerdict, Note
from gpufleet.model.phrases import counted
from gpufleet.model.visible import json_text, visible_line

SIGNS = {FieldVerdict.HONOURED: "=", FieldVerdict.APPROXIMATED: "~", FieldVerdict.NO_EQUIVALENT: "-"}


class Report(msgspec.Struct, frozen=True):
    """The whole report. ``counts`` by verdict."""

    system: str
    queues: tuple[str, ...]
    counts: dict[str, int]
    notes: tuple[Note, ...]
    policies: tuple[str, ...] = ()


def report(system: str, queues: Sequence[str], policies: Sequence[str], notes: Sequence[Note]) -> Report:
    """The report on a conversion."""
    counts = {verdict.value: sum(note.verdict is verdict for note in notes) for verdict in FieldVerdict}
    return Report(system, tuple(queues), counts, tuple(notes), tuple(policies))


def as_json(found: Report) -> str:
    """The report as one JSON object."""
    return json_text(found)


def made(found: Report) -> str:
    """What was made, as a number with its noun."""
    if not found.policies:
        return counted(len(found.queues), "queue")
    return f"{len(found.policies)} {'FleetPolicy' if len(found.policies) == 1 else 'FleetPolicies'}"


def as_text(found: Report) -> str:
    """Object by object; what is honoured comes first, then what needs a person's eye."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in found.counts.items())
    lines = [f"{made(found)} of {found.system}; fields: {counts}"]
    by_object: dict[str, list[Note]] = {}
    for note in found.notes:
        by_object.setdefault(note.object, []).append(note)
    for title, notes in by_object.items():
        lines.append(title)
        ordered = sorted(notes, key=lambda note: tuple(FieldVerdict).index(note.verdict))
        for note in ordered:
            becomes = f" -> {note.becomes}" if note.becomes else ""
            reason = (
                ""
                if note.verdict is FieldVerdict.HONOURED and note.reason == WITHOUT_CHANGE
                else f": {note.reason}"
            )
            lines.append(f"  {SIGNS[note.verdict]} {note.field}{becomes}{reason}")
    return "\n".join(map(visible_line, lines))
