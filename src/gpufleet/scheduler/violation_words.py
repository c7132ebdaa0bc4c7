"""What owners of pods read of a violation, in Events, and what follows from it."""

from gpufleet.engine.instruction import Consequence
from gpufleet.engine.lifecycle.violations import WARNED_FOR_US
from gpufleet.model.gang import gang_title
from gpufleet.model.violation import AnyViolation, DeviceConflict, GangIncomplete, MemoryExceeded

STAYS = "it stays, because no controller would replace it; delete it to free its room"


def event_of(violation: AnyViolation, consequence: Consequence) -> tuple[str, str]:
    """The reason and the note of an Event."""
    match violation:
        case DeviceConflict(_, device, holders):
            what = "it is evicted to get another one" if consequence is Consequence.ENDS else STAYS
            return "DeviceConflict", f"the node gave device {device} to {', '.join(holders)}; {what}"
        case MemoryExceeded(_, device, share_mib, used_mib):
            used = f"it uses {used_mib} MiB of {device} and has a share of {share_mib} MiB"
            return "GPUMemoryExceeded", f"{used}; {_OF_MEMORY[consequence]}"
        case GangIncomplete(gang, min_members, bound, node=str(node)):
            elsewhere = f"{gang_title(gang)} has {bound} of {min_members} members elsewhere"
            short = f"node {node} goes away, and {elsewhere}"
            what = "it leaves whole to start again" if consequence is Consequence.ENDS else STAYS
            return "NodeTakenBack", f"{short}; {what}"
        case GangIncomplete(gang, min_members, bound):
            short = f"{gang_title(gang)} has {bound} of {min_members} members placed past its deadline"
            what = "it is taken back to start again" if consequence is Consequence.ENDS else STAYS
            return "GangIncomplete", f"{short}; {what}"


_OF_MEMORY = {
    Consequence.ENDS: "it is evicted",
    Consequence.ENDS_LATER: f"it is evicted if that goes on for {WARNED_FOR_US // 1_000_000} s",
    Consequence.STAYS: STAYS,
    Consequence.NONE: "it may disturb others on this GPU",
}
