"""What the scheduler decided for a while, as conditions: of a node that is left alone, of a waiting pod that
leaves out nodes for its claims, of one that pauses after a refused Binding, of a running pod of which the
eviction was refused, and of a running member of a gang that is short of members.

A new leader and ``explain`` read back what a leader wrote. The words are for people, so they are of one form.
Whatever is not of that form says nothing. How long a condition can count is bounded by the engine, which
takes no longer pause from it than it would decide itself.
"""

import datetime as dt
import re
from typing import NamedTuple

from gpufleet.kube.codec.times import micro_time, microseconds, whole_time
from gpufleet.kube.objects.node import PODS_REJECTED, Node
from gpufleet.kube.objects.pod import BIND_REFUSED, EVICTION_REFUSED, GANG_SHORT, VOLUME_REFUSED, Pod
from gpufleet.model.identifiers import NodeName
from gpufleet.model.model_errors import InputError

START_OF_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LENGTH_MAX = 4096
"""Longer messages were not written by the scheduler, and are not looked at."""

NODES_MAX = 16
"""So many nodes are left out at a time for one pod: each costs a bind that failed within a minute."""

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_LEFT_ALONE = re.compile(
    rf"its kubelet turned pods away; .* until ({_TIME}); the next pause lasts (\d{{1,6}}) s"
)
_TRUSTED = re.compile(r".*; the next pause lasts (\d{1,6}) s")
_REFUSED = re.compile(rf"claim (\S{{1,320}}) got no volume on node (\S{{1,253}}), left out until ({_TIME})")
_STAYS = re.compile(
    rf"its eviction was refused \([a-z-]{{1,64}}\), and is not asked for again until ({_TIME})"
)
_PAUSES = re.compile(
    r"its last Bindings were refused \((\d{1,6})\), and the next is made after "
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"
)
_JOIN = "join those that run"
_WAIT = "wait for all that it lacks"
_SHORT = re.compile(
    r"its gang is short of members(?: since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z))?; "
    r"(?:it ran with (\d{1,6})|it was not whole before), and members that come "
    rf"({_JOIN}|{_WAIT})"
)


class Said(NamedTuple):
    """Status, reason and message of a condition."""

    status: str
    reason: str
    message: str


class Distrust(NamedTuple):
    """Until when a node is left alone, 0 if it is not, and for how long it would be the next time."""

    until_us: int
    next_pause_us: int


class RefusedVolume(NamedTuple):
    """Until when a node is left out for a claim."""

    claim: str
    node: NodeName
    until_us: int


class BindPause(NamedTuple):
    """How many Bindings in a row were refused, and until when none is made."""

    refusals: int
    until_us: int


class ShortGang(NamedTuple):
    """What is remembered of a gang that is short of members.

    Since when the time runs in which it must be whole again, None while it does not; with how many members
    it ran, 0 if it was never whole; and whether members that come join those that run.
    """

    since_us: int | None
    ran_with: int
    started: bool


def write_distrust(distrust: Distrust) -> Said:
    """The condition of a node that was left alone."""
    pause = f"the next pause lasts {distrust.next_pause_us // 1_000_000} s"
    if not distrust.until_us:
        return Said("False", "KubeletTrusted", f"new pods are placed there as on any node; {pause}")
    what = f"nothing new is placed there until {written_moment(distrust.until_us)}"
    return Said("True", "KubeletRejectsPods", f"its kubelet turned pods away; {what}; {pause}")


def read_distrust(node: Node) -> Distrust | None:
    """What a node's condition says; None for a node that was never left alone."""
    said = next((one for one in node.status.conditions if one.type == PODS_REJECTED), None)
    if said is None or len(said.message) > LENGTH_MAX:
        return None
    if said.status == "True":
        found = _LEFT_ALONE.fullmatch(said.message)
        return None if found is None else Distrust(read_moment(found[1]), int(found[2]) * 1_000_000)
    found = _TRUSTED.fullmatch(said.message)
    return None if found is None else Distrust(0, int(found[1]) * 1_000_000)


def write_refused_volumes(refused: tuple[RefusedVolume, ...]) -> Said:
    """The condition of a waiting pod of which claims were refused on nodes."""
    if not refused:
        return Said("False", "NodesTriedAgain", "no node is left out for a claim")
    words = [
        f"claim {one.claim} got no volume on node {one.node}, left out until {written_moment(one.until_us)}"
        # The last ones, which are left out for longest.
        for one in refused[-NODES_MAX:]
    ]
    return Said("True", "VolumeRefused", "; ".join(words))


def read_refused_volumes(pod: Pod) -> tuple[RefusedVolume, ...]:
    """What a waiting pod's condition says; nothing where there is none, or of what is not of its form."""
    said = pod.condition(VOLUME_REFUSED)
    if said is None or said.status != "True" or len(said.message) > LENGTH_MAX:
        return ()
    parts = (_REFUSED.fullmatch(part) for part in said.message.split("; ")[:NODES_MAX])
    return tuple(
        RefusedVolume(part[1], NodeName(part[2]), read_moment(part[3])) for part in parts if part is not None
    )


def write_refused_eviction(cause: str, until_us: int) -> Said:
    """The condition of a pod that was to be evicted and stays. ``cause`` is a word such as ``forbidden``."""
    words = f"its eviction was refused ({cause}), and is not asked for again until {written_moment(until_us)}"
    return Said("True", "EvictionRefused", words)


def read_refused_eviction(pod: Pod) -> int:
    """Until when a running pod is not to be evicted, 0 where its condition says nothing of the kind.

    The condition stays when that time is over, and says nothing more then.
    """
    said = pod.condition(EVICTION_REFUSED)
    if said is None or said.status != "True" or len(said.message) > LENGTH_MAX:
        return 0
    found = _STAYS.fullmatch(said.message)
    return 0 if found is None else read_moment(found[1])


def write_bind_pause(pause: BindPause) -> Said:
    """The condition of a waiting pod that pauses: for so short that microseconds matter."""
    until = _written_exactly(pause.until_us)
    words = f"its last Bindings were refused ({pause.refusals}), and the next is made after {until}"
    return Said("True", "BindRefused", words)


def read_bind_pause(pod: Pod) -> BindPause | None:
    """What a waiting pod's condition says; None where there is none, or of what is not of its form.

    The condition stays when the pause is over, and says nothing more then.
    """
    said = pod.condition(BIND_REFUSED)
    if said is None or said.status != "True" or len(said.message) > LENGTH_MAX:
        return None
    found = _PAUSES.fullmatch(said.message)
    return None if found is None else BindPause(int(found[1]), read_moment(found[2]))


def write_short_gang(short: ShortGang | None) -> Said:
    """The condition of one member of a gang; None: the gang is whole again."""
    if short is None:
        return Said("False", "GangWhole", "its gang has all members that it needs")
    since = "" if short.since_us is None else f" since {_written_exactly(short.since_us)}"
    ran = f"it ran with {short.ran_with}" if short.ran_with else "it was not whole before"
    come = _JOIN if short.started else _WAIT
    words = f"its gang is short of members{since}; {ran}, and members that come {come}"
    return Said("True", "GangShort", words)


def read_short_gang(pod: Pod) -> ShortGang | None:
    """What a running member's condition says of its gang; None where it says nothing of the kind."""
    said = pod.condition(GANG_SHORT)
    if said is None or said.status != "True" or len(said.message) > LENGTH_MAX:
        return None
    found = _SHORT.fullmatch(said.message)
    if found is None:
        return None
    since_us = None if found[1] is None else read_moment(found[1])
    return ShortGang(since_us, int(found[2] or 0), found[3] == _JOIN)


def _written_exactly(at_us: int) -> str:
    return micro_time(START_OF_1970 + dt.timedelta(microseconds=at_us))


def written_moment(at_us: int) -> str:
    """A moment in whole seconds."""
    return whole_time(START_OF_1970 + dt.timedelta(microseconds=at_us))


def read_moment(text: str) -> int:
    """A time of the right form may still be none, such as the 31st of February: it counts as long ago."""
    try:
        return microseconds(text)
    except InputError:
        return 0
