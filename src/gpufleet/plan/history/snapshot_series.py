"""A history out of snapshots of one cluster, taken one after the other.

A pod that is missing from a snapshot ended since the one before; it is counted until the later of the two, so
a series of few snapshots makes work longer than it was. Pods that came and went between two are not seen.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import started_at_us
from gpufleet.cluster.snapshots.decisions import Moment, moment_of
from gpufleet.cluster.snapshots.document import engine_time_us, read
from gpufleet.engine.event import GangSet, NodeSet
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.phrases import counted, length
from gpufleet.plan.history.demand import HISTORY
from gpufleet.plan.history.recorded_work import SeenPod, SeenWork

US_PER_S = 10**6


class SeenMoment(msgspec.Struct, frozen=True):
    """What one snapshot tells: the pods by UID, the least members of gangs, and the nodes."""

    at_us: int
    pods: dict[PodUid, SeenPod]
    least_members: dict[GangName, int]
    nodes: tuple[Node, ...]


def moment_in(lines: Iterable[bytes], where: str) -> SeenMoment:
    """One snapshot. Raises InputError."""
    snapshot = read(lines, where)
    at = moment_of(snapshot)
    facts = Facts(snapshot.picture, snapshot.settings, Moment(at))
    events = [event for wave in facts.waves for event in wave]
    pods = {uid: seen for uid, entry in facts.pods.entries.items() if (seen := _seen(entry)) is not None}
    return SeenMoment(
        engine_time_us(at),
        pods,
        {event.gang.name: event.gang.min_members for event in events if isinstance(event, GangSet)},
        tuple(event.node for event in events if isinstance(event, NodeSet)),
    )


def _seen(entry: Entry) -> SeenPod | None:
    """A pod; None for one that is no work of the fleet, as a service of the cluster without GPUs."""
    pod = entry.meaning
    if pod is None or (pod.foreign and not pod.shape.gpu.count):
        return None
    started_us = None
    if entry.place is PodStage.PLACED:
        # A pod that was just bound says no moment yet.
        started_us = started_at_us(entry.object, entry.terms) or pod.created_at_us
    return SeenPod(
        pod.name,
        pod.shape,
        pod.created_at_us,
        started_us,
        None,
        pod.queue,
        pod.priority,
        pod.gang,
        pod.run_time_us,
    )


def work_of(moments: Sequence[SeenMoment], source: str) -> SeenWork:
    """The work of a series. Raises InputError for fewer than two moments."""
    ordered = sorted(moments, key=lambda one: one.at_us)
    if len(ordered) < 2 or ordered[0].at_us == ordered[-1].at_us:
        expected = "snapshots of two moments at least, each behind --history"
        raise InputError("is no series", field=HISTORY, value=source, expected=expected)
    found: dict[PodUid, SeenPod] = {}
    least: dict[GangName, int] = {}
    for one in ordered:
        for uid, pod in found.items():
            if pod.ended_us is None and uid not in one.pods:
                found[uid] = msgspec.structs.replace(pod, ended_us=one.at_us)
        found.update(one.pods)
        least.update(one.least_members)
    longest_us = max(later.at_us - one.at_us for one, later in pairwise(ordered))
    late, snapshots = length(longest_us / US_PER_S), counted(len(ordered), "snapshot")
    note = f"ends of work are known from {snapshots}, up to {late} late; what was there in none is missing"
    return SeenWork(tuple(found.values()), least, ordered[0].at_us, source, (note,))


def source_name(paths: Sequence[Path]) -> str:
    """What a series is called."""
    return paths[0].name if len(paths) == 1 else f"{len(paths)} snapshots from {paths[0].name} on"
