"""Where a history is from: a trace, snapshots of a cluster, a file of the ledger, or Prometheus.

The content of a file says what it is. Only a trace does not know when it was.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gpufleet.cluster.snapshots.document import MAGIC
from gpufleet.engine.engine_errors import LogError
from gpufleet.files.lines import BoundedLines
from gpufleet.files.unpacking import GzipError
from gpufleet.ledger.log_file import FORMAT as LEDGER
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.plan.history.demand import HISTORY, Demand, named_nodes, read_fleet, read_history
from gpufleet.plan.history.ledger_history import work_of_ledger
from gpufleet.plan.history.recorded_work import SeenWork, demand_of
from gpufleet.plan.history.snapshot_series import SeenMoment, moment_in, source_name, work_of
from gpufleet.plan.instance_types import InstanceType

EXPECTED = "a task list, a file of `gpufleet snapshot` or one of `gpufleet cost --save`"
BEGINNING_BYTES = 200
"""The heading of a snapshot and of a ledger is in the first of these."""

Source = tuple[Path, ...] | Callable[[], SeenWork]
"""Files, or what asks a server."""


class History(msgspec.Struct, frozen=True):
    """The work, and when its second 0 was; None where that is not known."""

    demand: Demand
    begin_us: int | None


def history_of(source: Source, types: Sequence[InstanceType], there: Sequence[Node]) -> History:
    """The work of a source. Raises InputError, TraceError and WorldError."""
    if not isinstance(source, tuple):
        seen = source()
        return History(demand_of(seen), seen.begin_us)
    if all(map(_is_snapshot, source)):
        seen = work_of([_moment(path) for path in source], source_name(source))
        return History(demand_of(seen), seen.begin_us)
    if len(source) > 1:
        expected = "several snapshots, or one task list or ledger"
        raise InputError(
            "several files that are no snapshots", field=HISTORY, value=str(source[1]), expected=expected
        )
    if LEDGER.encode() in _beginning(source[0]):
        with _Lines(source[0]) as lines:
            seen = work_of_ledger(lines, source[0].name)
        return History(demand_of(seen), seen.begin_us)
    return History(read_history(source[0], types, there), None)


def fleet_of(path: Path | None) -> tuple[Node, ...]:
    """The nodes that are there, of a node list or a snapshot. Raises InputError and TraceError."""
    return named_nodes(_moment(path).nodes) if path is not None and _is_snapshot(path) else read_fleet(path)


def _moment(path: Path) -> SeenMoment:
    with _Lines(path) as lines:
        return moment_in(lines, path.name)


def _is_snapshot(path: Path) -> bool:
    return _beginning(path).startswith(MAGIC)


def _beginning(path: Path) -> bytes:
    try:
        with BoundedLines(path, expected=EXPECTED) as lines:
            return lines.readline()[:BEGINNING_BYTES]
    except (OSError, GzipError, LogError):
        # What is wrong with the file says the reader of task lists, in its own words.
        return b""


class _Lines(BoundedLines):
    """The lines of a file that was found to be a snapshot or a ledger."""

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(path, expected=EXPECTED)
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            raise InputError(problem, field=HISTORY, value=str(path), expected=EXPECTED) from error
