"""What is said of a gang that cannot start, by the cycle when it is refused and by the engine when asked."""

from gpufleet.engine.instruction import GangUnschedulable, Verdict
from gpufleet.engine.members import Members
from gpufleet.model.gang import Gang


def refusal(
    members: Members, gang: Gang, placeable: int, verdict: Verdict | None, role: str
) -> GangUnschedulable:
    """``placeable`` of its members would fit; ``verdict`` is that of the first one that does not."""
    return GangUnschedulable(gang.name, gang.min_members, members.arrived, placeable, verdict, role)
