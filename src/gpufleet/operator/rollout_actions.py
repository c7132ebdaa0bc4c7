"""Carries out what the step of a rollout asks for, one action at a time, each of them one whole write.

Writes of a node are tied to the version that was read, and the right to write is asked before each. Operands
of driver managers that hold the device are paused by their labels while a driver changes, and those that this
paused, and no others, run again after it. ``rollouts`` says which actions, ``eviction`` ends pods.
"""

import datetime as dt
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import msgspec

from gpufleet.drain.checkpoints import written_question
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import EvictionPlan, PodsWatchedByAsker, Victim
from gpufleet.kube import keys
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.rollout_settings import rollout_status_patch
from gpufleet.kube.codec.times import micro_time, whole_time
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.objects.fleet_policies import RolloutStatus
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import DAEMON_SETS, FLEET_POLICIES, NODES, PODS
from gpufleet.kube.status import AlreadyExists, Conflict, NotFound
from gpufleet.model.fleet_policy import DEPLOY_PREFIX, Driver
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.node_images import DRIVER, TOOLKIT, NodeImages, images_of
from gpufleet.model.pod_name import PodName
from gpufleet.operator.node_facts import ROLLOUT_MANAGER, NodeFacts
from gpufleet.operator.node_objects import DRIVER_IMAGE_ANNOTATION, PAUSED_ANNOTATION, ROLLOUT_ANNOTATION
from gpufleet.operator.rollout.actions import (
    Action,
    AskCheckpoint,
    DeleteCheck,
    Evict,
    Leave,
    Move,
    SetDriver,
    StartCheck,
    WriteNode,
    WriteProgress,
)
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase, Stamp
from gpufleet.operator.rollout.windows import EPOCH
from gpufleet.operator.rollout_drains import RefusedEvictions, is_holder
from gpufleet.operator.rollout_driver import daemon_set
from gpufleet.operator.rollout_events import RolloutEvents
from gpufleet.operator.rollout_images import LABEL_OF_PART, minded_parts, part_of
from gpufleet.operator.rollout_objects import (
    CHECK_LABEL,
    TEMPLATE_ANNOTATION,
    HeldPod,
    check_name,
    check_pod,
    check_resource,
    image_key,
    is_turned_away,
)
from gpufleet.operator.rollout_toolkit import toolkit_daemon_set
from gpufleet.operator.upgrade_protocol import PAUSED, written_annotations, written_state
from gpufleet.preflight.facts import TOOLKIT_IMAGE_ANNOTATION

LOG = logging.getLogger(__name__)
RUNS = "true"
"""The value of the labels by which NVIDIA's operands run on a node."""

# The driver is what changes, and the label of all operands would take more away than what holds the device.
NEVER_PAUSED = (f"{DEPLOY_PREFIX}driver", f"{DEPLOY_PREFIX}operands")
DRA_DRIVER = f"{DEPLOY_PREFIX}dra-driver"
VALIDATED = {RolloutPhase.RETURNED, RolloutPhase.ROLLED_BACK}
ANNOTATION_OF_PART = {DRIVER: DRIVER_IMAGE_ANNOTATION, TOOLKIT: TOOLKIT_IMAGE_ANNOTATION}
EVICTED_FOR = "driver-rollout"
"""The reason of evictions, for the log."""


class DaemonSet(Structure, frozen=True):
    """A DaemonSet, as far as it says how its pods are made."""

    metadata: Metadata


_DAEMON_SET = msgspec.json.Decoder(DaemonSet)


class SeenNode(msgspec.Struct, frozen=True):
    """What a round has read: nodes, and the pods on each."""

    nodes: Mapping[NodeName, NodeFacts]
    pods: Mapping[NodeName, Sequence[HeldPod]]


class RolloutActions:
    """Writes what is asked for. Each method raises KubeError, and Conflict where what was read is old."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        evictions: Evictions,
        refused: RefusedEvictions,
        scheduler_name: str,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._scheduler_name = scheduler_name
        self._evictions = evictions
        self._refused = refused
        self._asked: dict[PodUid, str] = {}
        self._renewed: set[str] = set()
        self._events = RolloutEvents(client)

    def keep(self, uids: Container[PodUid]) -> None:
        """Forget all pods but these, which are there."""
        self._asked = {uid: version for uid, version in self._asked.items() if uid in uids}

    async def carry_out(
        self, action: Action, seen: SeenNode, driver: Driver | None, may_write: Callable[[], bool]
    ) -> None:
        """Carry out one action. Raises LeadershipLost where the right to write may be another's."""
        if not may_write():
            raise LeadershipLost("leadership is no longer certain, so nothing is written any more")
        match action:
            case WriteNode(name, stamp, cordon):
                await self._write_node(seen.nodes[name], stamp, cordon=cordon)
            case SetDriver(name, image):
                await self._set_images(seen, name, images_of(image), driver)
            case StartCheck(name, image):
                await self._start_check(seen, name, image)
            case DeleteCheck(name):
                await self._delete_checks(seen.pods.get(name, ()))
            case AskCheckpoint(pods, before_us):
                await self._ask_checkpoint(_chosen(seen, pods), before_us)
            case Evict(name, pods):
                self._evict(name, _chosen(seen, pods))
            case Move(_, places):
                by_pod = {one.pod: one.node for one in places}
                for pod in _chosen(seen, tuple(by_pod)):
                    await self._ask_to_move(pod, by_pod[PodUid(pod.metadata.uid)])
            case Leave(_, pods):
                for pod in _chosen(seen, pods):
                    await self._ask_to_move(pod, None)
            case WriteProgress():
                raise AssertionError("the progress is written by write_progress, with its policy")

    async def write_progress(self, policy: Metadata, before: Progress | None, progress: Progress) -> None:
        """Write how far a rollout is, onto the policy that was read."""
        told = RolloutStatus(
            progress.target, progress.state.value, moment(progress.since_us), progress.reason
        )
        body = rollout_status_patch(told)
        body["metadata"] = {"resourceVersion": policy.resource_version}
        await self._client.patch(FLEET_POLICIES, policy.name, body, subresource="status")
        await self._events.of_policy(policy, before, progress)

    async def _write_node(self, facts: NodeFacts, stamp: Stamp | None, *, cordon: bool | None) -> None:
        annotations = {
            ROLLOUT_ANNOTATION: written_stamp(stamp),
            **written_annotations(facts, stamp),
            **written_backfill(facts, stamp),
        }
        labels = written_state(facts, stamp)
        if stamp is not None and stamp.phase in VALIDATED:
            there = images_of(stamp.target)
            for part in minded_parts(facts.stamp, there):
                annotations[ANNOTATION_OF_PART[part]] = there.of(part) or None
        # What was paused for the change of the driver runs again in every other phase.
        if stamp is None or stamp.phase is not RolloutPhase.CHANGING:
            labels |= resumed(facts.annotations, facts.labels)
            if PAUSED_ANNOTATION in facts.annotations:
                annotations[PAUSED_ANNOTATION] = None
        body: dict[str, object] = {
            "metadata": {
                "uid": facts.uid,
                "resourceVersion": facts.resource_version,
                "annotations": annotations,
                **({"labels": labels} if labels else {}),
            }
        }
        if cordon is not None:
            # Null takes the field away in a merge patch, and a node that was never cordoned has none.
            body["spec"] = {"unschedulable": cordon or None}
        await self._client.patch(NODES, facts.name, body, field_manager=ROLLOUT_MANAGER)
        await self._events.of_node(facts, stamp)
        if stamp is not None:
            said = {"node": facts.name, "phase": stamp.phase.value, "image": stamp.target}
            LOG.info("a node goes on in a rollout", extra={**said, "problem": stamp.reason})

    async def _set_images(
        self, seen: SeenNode, name: NodeName, images: NodeImages, driver: Driver | None
    ) -> None:
        """Pause what holds the device, then have each part leave or come."""
        facts = seen.nodes[name]
        # The node may have been written a moment ago, so its own version is no condition here.
        pods = seen.pods.get(name, ())
        operands = running_operands(facts)
        waits = DRA_DRIVER in operands and any(one.holds_by_claim and not one.has_ended for one in pods)
        labels: dict[str, str | None] = dict.fromkeys(operands, PAUSED)
        if waits:
            # Without this part no kubelet takes back what claims have, and their pods, also those of other
            # parts, never end.
            del labels[DRA_DRIVER]
        else:
            for part in minded_parts(facts.stamp, images):
                labels |= await self._set_part(facts, pods, part, images.of(part), driver)
        if not labels:
            return
        metadata: dict[str, object] = {"uid": facts.uid, "labels": labels}
        paused = [one for one in labels if one not in LABEL_OF_PART.values()]
        if paused:
            # With those that an earlier try has paused, so that all of them run again.
            known = facts.annotations.get(PAUSED_ANNOTATION, "").split(",")
            metadata["annotations"] = {PAUSED_ANNOTATION: ",".join(sorted({*known, *paused} - {""}))}
        await self._client.patch(NODES, name, {"metadata": metadata}, field_manager=ROLLOUT_MANAGER)

    async def _set_part(
        self, facts: NodeFacts, pods: Sequence[HeldPod], part: str, image: str, driver: Driver | None
    ) -> dict[str, str | None]:
        """The change of the label of one part; none where it is right, or where another has not left.

        The pods of another image leave first: two drivers would meet in one kernel, and two toolkits in one
        configuration.
        """
        label = LABEL_OF_PART[part]
        wanted, key = image_key(image) if image else None, facts.labels.get(label)
        there = part_of(facts, pods, self._namespace, part)
        others = [one for one in (*there.wanted, *there.leaving) if one.metadata.labels[label] != wanted]
        if key == wanted:
            return {}
        if others or wanted is None:
            return {} if key is None else {label: None}
        await self._make_daemon_set(part, image, driver)
        return {label: wanted}

    async def renew(self, images: NodeImages, driver: Driver | None) -> None:
        """Have DaemonSets that another version made start their pods as this one does, once in a process.

        Pods that run go on as they are: a rollout alone replaces them. Raises KubeError.
        """
        for part in images.parts:
            body = self._daemon_set(part, images.of(part), driver)
            if body is None or (digest := _template_of(body["metadata"])) in self._renewed:
                continue
            found = await self._found(body)
            if found is not None:
                await self._renew(found, body)
            self._renewed.add(digest)

    async def _make_daemon_set(self, part: str, image: str, driver: Driver | None) -> None:
        """Looked for first: a write that changes nothing is no write. A driver of no policy has its own."""
        body = self._daemon_set(part, image, driver)
        if body is None:
            return
        found = await self._found(body)
        if found is None:
            await self._client.create(DAEMON_SETS, body, namespace=self._namespace)
        else:
            await self._renew(found, body)

    def _daemon_set(self, part: str, image: str, driver: Driver | None) -> dict[str, Any] | None:
        if part == TOOLKIT:
            return toolkit_daemon_set(self._namespace, image)
        return None if driver is None else daemon_set(self._namespace, driver, image)

    async def _found(self, wanted: dict[str, Any]) -> Metadata | None:
        """What is there under the name of a DaemonSet."""
        try:
            text = await self._client.get(DAEMON_SETS, wanted["metadata"]["name"], namespace=self._namespace)
        except NotFound:
            return None
        return decode(text, _DAEMON_SET).metadata

    async def _renew(self, found: Metadata, wanted: dict[str, Any]) -> None:
        if found.annotations.get(TEMPLATE_ANNOTATION) == _template_of(wanted["metadata"]):
            return
        body = {
            "metadata": {"uid": found.uid, "annotations": wanted["metadata"]["annotations"]},
            "spec": {"template": wanted["spec"]["template"]},
        }
        await self._client.patch(DAEMON_SETS, found.name, body, namespace=self._namespace)

    async def _start_check(self, seen: SeenNode, node: NodeName, image: str) -> None:
        """Once the node offers a GPU: before that its kubelet would refuse the pod."""
        name, allocatable = check_name(node, image), seen.nodes[node].allocatable
        for pod in seen.pods.get(node, ()):
            # No kubelet tries such a pod again, and its name is free for another one only when it is gone.
            if pod.metadata.name == name and is_turned_away(pod):
                await self._delete_checks([pod])
                return
        resource = check_resource(allocatable)
        if resource is None:
            return
        body = check_pod(self._namespace, node, image, resource, self._scheduler_name)
        try:
            await self._client.create(PODS, body, name=name, namespace=self._namespace)
        # An earlier try made it: the name stands for this node and image.
        except AlreadyExists:
            return

    async def _delete_checks(self, pods: Sequence[HeldPod]) -> None:
        for pod in pods:
            found = pod.metadata
            # A label alone, which any pod may bear, deletes none.
            if CHECK_LABEL not in found.labels or found.namespace != self._namespace or pod.is_ending:
                continue
            try:
                await self._client.delete(PODS, found.name, namespace=found.namespace, uid=found.uid)
            except (NotFound, Conflict):
                continue

    async def _ask_checkpoint(self, pods: Sequence[HeldPod], before_us: int) -> None:
        now = self._client.clock.now()
        for pod in pods:
            uid, version = PodUid(pod.metadata.uid), pod.metadata.resource_version
            if self._asked.get(uid) == version:
                # The watch has not shown the question yet: another one would move its end.
                continue
            text = written_question(now, EPOCH + dt.timedelta(microseconds=before_us))
            await self._annotate(pod, {keys.CHECKPOINT_REQUESTED: text})
            # Noted after the write: a question that could not be written is asked in the next round.
            self._asked[uid] = version

    async def _ask_to_move(self, pod: HeldPod, target: NodeName | None) -> None:
        """None: it is to stay. What the pod says already is not written again."""
        if pod.metadata.annotations.get(keys.MOVE_TO) != target and not pod.is_ending:
            await self._annotate(pod, {keys.MOVE_TO: target})

    async def _annotate(self, pod: HeldPod, annotations: dict[str, str | None]) -> None:
        """Write annotations of a pod; one that is gone, or whose name is another's, needs none."""
        body = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
        try:
            await self._client.patch(PODS, pod.metadata.name, body, namespace=pod.metadata.namespace)
        except (NotFound, Conflict):
            return

    def _evict(self, node: NodeName, pods: Sequence[HeldPod]) -> None:
        now_s = self._client.clock.monotonic_s()
        victims = tuple(
            Victim(
                PodName(one.metadata.namespace, one.metadata.name, PodUid(one.metadata.uid)),
                EVICTED_FOR,
                f"the driver of node {node} changes",
            )
            for one in pods
            if is_holder(one) and not one.is_ending and self._refused.due_s(PodUid(one.metadata.uid)) <= now_s
        )
        if victims:
            self._evictions.submit(EvictionPlan(victims, PodsWatchedByAsker()))


def _template_of(metadata: dict[str, Any]) -> str:
    digest: str = metadata["annotations"][TEMPLATE_ANNOTATION]
    return digest


def written_stamp(stamp: Stamp | None) -> str | None:
    """A stamp as its annotation holds it."""
    return None if stamp is None else msgspec.json.encode(stamp).decode()


def written_backfill(facts: NodeFacts, stamp: Stamp | None) -> dict[str, str | None]:
    """The change of the annotation by which schedulers know until when others may start on the node.

    It is a part of the write of the stamp, so that neither is there without the other. A text that the stamp
    of before does not stand for is another program's, and stays.
    """
    before, after = (None if one is None else _open_until(one) for one in (facts.stamp, stamp))
    if before == after or facts.annotations.get(keys.BACKFILL_UNTIL) not in {None, before}:
        return {}
    return {keys.BACKFILL_UNTIL: after}


def _open_until(stamp: Stamp) -> str | None:
    until_us = stamp.open_until_us
    return whole_time(EPOCH + dt.timedelta(microseconds=until_us)) if until_us else None


def moment(at_us: int) -> str:
    """A moment as the API writes it, to the microsecond, so that it is read as it was."""
    return micro_time(EPOCH + dt.timedelta(microseconds=at_us))


def running_operands(facts: NodeFacts) -> list[str]:
    """Labels of operands that run on a node and may hold its GPUs."""
    return [
        key
        for key, value in facts.labels.items()
        if key.startswith(DEPLOY_PREFIX) and value == RUNS and key not in NEVER_PAUSED
    ]


def resumed(annotations: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of operands that a rollout paused and no other writer changed since, as they are to be again."""
    paused = annotations.get(PAUSED_ANNOTATION, "").split(",")
    return {key: RUNS for key in paused if labels.get(key) == PAUSED}


def _chosen(seen: SeenNode, uids: Sequence[PodUid]) -> list[HeldPod]:
    wanted = set(uids)
    return [one for pods in seen.pods.values() for one in pods if one.metadata.uid in wanted]
