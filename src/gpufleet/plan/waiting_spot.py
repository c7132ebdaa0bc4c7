"""Which of the work that waits may go on spot capacity that is bought, and how much of that is in one place.

The choice is that of a plan for a history (``history.spot_choice``): by expected loss against price, with a
share of each queue on demand. Spot nodes of the plan have a taint that only the chosen work tolerates, and
work that tolerates it by its own word.
"""

from collections.abc import Collection, Sequence

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import PodStage
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.objects.pod import Affinity, NodeAffinity, Toleration
from gpufleet.kube.objects.selectors import NodeSelector, NodeSelectorTerm, SelectorRequirement
from gpufleet.ledger.node_versions import SPOT
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted, listed
from gpufleet.plan.answer import SpotWork
from gpufleet.plan.history.bought_fleet import taints_of
from gpufleet.plan.history.spot_choice import (
    CHECKPOINT,
    ON_DEMAND_FLOOR,
    TOLERATION,
    SpotQuestion,
    work_on_spot,
)
from gpufleet.plan.instance_types import InstanceType
from gpufleet.replay.trace_tasks import TaskRecord

SPOT_SHARE = "--spot-share"
_WRITTEN = Toleration(TOLERATION.key, TOLERATION.operator, TOLERATION.value, TOLERATION.effect)


NEW_ON_DEMAND = "gpufleet.io/planned-on-demand"
"""A label of new nodes on demand, within a plan alone."""

_NOT_NEW = SelectorRequirement(NEW_ON_DEMAND, "DoesNotExist")


class SpotPlan(msgspec.Struct, frozen=True):
    """The types with the taint of spot capacity, what was decided of each kind of work, notes, and the UIDs
    of the pods that were chosen.
    """

    types: tuple[InstanceType, ...]
    work: tuple[SpotWork, ...] = ()
    notes: tuple[str, ...] = ()
    chosen: frozenset[str] = frozenset()


def plan_spot(
    types: Sequence[InstanceType],
    question: SpotQuestion,
    facts: Facts,
    picture: Picture,
    without: Collection[str] = (),
) -> SpotPlan:
    """Decide, and let the chosen pods of the picture tolerate spot nodes. Raises InputError for a queue that
    is not there. Types on spot of which no rate of interruption is known are left out where others have one;
    where none has, nothing is decided and any work may go there. Work ``without`` spot stays on demand.
    """
    if not any(one.interruptions_per_hour is not None for one in types if one.capacity_type == SPOT):
        named = [*question.checkpoint_h, *question.on_demand_pct]
        if named:
            expected = "a catalogue with spot types and a column interruptions_per_hour"
            field = CHECKPOINT if question.checkpoint_h else ON_DEMAND_FLOOR
            raise InputError("is about spot capacity", field=field, value=named[0], expected=expected)
        return SpotPlan(tuple(types))
    known = [one for one in types if one.capacity_type != SPOT or one.interruptions_per_hour is not None]
    tasks = [
        TaskRecord(str(uid), pod.shape, 0, pod.run_time_us, pod.priority, pod.queue, pod.gang)
        for uid, entry in facts.pods.entries.items()
        if (pod := entry.meaning) is not None and entry.place is PodStage.WAITING
    ]
    _check_queues(question, {str(task.queue) for task in tasks}, picture)
    chosen, rows = work_on_spot(tasks, known, question, without)
    pods = picture.objects.get(resources.PODS, {})
    for key, pod in list(pods.items()):
        if pod.metadata.uid in chosen:
            spec = msgspec.structs.replace(
                pod.spec,
                tolerations=(*pod.spec.tolerations, _WRITTEN),
                affinity=_not_on_demand(pod.spec.affinity),
            )
            pods[key] = msgspec.structs.replace(pod, spec=spec)
    left_out = len(types) - len(known)
    notes = [f"{counted(left_out, 'spot type')} without interruptions_per_hour: left out"] if left_out else []
    return SpotPlan(tuple(map(_marked, known)), rows, tuple(notes), chosen)


def _marked(one: InstanceType) -> InstanceType:
    """The type with the taint of spot capacity, or with the label of new nodes on demand."""
    labels = one.labels if one.capacity_type == SPOT else (*one.labels, (NEW_ON_DEMAND, "true"))
    return msgspec.structs.replace(one, taints=taints_of(one), labels=labels)


def _not_on_demand(affinity: Affinity | None) -> Affinity:
    """What a chosen pod says of nodes, without new ones on demand: or it would take them from work that may
    not go on spot. Nodes that are there it may have.
    """
    found = Affinity() if affinity is None else affinity
    of_nodes = NodeAffinity() if found.node_affinity is None else found.node_affinity
    terms = (NodeSelectorTerm(),) if of_nodes.required is None else of_nodes.required.node_selector_terms
    narrowed = NodeSelector(
        tuple(
            msgspec.structs.replace(term, match_expressions=(*term.match_expressions, _NOT_NEW))
            for term in terms
        )
    )
    return msgspec.structs.replace(found, node_affinity=msgspec.structs.replace(of_nodes, required=narrowed))


def _check_queues(question: SpotQuestion, queues: set[str], picture: Picture) -> None:
    known = queues | {name for _, name in picture.objects.get(resources.FLEET_QUEUES, {})}
    for field, named in ((CHECKPOINT, question.checkpoint_h), (ON_DEMAND_FLOOR, question.on_demand_pct)):
        for queue in named:
            if queue not in known:
                expected = f"one of {listed(sorted(known))}" if known else "a queue; no work waits"
                raise InputError("there is no such queue", field=field, value=queue, expected=expected)


def read_spot_share(text: str) -> int:
    """A share in percent as it was typed. Raises InputError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= 100):
        expected = "a whole number from 1 to 100"
        raise InputError("not a share", field=SPOT_SHARE, value=text, expected=expected)
    return int(text)


def spread(
    types: Sequence[InstanceType], counts: Sequence[int], share_pct: int
) -> tuple[InstanceType, ...] | None:
    """The types with bounds by which of all GPUs on spot at most such a share is of one type in one zone.

    A type in a zone counts once, whichever NodePools buy it. None where the purchase is spread so. One node
    of each is always allowed.
    """
    taken = [
        count * one.gpus if one.capacity_type == SPOT else 0 for one, count in zip(types, counts, strict=True)
    ]
    places: dict[tuple[str, str], list[int]] = {}
    for index, one in enumerate(types):
        if one.capacity_type == SPOT:
            places.setdefault((one.name, one.zone), []).append(index)
    found = list(types)
    for place in places.values():
        place.sort(key=lambda index: -taken[index])
        left = max(sum(taken) * share_pct // 100, types[place[0]].gpus)
        if sum(taken[index] for index in place) <= left:
            continue
        for index in place:
            most = min(counts[index], left // types[index].gpus)
            found[index] = msgspec.structs.replace(types[index], most=most)
            left -= most * types[index].gpus
    return None if found == list(types) else tuple(found)
