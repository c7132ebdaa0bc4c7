"""An engine that hears of every change knows what one knows that reads the whole cluster at once.

Pods, gangs, nodes, reports, queues and classes change at random, with Bindings under way whose answer comes
before or after the pod's new version. After each round two things are compared with what the engine was told:
a plain rule about which pods wait and which are placed, and the books of a scheduler that starts now. So no
order of events, and no pod that was overlooked when another object changed, can leave the engine with a
picture that the API does not show.
"""

# ruff: noqa: D102 - a change's name is its sentence, as a test's is.

import copy
import random
from typing import Any

import pytest

from gpufleet.cluster.engine_events import BindEnded
from gpufleet.kube import resources
from gpufleet.kube.objects.disruption import PodDisruptionBudget, PriorityClass
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.objects.namespace import Namespace
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from tests.cluster.changing_cluster import (
    SCHEDULER,
    Binding,
    Books,
    ChangingCluster,
    RecordedEvents,
    begin_binding,
)
from tests.engine.effort import seeds

Object = dict[str, Any]
PODS = ("p0", "p1", "p2", "p3", "p4", "p5")
NODES = ("n0", "n1")
GPUS = 4
GRANT, GANG, MINIMUM = "gpufleet.io/grant", "gpufleet.io/gang", "gpufleet.io/gang-min-members"
NAMESPACE = "team"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
"""What Kubernetes writes on a claim that has its volume."""

ANNOTATIONS: tuple[Object, ...] = (
    {},
    {GANG: "g", MINIMUM: "2"},
    {GANG: "g", MINIMUM: "3"},
    {GANG: "h", MINIMUM: "1"},
    {"gpufleet.io/run-time-max": "4h"},
    {"gpufleet.io/run-time-max": "1h"},
    {"gpufleet.io/interruptible": "true"},
)
LABELS: tuple[Object, ...] = ({}, {}, {"app": "a"}, {"gpufleet.io/queue": "a"}, {"gpufleet.io/queue": "b"})
SPECS: tuple[Object, ...] = (
    {},
    {},
    {"schedulingGates": [{"name": "example.com/gate"}]},
    {"schedulerName": "other"},
    {"priorityClassName": "safe"},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
)


def is_over(pod: Object) -> bool:
    """True for a pod that ended."""
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def waits_for_us(pod: Object, *, has_claim: bool) -> bool:
    """By the API's own words: a pod without a node that nothing but a place is missing for."""
    metadata, spec = pod["metadata"], pod["spec"]
    asked = spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    return (
        not is_over(pod)
        and not spec.get("nodeName")
        and spec["schedulerName"] == SCHEDULER
        and "deletionTimestamp" not in metadata
        and not spec.get("schedulingGates")
        and (has_claim or not spec.get("volumes"))
        and asked.isdigit()
    )


class Changes:
    """Changes at random; each round is judged."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = ChangingCluster()
        self.books = Books(self.cluster)
        self.told = RecordedEvents()
        self.under_way: dict[PodUid, Binding] = {}
        self.ran_with: dict[GangName, int] = {}
        self.lives = 0
        for name in NODES:
            self.set_node(name, GPUS)
        disk = {"metadata": {"name": "disk"}, "spec": {"csi": {"driver": "d", "volumeHandle": "disk"}}}
        self.cluster.put(resources.PERSISTENT_VOLUMES, PersistentVolume, disk)
        self.namespace_is_labelled()
        self.round_is_taken()
        self.kinds = {
            self.pod_is_made: 6,
            self.engine_decides: 8,
            self.binding_arrives: 6,
            self.binding_is_answered: 6,
            self.binding_is_refused: 1,
            self.owner_edits_a_pod: 4,
            self.gate_is_lifted: 1,
            self.pod_is_told_to_end: 1,
            self.placed_pod_ends: 2,
            self.pod_vanishes: 1,
            self.another_scheduler_places_its_pod: 2,
            self.node_changes: 1,
            self.node_is_deleted: 1,
            self.kubelet_reports: 3,
            self.namespace_is_labelled: 1,
            self.class_is_set: 1,
            self.class_is_deleted: 1,
            self.queue_is_set: 1,
            self.queue_is_deleted: 1,
            self.claim_comes_or_goes: 1,
            self.budget_comes_or_goes: 1,
        }

    def step(self) -> None:
        """Something changes; half of the time a round takes it in, with what was left."""
        (change,) = self.chance.choices(list(self.kinds), list(self.kinds.values()))
        change()
        if self.chance.random() < 0.5:
            self.round_is_taken()

    # What changes need.

    def pods(self) -> list[Object]:
        """All pods as they are written."""
        return [one for (kind, _, _), one in self.cluster.written.items() if kind == resources.PODS]

    def some_pod(self) -> Object | None:
        """One of the pods; a copy that may be changed."""
        pods = self.pods()
        return copy.deepcopy(self.chance.choice(pods)) if pods else None

    def put_pod(self, pod: Object) -> None:
        self.cluster.put(resources.PODS, Pod, pod)

    def drop_binding(self, uid: PodUid) -> None:
        """A Binding whose pod is gone is answered like one: it did not happen."""
        binding = self.under_way.pop(uid, None)
        if binding is not None and not binding.answered:
            self.answer(uid, binding, bound=binding.arrived)

    def answer(self, uid: PodUid, binding: Binding, *, bound: bool) -> None:
        result = BindEnded(uid, binding.node, binding.devices, bound)
        self.books.engine_events.result(result)

    # Changes of objects.

    def node_changes(self) -> None:
        self.set_node(self.chance.choice(NODES), self.chance.randint(1, GPUS), self.chance.choice("ab"))

    def set_node(self, name: str, gpus: int, rack: str = "a") -> None:
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        node = {"metadata": {"name": name, "labels": {"rack": rack}}, "status": {"allocatable": amounts}}
        self.cluster.put(resources.NODES, Node, node)
        if self.cluster.picture.find(resources.NODE_DEVICES, name) is None:
            self.report(name, {})

    def node_is_deleted(self) -> None:
        self.cluster.remove(resources.NODES, "", self.chance.choice(NODES))

    def kubelet_reports(self) -> None:
        """The first of the pods on a node hold GPUs of the kubelet's choice."""
        name = self.chance.choice(NODES)
        here = [pod for pod in self.pods() if pod["spec"].get("nodeName") == name and not is_over(pod)]
        free = self.chance.sample([f"GPU-{name}-{at}" for at in range(GPUS)], GPUS)
        held = {}
        for pod in here[: self.chance.randint(0, len(here))]:
            asked = pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
            count = int(asked) if asked.isdigit() else 0
            held[pod["metadata"]["uid"]] = [free.pop() for _ in range(min(count, len(free)))]
        self.report(name, held)

    def report(self, name: str, held: dict[str, list[str]]) -> None:
        devices = [
            {"id": f"GPU-{name}-{at}", "vendor": "NVIDIA", "model": "H100-80GB", "memoryMiB": 81920}
            for at in range(GPUS)
        ]
        holders = [{"device": one, "podUID": uid} for uid, all_of in held.items() for one in all_of]
        spec = {"devices": devices, "holders": holders}
        self.cluster.put(resources.NODE_DEVICES, NodeDevices, {"metadata": {"name": name}, "spec": spec})

    def namespace_is_labelled(self) -> None:
        labels = self.chance.choice(({}, {"gpufleet.io/queue": "a"}, {"gpufleet.io/queue": "b"}))
        metadata = {"name": NAMESPACE, "labels": labels}
        self.cluster.put(resources.NAMESPACES, Namespace, {"metadata": metadata})

    def class_is_set(self) -> None:
        labels = {"gpufleet.io/preemptible": self.chance.choice(("true", "false"))}
        written = {"metadata": {"name": "safe", "labels": labels}, "value": 0}
        self.cluster.put(resources.PRIORITY_CLASSES, PriorityClass, written)

    def class_is_deleted(self) -> None:
        self.cluster.remove(resources.PRIORITY_CLASSES, "", "safe")

    def queue_is_set(self) -> None:
        spec = {
            "quotas": [{"resource": "gpu", "nominal": self.chance.randint(0, 3)}],
            "namespaces": self.chance.choice(([], [NAMESPACE])),
        }
        written = {"metadata": {"name": self.chance.choice("ab")}, "spec": spec}
        self.cluster.put(resources.FLEET_QUEUES, FleetQueue, written)

    def queue_is_deleted(self) -> None:
        self.cluster.remove(resources.FLEET_QUEUES, "", self.chance.choice("ab"))

    def claim_comes_or_goes(self) -> None:
        uids = {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"].get("volumes")}
        # Kubernetes keeps a claim until no pod uses it.
        if self.chance.random() < 0.3 and uids.isdisjoint(self.told.placed):
            self.cluster.remove(resources.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, "data")
            return
        written = {
            "metadata": {"name": "data", "namespace": NAMESPACE, "annotations": BOUND},
            "spec": {"volumeName": "disk"},
            "status": {"phase": "Bound"},
        }
        self.cluster.put(resources.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, written)

    def budget_comes_or_goes(self) -> None:
        if self.chance.random() < 0.3:
            self.cluster.remove(resources.POD_DISRUPTION_BUDGETS, NAMESPACE, "b")
            return
        written = {
            "metadata": {"name": "b", "namespace": NAMESPACE},
            "spec": {"selector": {"matchLabels": {"app": "a"}}},
            "status": {"disruptionsAllowed": self.chance.randint(0, 2)},
        }
        self.cluster.put(resources.POD_DISRUPTION_BUDGETS, PodDisruptionBudget, written)

    # Changes of pods.

    def pod_is_made(self) -> None:
        chance, name = self.chance, self.chance.choice(PODS)
        before = self.cluster.written.get((resources.PODS, NAMESPACE, name))
        if before is not None:
            self.delete(before)
        self.lives += 1
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"{name}-{self.lives}",
            "creationTimestamp": f"2026-03-01T11:{self.lives % 60:02}:00Z",
            "labels": dict(chance.choice(LABELS)),
            "annotations": dict(chance.choice(ANNOTATIONS)),
        }
        gpus = chance.choice(("1", "1", "2", "2", "many"))
        containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
        body = {"schedulerName": SCHEDULER, "containers": containers, **chance.choice(SPECS)}
        self.put_pod({"metadata": metadata, "spec": body, "status": {}})

    def owner_edits_a_pod(self) -> None:
        pod = self.some_pod()
        if pod is not None and not is_over(pod):
            grant = pod["metadata"]["annotations"].get(GRANT)
            kept = {} if grant is None else {GRANT: grant}
            annotations = {**self.chance.choice(ANNOTATIONS), **kept}
            labels = dict(self.chance.choice((pod["metadata"]["labels"], *LABELS)))
            pod["metadata"] |= {"annotations": annotations, "labels": labels}
            self.put_pod(pod)

    def gate_is_lifted(self) -> None:
        pod = self.some_pod()
        if pod is not None:
            pod["spec"].pop("schedulingGates", None)
            self.put_pod(pod)

    def pod_is_told_to_end(self) -> None:
        pod = self.some_pod()
        if pod is not None:
            pod["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
            self.put_pod(pod)

    def placed_pod_ends(self) -> None:
        pod = self.some_pod()
        if pod is not None and pod["spec"].get("nodeName") and not is_over(pod):
            pod["status"]["phase"] = self.chance.choice(("Succeeded", "Failed"))
            self.put_pod(pod)

    def pod_vanishes(self) -> None:
        pod = self.some_pod()
        if pod is not None:
            self.delete(pod)

    def delete(self, pod: Object) -> None:
        """The API has a pod no more, and if it had ended its node's report does not name it either.

        Until then books remember that it ended, and a scheduler that starts cannot know it.
        """
        uid = pod["metadata"]["uid"]
        self.drop_binding(PodUid(uid))
        if is_over(pod):
            self.report(pod["spec"]["nodeName"], {})
        self.cluster.remove(resources.PODS, NAMESPACE, pod["metadata"]["name"])

    def another_scheduler_places_its_pod(self) -> None:
        pod = self.some_pod()
        if pod is not None and pod["spec"]["schedulerName"] != SCHEDULER and not pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = self.chance.choice(NODES)
            self.put_pod(pod)

    # Bindings.

    def engine_decides(self) -> None:
        """A pod that waits gets free GPUs of a node, as the engine knows both."""
        node = self.told.nodes.get(NodeName(self.chance.choice(NODES)))
        if node is None or not self.told.waiting or self.cluster.has_changes:
            return
        meaning = self.chance.choice(list(self.told.waiting.values()))
        taken = {one for _, _, devices in self.told.placed.values() for one in devices}
        free = [one for one in node.devices if one.id not in taken][: meaning.shape.gpu.count]
        in_unknown_gang = meaning.gang is not None and meaning.gang not in self.told.gangs
        if in_unknown_gang or len(free) < meaning.shape.gpu.count:
            return
        ids = tuple(one.id for one in free)
        self.under_way[meaning.uid] = begin_binding(self.books, self.told, meaning, node, ids)

    def some_binding(self) -> PodUid | None:
        """A pod with a Binding under way."""
        return self.chance.choice(list(self.under_way)) if self.under_way else None

    def is_ending(self, binding: Binding) -> bool:
        """True where the server binds the pod no more, because it was told to end."""
        pod = self.cluster.written[resources.PODS, NAMESPACE, binding.name]
        return "deletionTimestamp" in pod["metadata"]

    def binding_arrives(self) -> None:
        uid = self.some_binding()
        if uid is None or self.under_way[uid].arrived or self.is_ending(self.under_way[uid]):
            return
        binding = self.under_way[uid]
        pod = copy.deepcopy(self.cluster.written[resources.PODS, NAMESPACE, binding.name])
        pod["metadata"]["annotations"] |= binding.annotations
        pod["spec"]["nodeName"] = binding.node
        self.put_pod(pod)
        binding.arrived = True
        self.forget_if_done(uid)

    def binding_is_answered(self) -> None:
        uid = self.some_binding()
        if uid is None or self.under_way[uid].answered:
            return
        binding = self.under_way[uid]
        if binding.arrived or not self.is_ending(binding):
            self.answer(uid, binding, bound=True)
            binding.answered = True
            self.forget_if_done(uid)

    def binding_is_refused(self) -> None:
        uid = self.some_binding()
        if uid is not None and not self.under_way[uid].arrived and not self.under_way[uid].answered:
            self.answer(uid, self.under_way.pop(uid), bound=False)

    def forget_if_done(self, uid: PodUid) -> None:
        if self.under_way[uid].arrived and self.under_way[uid].answered:
            del self.under_way[uid]

    # Judging.

    def round_is_taken(self) -> None:
        self.told.hear(self.books.round(self.cluster.take()))
        self.check_plain_rule()
        self.check_gangs()
        if not self.under_way:
            self.check_fresh_reading()

    def check_plain_rule(self) -> None:
        """Which pods wait and which have which node, as their own words say."""
        has_claim = (resources.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, "data") in self.cluster.written
        by_uid = {PodUid(one["metadata"]["uid"]): one for one in self.pods()}
        waits = {uid for uid, one in by_uid.items() if waits_for_us(one, has_claim=has_claim)}
        runs = {
            uid: one["spec"]["nodeName"]
            for uid, one in by_uid.items()
            if one["spec"].get("nodeName") and not is_over(one)
        }
        unsure = {uid for uid, one in self.under_way.items() if not one.arrived}
        assert set(self.told.waiting) - unsure == waits - unsure
        placed = {uid: node for uid, (_, node, _) in self.told.placed.items() if uid not in unsure}
        assert placed == runs

    def check_gangs(self) -> None:
        """Half bound: fewer members have a node than it needs now, and than it needed while it was whole."""
        members: dict[GangName | None, list[bool]] = {}
        for pod in self.pods():
            held = self.told.placed.get(PodUid(pod["metadata"]["uid"]))
            if held is not None and pod["spec"].get("nodeName"):
                members.setdefault(held[0].gang, []).append("deletionTimestamp" not in pod["metadata"])
        expected = {}
        self.ran_with = {name: least for name, least in self.ran_with.items() if name in self.told.gangs}
        for name, gang in self.told.gangs.items():
            stays = members.get(name, [])
            if not any(stays):
                self.ran_with.pop(name, None)
                continue
            if len(stays) >= gang.min_members:
                self.ran_with[name] = gang.min_members
            needed = min(gang.min_members, self.ran_with.get(name, gang.min_members))
            if len(stays) < needed:
                expected[name] = (needed, sum(stays), len(stays) - sum(stays))
        found = self.books.engine_events.gangs.half_bound()
        assert {one.gang: (one.min_members, len(one.members), one.ending) for one in found} == expected

    def check_fresh_reading(self) -> None:
        """A scheduler that starts now tells its engine the same."""
        fresh = RecordedEvents()
        fresh.hear(Books(self.cluster).round(self.cluster.picture.seen()))
        assert self.told.waiting == fresh.waiting
        assert self.told.placed == fresh.placed
        assert self.told.gangs == fresh.gangs
        assert self.told.nodes == fresh.nodes
        assert self.told.queues == fresh.queues
        assert self.told.namespaces == fresh.namespaces
        assert self.told.budgets == fresh.budgets


@pytest.mark.parametrize("seed", seeds(300))
def test_the_engine_knows_what_the_objects_say_however_they_came_to_say_it(seed: int) -> None:
    changes = Changes(seed)
    for _ in range(10 + seed % 90):
        changes.step()
    changes.round_is_taken()
