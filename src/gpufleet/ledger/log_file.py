"""A file of what was seen: a heading, then one observation a line, in any order and as often as it may be.

Lines are only added. A line that a kill cut off at the end is left out, and the next writer drops it, so a
writer needs no more than to append what the file does not have. What stands twice counts once. All lines
are of one cluster, which the heading names by the UID of its namespace kube-system. A list is written as its
difference to an older one of the file, so that a file grows by what changes and not by what there is.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.ledger.buckets import BusySpan
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.versions import Listed, ObjectKind, Observation
from gpufleet.model.model_errors import InputError, printable
from gpufleet.progress.collection_pause import without_collections

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


class Changed(msgspec.Struct, frozen=True, tag="changed"):
    """A list by what it has more and less than the list of number ``since``, wherever in the file that is."""

    kind: ObjectKind
    number: int
    at_us: int
    since: int
    came: frozenset[str] = frozenset()
    went: frozenset[str] = frozenset()


_ENCODE = msgspec.json.Encoder(order="sorted").encode
_HEADING = msgspec.json.Decoder(Heading)
_LINE = msgspec.json.Decoder(Observation | Measured | Changed)


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
            yield (
                _ENCODE(_changed(known, seen)) + b"\n" if isinstance(seen, Listed) else observation_line(seen)
            )
    for busy in log.busy():
        if known.measure(busy):
            yield _ENCODE(Measured(busy)) + b"\n"


def _changed(known: IntervalLog, listed: Listed) -> Listed | Changed:
    """A list, or its difference to the newest older one that is known, the shorter of both."""
    before = known.list_before(listed.kind, listed.number)
    if before is None:
        return listed
    came, went = listed.uids - before.uids, before.uids - listed.uids
    if len(came) + len(went) >= len(listed.uids) > 0:
        return listed
    return Changed(listed.kind, listed.number, listed.at_us, before.number, came, went)


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
    lists = _Lists(name, log)
    with without_collections():
        _take_lines(numbered, name, log, lists)
    lists.close()
    return before or origin


def _take_lines(numbered: Iterator[tuple[int, bytes]], name: str, log: IntervalLog, lists: "_Lists") -> None:
    for number, line in numbered:
        # The last line of a writer that was killed has no end.
        if not line.endswith(b"\n") or line == b"\n":
            continue
        try:
            seen = _LINE.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            # A decoder ends with RecursionError in JSON that is nested too deeply.
            problem = f"not an observation ({error})"
            raise InputError(problem, where=f"{name}, line {number}", expected=EXPECTED) from error
        if isinstance(seen, Measured):
            log.measure(seen.busy)
        elif isinstance(seen, Listed | Changed):
            lists.take(seen, number)
        else:
            log.take(seen)


class _Lists:
    """The lists of a file, each whole again. Equal ones that follow one another are one set in memory."""

    def __init__(self, name: str, log: IntervalLog) -> None:
        self._name = name
        self._log = log
        self._uids: dict[tuple[ObjectKind, int], frozenset[str]] = {}
        self._changed: list[tuple[int, Changed]] = []

    def take(self, seen: Listed | Changed, line_number: int) -> None:
        """One line; a difference waits for the list that it is the difference to."""
        if isinstance(seen, Changed):
            self._changed.append((line_number, seen))
        else:
            self._uids[seen.kind, seen.number] = seen.uids
            self._log.take(seen)

    def close(self) -> None:
        """All lines were read. Raises InputError where an older list is missing."""
        # By their numbers: the list that one is the difference to may be a difference itself.
        for line_number, one in sorted(self._changed, key=lambda numbered: numbered[1].number):
            uids = self._uids.get((one.kind, one.since))
            if uids is None:
                raise InputError(
                    f"differs from a list of {one.kind} of version {one.since}, which the file does not have",
                    where=f"{self._name}, line {line_number}",
                    expected=EXPECTED,
                )
            if one.came or one.went:
                uids = (uids - one.went) | one.came
            self._uids[one.kind, one.number] = uids
            self._log.take(Listed(one.kind, one.number, one.at_us, uids))


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
