"""A drain's question from a picture of a cluster, and the places that the scheduler's engine finds.

What the live scheduler can decide at once is decided first, on a copy: work that is about to start has its
place before any other is sought.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from gpufleet.cluster.engine_of_settings import engine_of
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import started_at_us
from gpufleet.cluster.progress import ENGINE, Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import gaps
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.snapshots.sources import on_cluster, on_snapshot
from gpufleet.cluster.watching.picture import Picture
from gpufleet.drain.claimed_gpus import claimed_milli
from gpufleet.drain.plan import NO_CONTROLLER, DrainPlan
from gpufleet.drain.planner import plan_drain
from gpufleet.drain.question import (
    MILLI_PER_GPU,
    US_PER_S,
    DrainNode,
    DrainQuestion,
    DrainRules,
    PodThere,
    RunningWork,
)
from gpufleet.engine.event import MoveAsked
from gpufleet.engine.scheduler import Engine
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.times import microseconds, whole_time
from gpufleet.kube.connection import ClusterChoice
from gpufleet.model.gang import gang_title
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import listed
from gpufleet.model.pod import Pod

OF_THE_NODE = frozenset({"DaemonSet", "Node"})
"""Controllers of pods that belong to their node: they stay, as under ``kubectl drain``."""
DIVIDED = "its slices cannot be kept together by a plan"


class DrainRequest(msgspec.Struct, frozen=True):
    """What is asked for: these nodes, by these rules.

    ``only_gpus`` leaves work without GPUs alone. ``later`` are nodes that are drained after these.
    ``until_us`` are the deadlines of nodes that are closed already; the rules have that of the others.
    """

    nodes: tuple[str, ...]
    rules: DrainRules = DrainRules()
    only_gpus: bool = False
    later: tuple[str, ...] = ()
    until_us: Mapping[str, int] = {}


def of_snapshot(request: DrainRequest, lines: Iterable[bytes], where: str) -> DrainPlan:
    """The plan on a snapshot."""
    return on_snapshot(lines, where, partial(plan_of, request))


def of_cluster(request: DrainRequest, cluster: ClusterChoice, settings: Settings) -> DrainPlan:
    """The plan on a cluster as it is now."""
    return on_cluster(cluster, settings, partial(plan_of, request))


def plan_of(
    request: DrainRequest, picture: Picture, settings: Settings, at: dt.datetime, say: Say
) -> DrainPlan:
    """The plan on a picture of a cluster. Raises InputError for a node that is not there."""
    check_nodes(request, picture)
    say(ENGINE)
    facts, engine, now_us = asked_engine(picture, settings, at)
    say("looking for places")
    missing = gaps(kind.plural for kind in picture.forbidden)
    notes = (missing,) if missing else ()
    when = whole_time(at.astimezone(dt.UTC))
    with engine.relocating() as places:
        return plan_drain(question_of(request, facts, engine, now_us), places, when, notes)


def asked_engine(picture: Picture, settings: Settings, at: dt.datetime) -> tuple[Facts, Engine, int]:
    """What a picture says, an engine that has decided what can be decided now, and its moment."""
    facts = Facts(picture, settings, Moment(at))
    now_us = engine_time_us(at)
    engine = engine_of(settings)
    for wave in facts.waves:
        # Moves that were asked for are planned anew, and not made on the copy.
        engine.step(now_us, [one for one in wave if not isinstance(one, MoveAsked)])
    return facts, engine, now_us


def check_nodes(request: DrainRequest, picture: Picture) -> None:
    """Find a node that is not there. Raises InputError."""
    names = sorted(name for _, name in picture.objects.get(resources.NODES, ()))
    for name in (*request.nodes, *request.later):
        if name in names:
            continue
        near = nearest(name, names)
        expected = f"a node that is there, such as {listed(names)}" if names else "a cluster with nodes"
        if near is not None:
            expected = f"a node that is there; did you mean {harmless(near)}?"
        raise InputError("no such node", field="NODE", value=name, expected=expected)


def question_of(request: DrainRequest, facts: Facts, engine: Engine, now_us: int) -> DrainQuestion:
    """All work that runs, and the nodes that are to be drained, each once."""
    units: defaultdict[str, list[Entry]] = defaultdict(list)
    claimed = claimed_milli(facts.picture.all(resources.RESOURCE_CLAIMS))
    for uid, entry in facts.pods.entries.items():
        if entry.place is PodStage.PLACED and entry.meaning is not None and _is_work(entry, request, claimed):
            # A rank that was told to end is waited for; the gang is what has come in its place.
            leaves = entry.object.metadata.deletion_timestamp is not None
            gang = None if leaves else entry.meaning.gang
            units[uid if gang is None else gang].append(entry)
    work = tuple(_work(entries, claimed, facts, engine, now_us) for entries in units.values())
    nodes = dict.fromkeys(NodeName(name) for name in request.nodes)
    later = frozenset(NodeName(name) for name in request.later)
    asked = tuple(_node(facts, name, request.until_us.get(name)) for name in nodes)
    return DrainQuestion(now_us, asked, work, request.rules, later)


def _is_work(entry: Entry, request: DrainRequest, claimed: Mapping[PodUid, int]) -> bool:
    controller = entry.object.metadata.controller
    if controller is not None and controller.kind in OF_THE_NODE:
        return False
    return bool(_gpu_milli(entry, claimed)) or not request.only_gpus


def _gpu_milli(entry: Entry, claimed: Mapping[PodUid, int]) -> int:
    own = 0 if entry.meaning is None else entry.meaning.shape.gpu.total_milli
    return own + claimed.get(PodUid(entry.object.metadata.uid), 0)


def _node(facts: Facts, name: NodeName, until_us: int | None) -> DrainNode:
    known = facts.nodes.known.get(name)
    return DrainNode(name, 0 if known is None else len(known.devices) * MILLI_PER_GPU, until_us)


def _work(
    entries: Sequence[Entry], claimed: Mapping[PodUid, int], facts: Facts, engine: Engine, now_us: int
) -> RunningWork:
    """A gang or a single pod as it runs."""
    meanings = [entry.meaning for entry in entries if entry.meaning is not None]
    leaves = entries[0].object.metadata.deletion_timestamp is not None
    gang = None if leaves else meanings[0].gang
    pods = tuple(
        PodThere(
            PodUid(one.object.metadata.uid), one.object.metadata.path, one.node, _gpu_milli(one, claimed)
        )
        for one in entries
    )
    ends = [_ends_at_us(entry, engine, now_us) for entry in entries]
    known = [one for one in ends if one is not None]
    saved = [max(entry.saved_us, started_at_us(entry.object, entry.terms) or 0) for entry in entries]
    return RunningWork(
        f"pod {pods[0].path}" if gang is None else gang_title(gang),
        pods,
        # A gang ends with its last member, so one member without a known end leaves it open.
        max(known) if len(known) == len(ends) else None,
        # A gang goes on from the oldest checkpoint of its members.
        min(saved) if all(saved) else None,
        all(entry.object.metadata.annotations.get(keys.CHECKPOINT_ON_REQUEST) == "true" for entry in entries),
        _why_it_stays(meanings, facts),
        any(meaning.foreign for meaning in meanings),
        leaves,
    )


def _why_it_stays(meanings: Sequence[Pod], facts: Facts) -> str:
    if not all(one.replaceable for one in meanings):
        return NO_CONTROLLER
    gang = meanings[0].gang
    record = None if gang is None else facts.gangs.records.get(gang)
    engine_gang = None if record is None else record.engine_gang
    return (
        DIVIDED if engine_gang is not None and engine_gang.slices and not engine_gang.slices_preferred else ""
    )


def _ends_at_us(entry: Entry, engine: Engine, now_us: int) -> int | None:
    """When a pod will have ended by its own word or a limit, None where that is not known.

    A pod that has run for longer than it said may run for ever.
    """
    deleted = entry.object.metadata.deletion_timestamp
    ends: list[int] = []
    if deleted is not None:
        # One that is late is there all the same: it has not ended before the next look.
        soon_us = now_us + US_PER_S
        try:
            ends.append(max(soon_us, microseconds(deleted) or soon_us))
        except InputError:
            ends.append(soon_us)
    pod, started_us = entry.meaning, started_at_us(entry.object, entry.terms)
    if pod is not None and pod.run_time_us is not None and started_us is not None:
        ends.append(started_us + pod.run_time_us)
    outlook = None if pod is None else engine.outlook(pod.uid)
    if outlook is not None and outlook.latest_us is not None:
        ends.append(outlook.latest_us)
    return min((one for one in ends if one >= now_us), default=None)
