"""The file of a snapshot: a header, an object a line, and what the engine decided on them, a step a line.

All of it is JSON, so that it can be read with ``zcat`` and ``jq``. The header counts what follows, so a
file that was cut off is noticed. A later version of the format has another name in the header's first field
and is refused by name, never guessed at.
"""

import datetime as dt
from collections.abc import Iterable, Iterator

import msgspec

from gpufleet import __version__
from gpufleet.cluster.settings import BY_QUEUES, Settings
from gpufleet.cluster.snapshots.lines import object_line, read_line, unreadable_line
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.instruction import AnyInstruction
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.resources import Kind
from gpufleet.model.model_errors import InputError, printable

FORMAT = "gpufleet.io/snapshot/v1"
"""A version that changes what readers must understand gets another number."""

MAGIC = b'{"snapshot":'
"""How every snapshot begins, unpacked."""

EXPECTED = "a file of `gpufleet snapshot`"


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """The first line. ``version`` is that of the gpufleet that wrote it; ``objects`` counts them by kind.

    ``taken_at_us`` is the moment in microseconds since 1970, which is the engine's time. ``forbidden`` are
    kinds that could not be listed for lack of rights: what they would have told is missing. ``victims`` names
    the scheduler's search for victims; files that lack it are older than preemption by priority.
    """

    snapshot: str
    version: str
    taken_at: str
    taken_at_us: int
    scheduler_name: str
    policy: str
    gang_deadline_s: float
    objects: dict[str, int]
    unreadable: int
    forbidden: tuple[str, ...]
    steps: int
    victims: str = BY_QUEUES


class SnapshotStep(msgspec.Struct, frozen=True):
    """What the engine said to one wave of events."""

    step: int
    instructions: list[AnyInstruction]


class Snapshot(msgspec.Struct, frozen=True):
    """A file as it was read. ``steps`` are the lines of the decisions as they stand there."""

    header: Header
    picture: Picture
    steps: tuple[bytes, ...]

    @property
    def settings(self) -> Settings:
        """What the scheduler of that cluster was set to, as far as it decides."""
        header = self.header
        return Settings(
            identity="snapshot",
            scheduler_name=header.scheduler_name,
            policy=header.policy,
            victims=header.victims,
            gang_deadline_s=header.gang_deadline_s,
        )


_ENCODE = msgspec.json.Encoder().encode
_HEADER = msgspec.json.Decoder(Header)


def kind_title(api_version: str, name: str) -> str:
    """A kind as the header counts it: "v1/Pod"."""
    return f"{api_version}/{name}"


def written(
    picture: Picture, settings: Settings, taken_at: dt.datetime, steps: list[list[AnyInstruction]]
) -> Iterator[bytes]:
    """The lines of the file, unpacked. Equal states of a cluster give equal lines."""
    counts = {
        kind_title(one.kind.api_version, one.kind.name): len(picture.objects.get(one.kind, ()))
        for one in WATCHED
    }
    header = Header(
        FORMAT,
        __version__,
        whole_time(taken_at.astimezone(dt.UTC)),
        engine_time_us(taken_at),
        settings.scheduler_name,
        settings.policy,
        settings.gang_deadline_s,
        {title: count for title, count in counts.items() if count},
        len(picture.unreadable),
        tuple(sorted(kind.plural for kind in picture.forbidden)),
        len(steps),
        settings.victims,
    )
    yield _ENCODE(header) + b"\n"
    yield from _object_lines(picture)
    for number, instructions in enumerate(steps, 1):
        yield step_line(number, instructions)


def _object_lines(picture: Picture) -> Iterator[bytes]:
    for one in WATCHED:
        for key in sorted(picture.objects.get(one.kind, ())):
            yield object_line(one.kind, picture.objects[one.kind][key])
    yield from sorted(unreadable_line(seen) for seen in picture.unreadable)


def as_written(picture: Picture) -> Picture:
    """The picture as it is read from the file that it is written to."""
    read_again = _empty(picture.forbidden)
    for line in _object_lines(picture):
        read_line(line, read_again, "a snapshot's line")
    return read_again


def _empty(forbidden: Iterable[Kind]) -> Picture:
    picture = Picture()
    picture.objects = {one.kind: {} for one in WATCHED}
    picture.forbidden = list(forbidden)
    return picture


def engine_time_us(moment: dt.datetime) -> int:
    """A moment as the engine counts time."""
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def step_line(number: int, instructions: list[AnyInstruction]) -> bytes:
    """The line of one step's decisions."""
    return _ENCODE(SnapshotStep(number, instructions)) + b"\n"


def read(lines: Iterable[bytes], where: str) -> Snapshot:
    """A file, unpacked, as a value. Raises InputError, naming the line, for what is no whole snapshot."""
    numbered = enumerate(lines, 1)
    header = read_header(next(numbered, (1, b""))[1], where)
    picture = _empty(one.kind for one in WATCHED if one.kind.plural in header.forbidden)
    objects = sum(header.objects.values()) + header.unreadable
    steps: list[bytes] = []
    last = 1
    for last, line in numbered:
        if last <= objects + 1:
            read_line(line, picture, f"{where}, line {last}")
        else:
            steps.append(line)
    if last != objects + header.steps + 1 or len(steps) != header.steps:
        expected = f"{objects + header.steps + 1} lines, as its header says"
        raise InputError("not whole", where=where, field="lines", value=last, expected=expected)
    return Snapshot(header, picture, tuple(steps))


def read_header(line: bytes, where: str) -> Header:
    """The first line as a value."""
    if not line.startswith(MAGIC):
        raise InputError("not a snapshot", where=where, value=printable(line[:40]), expected=EXPECTED)
    try:
        header = _HEADER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise InputError(f"not a snapshot: {problem}", where=f"{where}, line 1") from problem
    if header.snapshot != FORMAT:
        way = f"{FORMAT}; it was written by gpufleet {printable(header.version)}, use that version"
        raise InputError("unknown format", where=where, field="snapshot", value=header.snapshot, expected=way)
    return header
