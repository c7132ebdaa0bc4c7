"""Which work keeps a node from being changed, as a rollout asks for it.

``Drains`` is the seam: a planner that knows gangs and places may say in which order nodes are drained and
until when it is worth to wait. ``PlainDrains`` reads the pods that hold GPUs and waits for nothing but
checkpoints; ``rollout_actions`` evicts what it names.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from gpufleet.eviction.plan import Refusal, Victim
from gpufleet.kube import keys
from gpufleet.kube.codec.times import microseconds
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.operator.rollout.observed import Drain
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.operator.rollout.windows import US_PER_S
from gpufleet.operator.rollout_objects import CHECK_LABEL, CHECK_NODE, HeldPod

TRUE = "true"


class Drains(Protocol):
    """What is known of the work on nodes."""

    def order(self, nodes: Sequence[NodeName]) -> tuple[NodeName, ...]:
        """The order in which these nodes are best drained."""
        ...

    def drain_of(self, node: NodeName, stamp: Stamp | None) -> Drain:
        """What keeps a node from being changed."""
        ...


class RefusedEvictions:
    """Evictions that did not happen, until they are asked for again.

    Kept in memory alone: a new process asks once more for each pod, and hears the same.
    """

    def __init__(self) -> None:
        self._refused: dict[PodUid, tuple[str, float]] = {}

    def words(self, uid: PodUid) -> str:
        """Why a pod was not evicted, or ""."""
        return self._refused.get(uid, ("", 0.0))[0]

    def due_s(self, uid: PodUid) -> float:
        """From when on a pod may be asked again, by the clock that does not leap; 0 where it was never."""
        return self._refused.get(uid, ("", 0.0))[1]

    def note(self, refusal: Refusal, now_s: float) -> None:
        """An eviction did not happen."""
        pod = refusal.victim.pod
        words = f"{pod.namespace}/{pod.name}: {refusal.words}"
        self._refused[pod.uid] = (words, now_s + refusal.for_s)

    def forget(self, victim: Victim) -> None:
        """A pod was told to end."""
        self._refused.pop(victim.pod.uid, None)

    def keep(self, uids: Iterable[PodUid]) -> None:
        """Forget all pods but these, which are there."""
        there = set(uids)
        self._refused = {uid: one for uid, one in self._refused.items() if uid in there}


class PlainDrains:
    """Pods that hold GPUs, node by node, in the order of the nodes' names."""

    def __init__(self, pods: Mapping[NodeName, Sequence[HeldPod]], refused: RefusedEvictions) -> None:
        self._pods = pods
        self._refused = refused

    def order(self, nodes: Sequence[NodeName]) -> tuple[NodeName, ...]:
        """Nodes with the fewest pods that hold GPUs first: an empty one loses nothing."""
        return tuple(sorted(nodes, key=lambda name: (len(self._holders(name)), name)))

    def drain_of(self, node: NodeName, stamp: Stamp | None) -> Drain:
        """What keeps a node from being changed."""
        found = self._holders(node)
        holders = [one for one in found if not one.is_ending]
        words = [told for one in holders if (told := self._refused.words(PodUid(one.metadata.uid)))]
        return Drain(
            holders=_uids(holders),
            ending=_uids(one for one in found if one.is_ending),
            unanswered=_uids(one for one in holders if _is_unanswered(one, stamp)),
            stuck="; ".join(words),
        )

    def _holders(self, node: NodeName) -> list[HeldPod]:
        return [one for one in self._pods.get(node, ()) if is_holder(one)]


def is_holder(pod: HeldPod) -> bool:
    """Whether a pod is work that holds GPUs."""
    is_ours = CHECK_LABEL in pod.metadata.labels
    return pod.holds_gpus and not (pod.has_ended or pod.is_of_daemon or is_ours)


def pods_by_node(pods: Iterable[HeldPod]) -> dict[NodeName, list[HeldPod]]:
    """The pods of each node, by name; check pods too that are not placed yet."""
    found: dict[NodeName, list[HeldPod]] = defaultdict(list)
    for one in sorted(pods, key=lambda pod: pod.metadata.path):
        waits_for = one.metadata.annotations.get(CHECK_NODE, "") if CHECK_LABEL in one.metadata.labels else ""
        if name := one.spec.node_name or waits_for:
            found[NodeName(name)].append(one)
    return found


def _uids(pods: Iterable[HeldPod]) -> tuple[PodUid, ...]:
    return tuple(PodUid(one.metadata.uid) for one in pods)


def _is_unanswered(pod: HeldPod, stamp: Stamp | None) -> bool:
    """Whether a pod can write a checkpoint, and has not said that it wrote one since it was asked."""
    annotations = pod.metadata.annotations
    if annotations.get(keys.CHECKPOINT_ON_REQUEST) != TRUE:
        return False
    if stamp is None or stamp.phase is not RolloutPhase.ASKING:
        return True
    try:
        written_us = microseconds(annotations.get(keys.CHECKPOINTED_AT))
    except InputError:
        return True
    # The annotation has whole seconds, so that one of the second of the question counts.
    return written_us + US_PER_S <= stamp.since_us
