"""What the expander decided about the nodes of a waiting pod, as a condition of the pod.

Either nodes were chosen that are on their way, and those that join meanwhile are kept for such pods. Or the
nodes that can be bought start other work and not this, so none are bought for it for a while. The words are
for people and of one form; whatever is not of that form says nothing.
"""

import re
from typing import NamedTuple

from gpufleet.kube.codec.lasting_conditions import LENGTH_MAX, Said, read_moment, written_moment
from gpufleet.kube.objects.pod import NODES_CHOSEN, Pod

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_COMING = re.compile(
    rf"nodes of (\S{{1,253}}) were chosen for it; what joins there after ({_TIME}) is kept for such pods "
    rf"until ({_TIME})"
)
_POSTPONED = re.compile(rf"nodes that can be bought now start other work; none is asked for until ({_TIME})")


class NodesComing(NamedTuple):
    """Nodes of a group that join from ``since_us`` on are kept, at most until ``until_us``."""

    group: str
    since_us: int
    until_us: int


class Postponed(NamedTuple):
    """No node is asked for before ``until_us``."""

    until_us: int


def write_chosen_nodes(decided: NodesComing | Postponed) -> Said:
    """The condition that says so."""
    if isinstance(decided, Postponed):
        until = written_moment(decided.until_us)
        words = f"nodes that can be bought now start other work; none is asked for until {until}"
        return Said("False", "Postponed", words)
    since, until = written_moment(decided.since_us), written_moment(decided.until_us)
    words = (
        f"nodes of {decided.group} were chosen for it; what joins there after {since} is kept for such pods"
    )
    return Said("True", "NodesComing", f"{words} until {until}")


def read_chosen_nodes(pod: Pod) -> NodesComing | Postponed | None:
    """What a waiting pod's condition says; None where there is none, or of what is not of its form.

    The condition stays when its time is over, and says nothing more then.
    """
    said = pod.condition(NODES_CHOSEN)
    if said is None or len(said.message) > LENGTH_MAX:
        return None
    if said.status == "True":
        found = _COMING.fullmatch(said.message)
        return None if found is None else NodesComing(found[1], read_moment(found[2]), read_moment(found[3]))
    found = _POSTPONED.fullmatch(said.message)
    return None if found is None else Postponed(read_moment(found[1]))
