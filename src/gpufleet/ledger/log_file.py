"""A file of what was seen: a heading, then one observation a line, in any order and as often as it may be.

Lines are only added. A line that a kill cut off at the end is left out, and the next writer drops it, so a
writer needs no more than to append what the file does not have. What stands twice counts once. All lines
are of one cluster, which the heading names by the UID of its namespace kube-system.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.ledger.buckets import BusySpan
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.versions import Observation
from gpufleet.model.model_errors import InputError, printable

FORMAT = "gpufleet.io/ledger/v2"
"""A version that changes what readers must understand gets another number."""

EXPECTED = "a file that `gpufleet cost --save` wrote"
"""What is expected of a file of observations."""


class Heading(msgspec.Struct, frozen=True):
    """The first line. ``cluster`` is the UID of the namespace kube-system."""

    ledger: str
    cluster: str = ""


class Origin(msgspec.Struct, frozen=True):
    """The cluster that observations are of, and the name of what told of it first."""

    cluster: str
    name: str


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """How busy a pod kept a card."""

    busy: BusySpan


_ENCODE = msgspec.json.Encoder(order="sorted").encode
_HEADING = msgspec.json.Decoder(Heading)
_LINE = msgspec.json.Decoder(Observation | Measured)


def heading_line(cluster: str) -> bytes:
    """The first line of a file of a cluster."""
    return _ENCODE(Heading(FORMAT, cluster)) + b"\n"


def observation_line(seen: Observation) -> bytes:
    """The line of one observation."""
    return _ENCODE(seen) + b"\n"


def written(log: IntervalLog, cluster: str) -> Iterator[bytes]:
    """All lines of a log; equal logs give equal lines."""
    yield heading_line(cluster)
    yield from added(IntervalLog(), log)


def added(known: IntervalLog, log: IntervalLog) -> Iterator[bytes]:
    """The lines that a file of what is known lacks of a log; what they say is known then."""
    for seen in log.seen():
        if known.take(seen):
            yield observation_line(seen)
    for busy in log.busy():
        if known.measure(busy):
            yield _ENCODE(Measured(busy)) + b"\n"


def is_begun(beginning: bytes, cluster: str) -> bool:
    """False for an empty file and where a kill cut off the heading, which is then written anew.

    What else has no whole line is no file of observations.
    """
    return b"\n" in beginning or not heading_line(cluster).startswith(beginning)


def read_log(lines: Iterable[bytes], name: str, log: IntervalLog, before: Origin | None = None) -> Origin:
    """Take all lines of a file into a log, which has observations of one cluster: that of ``before``.

    Raises InputError, naming the line or both files.
    """
    numbered = enumerate(lines, 1)
    origin = _checked_heading(next(numbered, (1, b""))[1], name, before)
    for number, line in numbered:
        # The last line of a writer that was killed has no end.
        if not line.endswith(b"\n") or line == b"\n":
            continue
        try:
            seen = _LINE.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = f"not an observation ({error})"
            raise InputError(problem, where=f"{name}, line {number}", expected=EXPECTED) from error
        if isinstance(seen, Measured):
            log.measure(seen.busy)
        else:
            log.take(seen)
    return before or origin


def _checked_heading(line: bytes, name: str, before: Origin | None) -> Origin:
    try:
        heading = _HEADING.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            "no ledger", where=name, value=printable(line[:40].decode(errors="replace")), expected=EXPECTED
        ) from error
    if heading.ledger != FORMAT:
        raise InputError(
            "unknown format", where=name, field="ledger", value=printable(heading.ledger), expected=FORMAT
        )
    if not heading.cluster:
        raise InputError("names no cluster", where=name, field="cluster", expected=CLUSTER)
    if before is not None and heading.cluster != before.cluster:
        raise InputError(
            f"is of another cluster than {before.name}",
            where=name,
            field="cluster",
            value=heading.cluster,
            expected=f"{printable(before.cluster)}, as observations of two clusters are not put together",
        )
    return Origin(heading.cluster, name)


CLUSTER = "the UID of the namespace kube-system"
"""What tells clusters apart."""
