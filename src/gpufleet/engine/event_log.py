"""The log of a run: every step's events and instructions, a line each, in canonical JSON.

The events alone decide the instructions, so a log can be run again and must give the same bytes;
``rerun`` does that. A log is also a bug report: it has all that the engine saw. This module turns steps
into bytes and back; its callers open the files.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.engine.engine_errors import LogError
from gpufleet.engine.event import AnyEvent, Event
from gpufleet.engine.instruction import AnyInstruction
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import NO_EVICTIONS, find_search
from gpufleet.engine.scheduler import Engine

FORMAT = "gpufleet.io/engine-log/v3"
OLDER_RULES = frozenset({"gpufleet.io/engine-log/v1", "gpufleet.io/engine-log/v2"})
"""Formats of logs that were decided by other rules: v1 evicted own work before it took back what is owed.
For a gang v2 compared the number of pods before the work lost.
"""


GOES_ON = b'"goes_on":true}\n'
"""How the line of a slice ends that is not the last of its step; other lines do not have the field."""


class Header(msgspec.Struct, frozen=True):
    """The first line: what the engine was started with. ``version`` is gpufleet's own.

    ``victims`` names the search for victims (``preempt.by_name``).
    """

    log: str
    version: str
    policy: str
    seed: int
    victims: str = NO_EVICTIONS


class Step(msgspec.Struct, frozen=True):
    """One step: when, what happened, what was decided.

    With ``goes_on`` it is a slice of a step, and what else that step decided stands in the next line.
    """

    at_us: int
    events: tuple[AnyEvent, ...]
    instructions: tuple[AnyInstruction, ...]
    goes_on: bool = False


class OutgoingStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step on its way out, as the engine has it at hand."""

    at_us: int
    events: tuple[Event, ...]
    instructions: list[AnyInstruction]
    goes_on: bool = False


ENCODER = msgspec.json.Encoder()
HEADER_DECODER = msgspec.json.Decoder(Header)
STEP_DECODER = msgspec.json.Decoder(Step)


def header_line(version: str, policy: str, seed: int, victims: str) -> bytes:
    """The first line of a log."""
    return ENCODER.encode(Header(FORMAT, version, policy, seed, victims)) + b"\n"


def step_line(
    at_us: int, events: tuple[Event, ...], instructions: list[AnyInstruction], *, goes_on: bool = False
) -> bytes:
    """The line of one step, or of a slice of it. The first slice has the events."""
    return ENCODER.encode(OutgoingStep(at_us, events, instructions, goes_on)) + b"\n"


def ends_step(line: bytes) -> bool:
    """True for the line of a whole step, and of the last slice of one."""
    return not line.endswith(GOES_ON)


def rerun(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Run a log again: (line number, what it says, what the engine says now) for every step.

    Raises LogError, naming the line, where the log cannot be read.
    """
    numbered = enumerate(lines, start=1)
    first = next(numbered, None)
    if first is None:
        raise LogError("an empty log", expected="a header line")
    header = read_header(first[1])
    engine = Engine(find_policy(header.policy), seed=header.seed, victims=find_search(header.victims))
    unsaid: list[AnyInstruction] = []
    goes_on = False
    for number, line in numbered:
        step = read_step(line, number)
        # Whatever bound the slices had, together they are what the whole step says.
        if not goes_on:
            unsaid = engine.step(step.at_us, step.events)
        elif step.events:
            raise LogError("a slice of a step that began before has events", where=f"line {number}")
        goes_on = step.goes_on
        cut = len(step.instructions) if goes_on else len(unsaid)
        said, unsaid = unsaid[:cut], unsaid[cut:]
        yield number, line, step_line(step.at_us, step.events, said, goes_on=goes_on)


def read_header(line: bytes) -> Header:
    """The first line as a value."""
    try:
        header = HEADER_DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise LogError(f"not a log of the engine: {error}", where="line 1") from error
    if header.log in OLDER_RULES:
        problem = f"decided by the rules of an earlier version; gpufleet {header.version} can run it again"
        raise LogError(problem, where="line 1", field="log", value=header.log, expected=FORMAT)
    if header.log != FORMAT:
        raise LogError("unknown format", where="line 1", field="log", value=header.log, expected=FORMAT)
    return header


def read_step(line: bytes, number: int) -> Step:
    """Any further line as a value."""
    try:
        return STEP_DECODER.decode(line)
    # A line may be nested deeper than Python can go.
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise LogError(f"not a step: {problem}", where=f"line {number}") from problem
