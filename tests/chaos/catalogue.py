"""Every fault that is tried on a real server, by name, with its number in the reliability reference.

Those of the simulation that need nothing but the transport are the same code here.
"""

from collections.abc import Sequence
from random import Random

import msgspec

from gpufleet.simulation.faults import watches, writes
from gpufleet.simulation.faults.interference import Fault
from tests.chaos import process_faults, report_faults, wire_faults


class Row(msgspec.Struct, frozen=True):
    """A fault, its numbers (none: it has none there), and how long it acts in the short form."""

    fault: type[Fault]
    numbers: tuple[int, ...]
    lasts_s: float = 2.0

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return self.fault.name


CATALOGUE = (
    Row(process_faults.OldGrantVersion, (23,), 1.0),
    Row(watches.WatchCut, (1,)),
    Row(watches.WatchGone, (2,)),
    Row(watches.WatchGoneLater, (2,)),
    Row(watches.ListGone, (3,)),
    Row(watches.WatchSilent, (5,), 2.0),
    Row(watches.EventsTwice, (6,)),
    Row(watches.KindsOutOfOrder, (7,), 3.0),
    Row(wire_faults.SameNameAgain, (8,), 3.0),
    Row(wire_faults.LaggingServer, (9,), 3.0),
    Row(writes.TooManyRequests, (10,), 3.0),
    Row(writes.BindUnknownApplied, (11,)),
    Row(writes.BindUnknownLost, (11,)),
    Row(wire_faults.BindConflict, (12,)),
    Row(wire_faults.PodChanged, (13,)),
    Row(wire_faults.WritesTwice, (11, 16)),
    Row(wire_faults.SlowAnswers, (10,), 3.0),
    Row(wire_faults.AnswerCut, (1, 11)),
    Row(wire_faults.ServerErrors, (11,)),
    Row(writes.WritesFail, (15,), 3.0),
    Row(process_faults.ServerDown, (14,), 4.0),
    Row(process_faults.ServerRestart, (2, 14), 2.0),
    Row(process_faults.CompactedWhilePaused, (4,), 5.0),
    Row(process_faults.LeaderPaused, (16,)),
    Row(process_faults.LeaderPartitioned, (16, 17)),
    Row(wire_faults.LeaseUnreachable, (16, 17)),
    Row(process_faults.KillAfterWrite, (18,), 4.0),
    Row(wire_faults.GangMemberRefused, (19,), 7.0),
    Row(process_faults.Starved, (22,), 3.0),
    Row(process_faults.PoisonObject, (38,), 1.0),
    Row(report_faults.ReportDeleted, (40,), 6.0),
    Row(report_faults.ReportRestored, (40,), 6.0),
    Row(report_faults.DefinitionDeleted, (40,), 4.0),
)
BY_NAME = {row.name: row for row in CATALOGUE}


def make_faults(rows: Sequence[Row], seed: int) -> dict[str, Fault]:
    """Each fault with a chance of its own."""
    return {row.name: row.fault(Random(f"{seed}/{row.name}")) for row in rows}
