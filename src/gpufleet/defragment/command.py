"""The moves for a live cluster or a snapshot.

The engine of the live scheduler decides first what can be decided without a move; the moves are sought on
what is left. Nothing is changed here.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from gpufleet.cluster.engine_of_settings import engine_of
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.cluster.progress import ENGINE, Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import gaps
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.snapshots.sources import on_cluster, on_snapshot
from gpufleet.cluster.verdict_words import words_for_gang, words_for_pod
from gpufleet.cluster.watching.picture import Picture
from gpufleet.defragment.plan import SCHEMA, DefragmentPlan, Fits, PlannedMove
from gpufleet.engine.defragment.consolidation import Defragmentation
from gpufleet.engine.defragment.moves import Move
from gpufleet.engine.scheduler import Engine
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.connection import ClusterChoice
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.model_errors import InputError

GPU_MILLISECONDS = 1000
"""The engine counts lost work in GPU-milliseconds, an answer in GPU-seconds."""


class DefragmentRequest(msgspec.Struct, frozen=True):
    """What is asked for: ``moves_max`` moves at most; ``pod`` is to start by them, "" for any gain."""

    moves_max: int
    pod: str = ""
    namespace: str = "default"


def of_snapshot(request: DefragmentRequest, lines: Iterable[bytes], where: str) -> DefragmentPlan:
    """The moves on a snapshot."""
    return on_snapshot(lines, where, partial(plan_of, request))


def of_cluster(request: DefragmentRequest, cluster: ClusterChoice, settings: Settings) -> DefragmentPlan:
    """The moves on a cluster as it is now."""
    return on_cluster(cluster, settings, partial(plan_of, request))


def plan_of(
    request: DefragmentRequest, picture: Picture, settings: Settings, at: dt.datetime, say: Say
) -> DefragmentPlan:
    """The moves on a picture of a cluster. Raises InputError where the wished pod does not wait."""
    facts = Facts(picture, settings, Moment(at))
    entry = waiting_entry(facts, request) if request.pod else None
    say(ENGINE)
    engine = engine_of(settings)
    for wave in facts.waves:
        engine.step(engine_time_us(at), wave)
    missing = gaps(kind.plural for kind in picture.forbidden)
    notes = (missing,) if missing else ()
    when = whole_time(at.astimezone(dt.UTC))
    say("looking for moves")
    if entry is not None:
        moves = moves_for(engine, entry, request)
        return DefragmentPlan(
            SCHEMA, when, pod_path(request), planned(facts, moves), *unchanged(engine), False, notes
        )
    found = engine.defragmentation(request.moves_max)
    return DefragmentPlan(
        SCHEMA, when, "", planned(facts, found.moves), *gained(found), cut=found.cut, notes=notes
    )


def pod_path(request: DefragmentRequest) -> str:
    """The pod that is to start, by namespace and name."""
    return f"{request.namespace}/{request.pod}"


def waiting_entry(facts: Facts, request: DefragmentRequest) -> Entry:
    """The pod that is to start, in the scheduler's tracker of pods."""
    pod = facts.pod(request.namespace, request.pod)
    path = pod_path(request)
    if pod is None:
        raise InputError("no such pod", field="--for", value=path, expected="a pod that waits")
    entry = facts.entry(pod)
    if pod.spec.node_name:
        expected = f"a pod that waits; it runs on {pod.spec.node_name}"
        raise InputError("it has a node", field="--for", value=path, expected=expected)
    if entry is None or entry.meaning is None:
        expected = "a pod that gpufleet may place; `gpufleet explain` says what holds it back"
        raise InputError("not the engine's to place", field="--for", value=path, expected=expected)
    return entry


def moves_for(engine: Engine, entry: Entry, request: DefragmentRequest) -> Sequence[Move]:
    """The moves after which a pod, with its gang if it has one, can start.

    Raises InputError where there are none, with what stands in its way.
    """
    pod = entry.meaning
    if pod is None:
        raise InputError("not the engine's to place", field="--for", value=pod_path(request))
    gang = None if pod.gang is None else GangName(pod.gang)
    moves = engine.moves_for(gang or PodUid(pod.uid), request.moves_max)
    if moves is not None:
        return moves
    if gang is not None:
        said = engine.explain_gang(gang)
        why = "" if said is None else words_for_gang(said, pod.shape)
    else:
        verdict = engine.explain(pod.uid)
        why = "" if verdict is None else words_for_pod(verdict, pod.shape)
    problem = (
        f"no {request.moves_max} moves let it start: {why}" if why else "it needs no moves: it can start now"
    )
    raise InputError(problem, field="--for", value=pod_path(request))


def planned(facts: Facts, moves: Sequence[Move]) -> tuple[PlannedMove, ...]:
    """Moves with the names of pods and of their controllers."""
    return tuple(_planned(facts.pods.entries[one.uid].object, one) for one in moves)


def _planned(pod: Pod, move: Move) -> PlannedMove:
    controller = pod.metadata.controller
    named = "" if controller is None else f"{controller.kind}/{controller.name}"
    lost_gpu_s = move.lost // GPU_MILLISECONDS if move.lost else None
    return PlannedMove(pod.metadata.path, move.uid, move.source, move.target, lost_gpu_s, named)


def gained(found: Defragmentation) -> tuple[int, int, tuple[Fits, ...]]:
    """Whole GPUs before and after, and what would fit."""
    after = dict(found.after.places)
    fits = tuple(Fits(gpus, count, after[gpus]) for gpus, count in found.before.places)
    return found.before.whole_gpus, found.after.whole_gpus, fits


def unchanged(engine: Engine) -> tuple[int, int, tuple[Fits, ...]]:
    """Whole GPUs, and what fits, for a plan that makes room for one workload: its moves are not counted."""
    return gained(engine.defragmentation(0))
