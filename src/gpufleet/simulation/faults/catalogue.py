"""Every fault by its name, with its number in the reliability reference."""

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from gpufleet.simulation.faults import cluster, edits, evictions, reports, tenants, watches, writes
from gpufleet.simulation.faults.interference import Fault
from gpufleet.simulation.simulation_errors import ScenarioError


class Row(msgspec.Struct, frozen=True):
    """One fault. ``on_real_server``: works in front of a real server too, by its transport alone.
    ``of_teams``: it needs queues that take back from each other.
    """

    fault: type[Fault]
    numbers: tuple[int, ...]
    on_real_server: bool = False
    of_teams: bool = False

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return self.fault.name

    @property
    def words(self) -> str:
        """What the fault does, in a sentence."""
        return (self.fault.__doc__ or "").strip()


CATALOGUE = (
    Row(watches.WatchCut, (1,), True),
    Row(watches.WatchGone, (2,), True),
    Row(watches.WatchGoneLater, (2,), True),
    Row(watches.ListGone, (3,), True),
    Row(cluster.CompactedWhilePaused, (4,)),
    Row(watches.WatchSilent, (5,), True),
    Row(watches.EventsTwice, (6,), True),
    Row(watches.KindsOutOfOrder, (7,), True),
    Row(cluster.SameNameAgain, (8,)),
    Row(watches.LaggingServer, (9,)),
    Row(writes.TooManyRequests, (10,), True),
    Row(writes.BindUnknownApplied, (11,), True),
    Row(writes.BindUnknownLost, (11,), True),
    Row(writes.BindConflict, (12,)),
    Row(writes.PodChanged, (13,)),
    Row(cluster.ServerDown, (14,), True),
    Row(writes.WritesFail, (15,), True),
    Row(cluster.LeaderPaused, (16,)),
    Row(writes.LeaseUnreachable, (17,)),
    Row(writes.KillAfterWrite, (18,)),
    Row(cluster.GangMemberRefused, (19,)),
    Row(evictions.VictimNeverEnds, (20,), of_teams=True),
    Row(evictions.EvictionRefused, (20,), of_teams=True),
    Row(evictions.EvictionUnknown, (20,), of_teams=True),
    Row(evictions.EvictionLost, (20,), of_teams=True),
    Row(evictions.KillWhileEvicting, (18, 20), of_teams=True),
    Row(cluster.WallClockJump, (21,)),
    Row(cluster.Starved, (22,)),
    Row(cluster.OldGrantVersion, (23,)),
    Row(cluster.TwinsSwapped, (27,)),
    Row(cluster.PoisonObject, (38,)),
    Row(reports.ReportDeleted, (40,)),
    Row(reports.ReportRestored, (40,)),
    Row(reports.NodeMadeAnew, (40,)),
    Row(reports.DefinitionDeleted, (40,)),
    Row(tenants.LyingTenant, (), of_teams=True),
    Row(edits.RandomEdits, ()),
)
BY_NAME = {row.name: row for row in CATALOGUE}


def make_faults(names: Iterable[str], random: Random) -> Sequence[Fault]:
    """The faults of these names, each with a chance of its own. Raises ScenarioError."""
    found = []
    for name in names:
        row = BY_NAME.get(name)
        if row is None:
            known = ", ".join(sorted(BY_NAME))
            raise ScenarioError("no such fault", field="--fault", value=name, expected=f"one of {known}")
        found.append(row.fault(Random(f"{random.random()}/{name}")))
    return found
