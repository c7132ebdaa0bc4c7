"""I14: what only the scheduler, an agent or an administrator may write was written by nobody else, and no pod
runs on a GPU that nobody granted.
"""

from collections.abc import Iterator

from gpufleet.auditor import grants, pods
from gpufleet.auditor.doors import QUEUE
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.reading import mapping, rows
from gpufleet.auditor.record import (
    FLEET_QUEUES,
    LEASES,
    NAMESPACES,
    NODE_DEVICES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Document,
    Write,
)
from gpufleet.auditor.rules import Rules
from gpufleet.auditor.world import World

GUARDED = (pods.GRANT, pods.MOVED)
"""Annotations of pods that come with the Binding and stay as they are."""

OF_THE_CLUSTER = frozenset({FLEET_QUEUES, NODE_DEVICES, PRIORITY_CLASSES, NODES})
LEASE = "gpufleet-scheduler"
MANAGED = "gpufleet.io/managed"
DEVICE_VARIABLES = frozenset({"NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES"})
NO_DEVICES = frozenset({"", "void", "none"})
CONTROL_VARIABLES = frozenset(
    {"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_IMEX_CHANNELS"}
)
CDI_PREFIX = "cdi.k8s.io/"


class Access:
    """Who wrote what, and who runs without having been let in."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._said: set[tuple[str, str]] = set()

    def follow(self, write: Write, world: World) -> Iterator[Finding]:
        """What broke with this write."""
        if write.kind == PODS:
            yield from self._keys(write)
            yield from self._running(write, world)
        elif write.user in self._rules.tenants:
            yield from self._by_a_tenant(write, world)

    def _by_a_tenant(self, write: Write, world: World) -> Iterator[Finding]:
        name, user = pods.name(write.latest), write.user
        if write.kind in OF_THE_CLUSTER or (
            write.kind == LEASES and write.latest["metadata"]["name"] == LEASE
        ):
            yield Finding("I14", write.at_s, (name,), f"{user}, a tenant, wrote one of {write.kind}")
        elif write.kind == NAMESPACES:
            before, after = (pods.labels(one) if one else {} for one in (write.before, write.value))
            for key in sorted(key for key in _deciding(world) if before.get(key) != after.get(key)):
                words = f"{user}, a tenant, wrote its label {key}, by which queues let in"
                yield Finding("I14", write.at_s, (name,), words)

    def _keys(self, write: Write) -> Iterator[Finding]:
        """A guarded key appears with the node, by the scheduler, and never changes."""
        pod, before = write.value, write.before
        if pod is None:
            return
        same = before is not None and pods.uid(before) == pods.uid(pod)
        for key in GUARDED:
            now = pods.note(pod, key)
            then = pods.note(before, key) if before is not None and same else None
            if now == then:
                continue
            known = write.user and self._rules.scheduler_users
            if known and write.user not in self._rules.scheduler_users:
                words = f"{key} was written by {write.user}"
            elif not pods.node(pod):
                words = f"{key} is on it before it has a node"
            elif before is not None and same and pods.node(before):
                words = f"{key} was changed after it got its node"
            else:
                continue
            yield Finding("I14", write.at_s, (pods.name(pod),), words)

    def _running(self, write: Write, world: World) -> Iterator[Finding]:
        pod = write.value
        if pod is None or not self._rules.grants_required or not pods.holds(pod):
            return
        if pods.namespace(pod) in self._rules.exempt_namespaces or pods.phase(pod) != "Running":
            return
        found = list(_takes_without_grant(pod, world))
        for words in found:
            if (pods.uid(pod), words) not in self._said:
                self._said.add((pods.uid(pod), words))
                yield Finding("I14", write.at_s, (pods.name(pod), pods.node(pod)), words)


def _takes_without_grant(pod: Document, world: World) -> Iterator[str]:
    """What a running pod has of GPUs that nobody granted."""
    if pods.node(pod) not in world.reports:
        return
    if grants.of_pod(pod) is None and pods.asks_for_gpus(pod):
        yield "it runs and asks for GPUs, and has no grant"
    for container in pods.containers(pod):
        for variable in rows(container, "env"):
            name, value = str(variable.get("name", "")), str(variable.get("value") or "")
            names = "valueFrom" in variable or value not in NO_DEVICES
            if name in CONTROL_VARIABLES or (name in DEVICE_VARIABLES and names):
                said = value or "a reference"
                yield f"its container {container.get('name')} names devices itself by {name}={said}"
    for key in sorted(mapping(pod, "metadata", "annotations")):
        if key.startswith(CDI_PREFIX):
            yield f"its annotation {key} names devices itself"


def _deciding(world: World) -> set[str]:
    """Labels of namespaces that decide about queues: ours, and those by which any queue selects."""
    found = {QUEUE, MANAGED}
    for queue in world.all(FLEET_QUEUES).values():
        found.update(mapping(queue, "spec", "namespaceSelector", "matchLabels"))
        terms = rows(queue, "spec", "namespaceSelector", "matchExpressions")
        found.update(str(one.get("key")) for one in terms)
    return found
