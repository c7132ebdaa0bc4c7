"""Random calls, legal and illegal, by a seed: what each actor may think of next.

A call is made from what is known of the cluster, so that most of them are about something that is there.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from tests.hostile.people import BLUE, ERRS, GREEN, MERGE, NODE, NONCE, RED, Call

GPU = "nvidia.com/gpu"
GRANT = "gpufleet.io/grant"
QUEUES = (RED, BLUE, GREEN, "fleet", "default", "nobody")
QUEUE_LABELS = (
    "gpufleet.io/queue",
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "volcano.sh/queue-name",
)
OWN_CRDS = "/apis/gpufleet.io/v1alpha1"
ALL_QUOTA = {"quotas": [{"resource": "gpu", "nominal": 64}]}
STRATEGIC = "application/strategic-merge-patch+json"


class Known(msgspec.Struct, frozen=True):
    """What an actor sees: names of pods by namespace, nodes, and devices by node."""

    pods: dict[str, tuple[str, ...]]
    nodes: tuple[str, ...]
    devices: dict[str, tuple[str, ...]]


Make = Callable[["Thinker"], Call]


class Thinker:
    """Makes the calls of one run; every object has a name and every write a mark of its own."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.known = Known({}, (), {})
        self.space = RED
        self._number = 0

    def next(self, known: Known) -> Call:
        """Somebody's next call."""
        self.known = known
        actor = self.random.choices((RED, BLUE, NODE, ERRS), (8, 8, 2, 1))[0]
        if actor == NODE:
            return self.random.choice(OF_A_NODE)(self)
        if actor == ERRS:
            return self.random.choice(OF_AN_OPERATOR)(self)
        self.space = actor
        ways = [way for way, _ in OF_A_TENANT]
        return self.random.choices(ways, [weight for _, weight in OF_A_TENANT])[0](self)

    def name(self) -> str:
        """A name that nothing has."""
        self._number += 1
        return f"h-{self._number}"

    def chance(self, part: float) -> bool:
        """True so often."""
        return self.random.random() < part

    def a_pod(self) -> str:
        """The address of some pod of the own namespace, seldom of another's."""
        space = self.space if self.chance(0.9) else self.random.choice((RED, BLUE, GREEN))
        names = self.known.pods.get(space) or ("nothing",)
        return f"/api/v1/namespaces/{space}/pods/{self.random.choice(names)}"

    def a_node(self) -> str:
        """Some node."""
        return self.random.choice(self.known.nodes or ("nowhere",))

    def a_grant(self) -> str:
        """A grant that somebody would like to have."""
        node = self.a_node()
        devices = self.known.devices.get(node) or ("GPU-0",)
        part = {"id": self.random.choice(devices), "kind": "whole", "gpuMilli": 1000}
        terms = {"queue": self.random.choice(QUEUES), "atUs": 0, "priority": 10, "preemptible": False}
        said = {"v": 2, "epoch": 10**6, "terms": terms} if self.chance(0.5) else {"v": 1, "epoch": 10**6}
        return msgspec.json.encode({**said, "containers": {"main": [part]}}).decode()

    def patch(self, path: str, body: dict[str, Any], actor: str = "", kind: str = MERGE) -> Call:
        """A patch with a mark."""
        nonce = self.name()
        metadata = {**body.get("metadata", {})}
        metadata["annotations"] = {**metadata.get("annotations", {}), NONCE: nonce}
        return Call(actor or self.space, "PATCH", path, {**body, "metadata": metadata}, kind, nonce)


def _labels(thinker: Thinker) -> dict[str, str]:
    random = thinker.random
    if thinker.chance(0.2):
        return {}
    queue = thinker.space if thinker.chance(0.5) else random.choice(QUEUES)
    return {random.choice(QUEUE_LABELS) if thinker.chance(0.3) else QUEUE_LABELS[0]: queue}


PROMISES: tuple[Callable[[Thinker], tuple[str, str]], ...] = (
    lambda thinker: (GRANT, thinker.a_grant()),
    lambda thinker: ("gpufleet.io/moved", f'{{"pod":"{thinker.name()}"}}'),
    lambda thinker: ("gpufleet.io/interruptible", thinker.random.choice(("true", "false"))),
    lambda thinker: ("gpufleet.io/run-time", thinker.random.choice(("1s", "5m", "100h"))),
    lambda thinker: ("gpufleet.io/run-time-max", thinker.random.choice(("2s", "100h"))),
    lambda _: ("gpufleet.io/checkpointed-at", "2026-11-23T00:00:00Z"),
    lambda thinker: ("gpufleet.io/gang", thinker.random.choice(("g-1", "g-2"))),
    lambda thinker: ("gpufleet.io/gang-min-members", thinker.random.choice(("1", "2", "90"))),
    lambda thinker: (thinker.random.choice(QUEUE_LABELS), thinker.random.choice(QUEUES)),
    lambda thinker: ("cdi.k8s.io/x", f"nvidia.com/gpu={thinker.random.choice(('all', '0'))}"),
)
"""Annotations that promise or claim something."""


def _notes(thinker: Thinker, most: int) -> dict[str, str]:
    count = thinker.random.choice((0, 0, 1, most))
    return dict(make(thinker) for make in thinker.random.sample(PROMISES, count))


def pod_body(thinker: Thinker, name: str) -> dict[str, Any]:
    """A pod as a tenant may write one: mostly an honest one with one thing that is not."""
    random = thinker.random
    gpus = random.choice((1, 1, 1, 2, 4, 0))
    container: dict[str, Any] = {"name": "main", "image": "example.com/none", "resources": {}}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    if thinker.chance(0.15):
        value = random.choice(("all", "0,1", "void", *thinker.known.devices.get(thinker.a_node(), ())[:1]))
        container["env"] = [{"name": random.choice(VARIABLES), "value": value}]
    spec: dict[str, Any] = {"schedulerName": "gpufleet", "containers": [container]}
    if thinker.chance(0.15):
        spec["nodeName"] = thinker.a_node()
    if thinker.chance(0.1):
        spec["schedulerName"] = random.choice(("default-scheduler", "mine"))
    if thinker.chance(0.1):
        spec["priorityClassName"] = random.choice(("never-evicted", "high", "system-node-critical"))
    metadata = {"name": name, "labels": _labels(thinker), "annotations": _notes(thinker, 2)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES")


def create_pod(thinker: Thinker) -> Call:
    name = thinker.name()
    body = pod_body(thinker, name)
    body["metadata"]["annotations"][NONCE] = name
    return Call(thinker.space, "POST", f"/api/v1/namespaces/{thinker.space}/pods", body, nonce=name)


def create_job(thinker: Thinker) -> Call:
    name = thinker.name()
    pod = pod_body(thinker, name)
    del pod["metadata"]["name"]
    template = {"metadata": pod["metadata"], "spec": {**pod["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": thinker.random.randint(1, 3), "backoffLimit": 0, "template": template}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return Call(thinker.space, "POST", f"/apis/batch/v1/namespaces/{thinker.space}/jobs", body)


def patch_pod(thinker: Thinker) -> Call:
    where = thinker.random.choice(("", "", "/status"))
    notes: dict[str, str | None] = {**_notes(thinker, 1)}
    if thinker.chance(0.3):
        notes[GRANT] = None if thinker.chance(0.2) else thinker.a_grant()
    return thinker.patch(
        f"{thinker.a_pod()}{where}", {"metadata": {"labels": _labels(thinker), "annotations": notes}}
    )


def patch_status(thinker: Thinker) -> Call:
    status: dict[str, Any] = thinker.random.choice(
        (
            {"phase": "Succeeded"},
            {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
            {"phase": "Running", "startTime": "2036-01-01T00:00:00Z"},
            {"nominatedNodeName": thinker.a_node()},
        )
    )
    return thinker.patch(f"{thinker.a_pod()}/status", {"status": status})


def add_debugger(thinker: Thinker) -> Call:
    variable = {"name": thinker.random.choice(VARIABLES), "value": thinker.random.choice(("all", "0"))}
    one = {"name": thinker.name(), "image": "example.com/none", "env": [variable]}
    body = {"spec": {"ephemeralContainers": [one]}}
    return Call(thinker.space, "PATCH", f"{thinker.a_pod()}/ephemeralcontainers", body, STRATEGIC)


def bind(thinker: Thinker) -> Call:
    path = thinker.a_pod()
    metadata: dict[str, Any] = {"name": path.rpartition("/")[2]}
    if thinker.chance(0.5):
        metadata["annotations"] = {GRANT: thinker.a_grant()}
    target = {"apiVersion": "v1", "kind": "Node", "name": thinker.a_node()}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    return Call(thinker.space, "POST", f"{path}/binding", body)


def evict(thinker: Thinker) -> Call:
    path = thinker.a_pod()
    _, _, _, _, space, _, name = path.split("/")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space}}
    return Call(thinker.space, "POST", f"{path}/eviction", body)


def delete(thinker: Thinker) -> Call:
    body = {"gracePeriodSeconds": 0} if thinker.chance(0.5) else None
    return Call(thinker.space, "DELETE", thinker.a_pod(), body)


def relabel_namespace(thinker: Thinker) -> Call:
    labels = thinker.random.choice(
        (
            {"gpufleet.io/queue": thinker.random.choice(QUEUES)},
            {"team": thinker.random.choice((RED, BLUE, GREEN))},
            {"gpufleet.io/managed": "true"},
            {"kubernetes.io/metadata.name": GREEN},
            {"harmless": "label"},
        )
    )
    space = thinker.space if thinker.chance(0.9) else GREEN
    return thinker.patch(f"/api/v1/namespaces/{space}", {"metadata": {"labels": labels}})


def write_queue(thinker: Thinker) -> Call:
    if thinker.chance(0.5):
        name = thinker.name()
        spec = {**ALL_QUOTA, "namespaces": [thinker.space]}
        body = {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "FleetQueue",
            "metadata": {"name": name},
            "spec": spec,
        }
        return Call(thinker.space, "POST", f"{OWN_CRDS}/fleetqueues", body)
    where = thinker.random.choice(("", "/status"))
    return thinker.patch(
        f"{OWN_CRDS}/fleetqueues/{thinker.random.choice(QUEUES)}{where}", {"spec": ALL_QUOTA}
    )


def write_report(thinker: Thinker) -> Call:
    path = f"{OWN_CRDS}/nodedevices/{thinker.a_node()}"
    if thinker.chance(0.3):
        return Call(thinker.space, "DELETE", path)
    return thinker.patch(path, {"spec": {"holders": []}})


def write_lease(thinker: Thinker) -> Call:
    path = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"
    return thinker.patch(path, {"spec": {"leaseTransitions": 10**6}})


def write_class(thinker: Thinker) -> Call:
    labels = {"gpufleet.io/preemptible": "false"}
    metadata = {"name": thinker.name(), "labels": labels}
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": 10**8,
    }
    return Call(thinker.space, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)


def read_a_secret(thinker: Thinker) -> Call:
    return Call(thinker.space, "GET", "/api/v1/namespaces/gpufleet-system/secrets")


OF_A_TENANT: tuple[tuple[Make, int], ...] = (
    (create_pod, 14),
    (create_job, 3),
    (patch_pod, 6),
    (patch_status, 3),
    (add_debugger, 2),
    (bind, 4),
    (evict, 1),
    (delete, 5),
    (relabel_namespace, 4),
    (write_queue, 1),
    (write_report, 1),
    (write_lease, 1),
    (write_class, 1),
    (read_a_secret, 1),
)


def report_of_another(thinker: Thinker) -> Call:
    others = thinker.known.nodes[1:] or ("nowhere",)
    path = f"{OWN_CRDS}/nodedevices/{thinker.random.choice(others)}"
    return thinker.patch(path, {"spec": {"devices": [], "holders": []}}, NODE)


def label_of_another(thinker: Thinker) -> Call:
    others = thinker.known.nodes[1:] or ("nowhere",)
    labels = {"gpufleet.io/anything": "else", "nvidia.com/gpu.count": "64"}
    return thinker.patch(
        f"/api/v1/nodes/{thinker.random.choice(others)}", {"metadata": {"labels": labels}}, NODE
    )


def grant_by_a_node(thinker: Thinker) -> Call:
    body = {"metadata": {"annotations": {GRANT: thinker.a_grant()}}}
    return thinker.patch(f"{thinker.a_pod()}/status", body, NODE)


def secret_of_a_node(thinker: Thinker) -> Call:
    return Call(
        NODE, "GET", f"/api/v1/namespaces/{thinker.random.choice((GREEN, 'gpufleet-system'))}/secrets"
    )


OF_A_NODE: tuple[Make, ...] = (report_of_another, label_of_another, grant_by_a_node, secret_of_a_node)


def change_quota(thinker: Thinker) -> Call:
    name = thinker.random.choice((RED, BLUE))
    quota = {"resource": "gpu", "nominal": thinker.random.choice((0, 1, 2))}
    return thinker.patch(f"{OWN_CRDS}/fleetqueues/{name}", {"spec": {"quotas": [quota]}}, ERRS)


def lose_a_report(thinker: Thinker) -> Call:
    return Call(ERRS, "DELETE", f"{OWN_CRDS}/nodedevices/{thinker.a_node()}")


def grant_by_hand(thinker: Thinker) -> Call:
    return thinker.patch(thinker.a_pod(), {"metadata": {"annotations": {GRANT: thinker.a_grant()}}}, ERRS)


def lose_the_lease(_: Thinker) -> Call:
    path = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"
    return Call(ERRS, "DELETE", path)


OF_AN_OPERATOR: tuple[Make, ...] = (change_quota, change_quota, lose_a_report, grant_by_hand, lose_the_lease)


def some(thinker: Thinker, known: Known, count: int) -> Sequence[Call]:
    """So many calls."""
    return [thinker.next(known) for _ in range(count)]
