"""Pods that wait, one for each kind of reason: what a newcomer types, and what every answer says of it.

The fleet has pools as platforms have them: each with its label `pool` and a taint of its own. So a pod that
is not for a pool has two reasons against it there, and its cause is found where it was meant to run: in the
pool `common` if it names none. First `furniture` runs, so that room is taken; then `waiting_kinds` come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model

Object = dict[str, Any]
Spec = Mapping[str, object]

NAMESPACE = "default"
STRANGERS, MANAGED = "strangers", "managed"
GPU, SHARE = "nvidia.com/gpu", "gpufleet.io/gpu-share"
FPGA = "example.com/fpga"
POOL = "pool"
COMMON = "common"
QUEUE = "gpufleet.io/queue"
HOSTNAME = "kubernetes.io/hostname"
H100 = gpu_model("H100-80GB")

TAINTS = {"true": (GPU, "true"), "present": (GPU, "present"), "word": ("gpu", "true")}
"""Pools with the taints that guides teach; all others are tainted by the pool's name."""

POOLS = (
    *(COMMON, "full", "pieces", "apart", "whole", "sick", "silent", "bare", "away", "rejecting", "aged"),
    *("cordoned", "unready", "beside", "true", "present", "word", "two", "kept", "crowded"),
)
"""Pools of one node with two GPUs each."""


def nodes(pool: str) -> SimulatedNodes:
    """The node of a pool."""
    pods = 1 if pool == "crowded" else 250
    labels = ((POOL, pool),)
    return SimulatedNodes(1, 2, H100, 16, 64, pods, prefix=f"{pool}-", labels=labels)


def node_of(pool: str) -> str:
    """The name of the node of a pool."""
    return f"{pool}-001"


@dataclass(frozen=True)
class Kind:
    """A waiting pod and what is said of it.

    ``cause`` and ``state`` are those of `gpufleet explain`. ``told`` stands in the condition and in the Event
    of the scheduler, ``why`` and ``way_out`` in the answer of `explain`, ``never`` in none of all. ``doctor``
    has the checks that name the pod. ``queues`` is the reason that `gpufleet queues` tells, "" for a pod that
    no queue lists.
    """

    pod: Object
    cause: str
    told: str
    why: str
    way_out: str
    state: str = "waits"
    with_it: tuple[Object, ...] = ()
    doctor: tuple[str, ...] = ()
    queues: str = "nodes"
    never: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the pod."""
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return str(self.pod["metadata"]["namespace"])


def pod(
    name: str,
    limits: Spec | int = 1,
    pool: str = COMMON,
    *,
    namespace: str = NAMESPACE,
    labels: Spec | None = None,
    annotations: Spec | None = None,
    container: Spec | None = None,
    **spec: object,
) -> Object:
    """A pod of ours with one container. ``limits`` as a number are GPUs.

    It tolerates the taint of its pool, and selects any pool but the common one.
    """
    asked = {GPU: str(limits)} if isinstance(limits, int) else limits
    toleration = {"key": POOL, "operator": "Equal", "value": pool, "effect": "NoSchedule"}
    steered: Object = {"tolerations": [toleration]}
    if pool != COMMON:
        steered["nodeSelector"] = {POOL: pool}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    main = {"name": "main", "image": "any", "resources": {"limits": asked}, **(container or {})}
    usual = {"schedulerName": "gpufleet", "terminationGracePeriodSeconds": 0, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**usual, **steered, **spec}}


def share(name: str, fraction: str, pool: str = COMMON) -> Object:
    """A pod that asks for a part of a GPU."""
    return pod(name, {SHARE: "1"}, pool, annotations={"gpufleet.io/gpu-fraction": fraction})


def large(**requests: str) -> Spec:
    """A container that asks for one GPU and so much of its host."""
    return {"resources": {"limits": {GPU: "1"}, "requests": requests}}


def queued(name: str, queue: str, gpus: int = 1, pool: str = "beside", **more: Any) -> Object:
    """A pod of a queue."""
    labels = {QUEUE: queue, **more.pop("labels", {})}
    return pod(name, gpus, pool, labels=labels, **more)


def member(name: str, gang: str, minimum: int, pool: str = "beside") -> Object:
    """A pod of a gang that its annotations describe."""
    said = {"gpufleet.io/gang": gang, "gpufleet.io/gang-min-members": str(minimum)}
    return pod(name, 1, pool, annotations=said)


def relation(kind: str, app: str) -> Object:
    """A required relation to the pods of an app, on the same node."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def with_claim(name: str, claim: str) -> Object:
    """A pod that uses a claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return pod(name, 1, "beside", volumes=[volume])


def claim(name: str, storage_class: str, annotations: Spec | None = None, **more: object) -> Object:
    """A PersistentVolumeClaim."""
    spec = {"storageClassName": storage_class, **STORAGE, **more}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def setting() -> Iterator[Object]:
    """Queues, namespaces, classes and volumes."""
    door = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    never: Spec = {"reserveAfter": "Never"}
    small = [{"resource": "gpu", "nominal": 1, "hardLimit": 1, "borrowingLimit": 0}]
    yield queue("root", quotas=[{"resource": "gpu", "nominal": 60}], **door)
    lab = {"parent": "root", "namespaces": [NAMESPACE, MANAGED]}
    yield queue("lab", quotas=[{"resource": "gpu", "nominal": 30}], **lab, **never)
    yield queue("small", parent="root", quotas=small, **door, **never)
    yield queue("shut", parent="root", state="Held", **door)
    yield queue("orphan", parent="absent", **door)
    yield queue("inherits", parent="root")
    patient = [{"resource": "gpu", "nominal": 8}]
    yield queue("patient", parent="root", quotas=patient, reserveAfter="0s", **door)
    for name, labels in ((STRANGERS, {}), (MANAGED, {"gpufleet.io/managed": "true"})):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    yield priority_class("never", {}, preemptionPolicy="Never")
    yield priority_class("protected", {"gpufleet.io/preemptible": "false"})
    yield storage_class("immediate", "example.com/away", "Immediate")
    yield storage_class("late", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
    yield volume_on("old-node")


def queue(name: str, **spec: object) -> Object:
    """A FleetQueue."""
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def priority_class(name: str, labels: Spec, **more: object) -> Object:
    """A PriorityClass above that of other pods."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name, "labels": labels}, "value": 1000, **more}


def storage_class(name: str, provisioner: str, binding: str) -> Object:
    """A StorageClass."""
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**kind, "provisioner": provisioner, "volumeBindingMode": binding}


def volume_on(node: str) -> Object:
    """A volume on a node that there is no more, bound to the claim `elsewhere`."""
    where = {"key": HOSTNAME, "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "local": {"path": "/data"},
        "claimRef": {"namespace": NAMESPACE, "name": "elsewhere"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
    }
    kind = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "elsewhere"}}
    return {**kind, "spec": spec}


def furniture() -> Iterator[Object]:
    """Pods that run."""
    port: Object = {"ports": [{"containerPort": 8080, "hostPort": 8080}]}
    resources: Object = {"resources": {"limits": {GPU: "1", FPGA: "1"}}}
    yield pod("holds-common", 2, COMMON)
    yield pod("holds-full", 2, "full")
    yield share("holds-pieces-0", "0.6", "pieces")
    yield share("holds-pieces-1", "0.6", "pieces")
    yield pod("holds-crowded", 1, "crowded")
    away = relation("podAntiAffinity", "loner")
    yield pod("holds-beside", 1, "beside", labels={"app": "web"}, container=port | resources, affinity=away)
    yield queued("holds-kept", "patient", 1, "kept")


HOLDS_A_RESERVATION = Kind(
    queued("reserved", "patient", 2, "kept", priorityClassName="never"),
    "reserved",
    told="holds a reservation of 1 node",
    why="holds a reservation of 1 node, waits for default/holds-kept to end",
    way_out="it starts there then",
    queues="reserved",
)
"""It comes before all others, which are kept off by its reservation."""
