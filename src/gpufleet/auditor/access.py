"""I14: what only the scheduler, an agent or an administrator may write was written by no other user, and no
pod runs on a GPU without a grant.
"""

from collections.abc import Iterator

from gpufleet.auditor import grants, pods, queue_access
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.queue_access import QUEUE
from gpufleet.auditor.reading import mapping, rows, section
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
OF_NAMESPACES = (QUEUE, "gpufleet.io/managed", "gpufleet.io/device-access")
"""Labels by which a namespace is treated otherwise."""

NVIDIA = "nvidia.com/"
NVIDIA_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
OTHER_VARIABLES = frozenset(
    {
        "AMD_VISIBLE_DEVICES",
        "HABANA_VISIBLE_DEVICES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
    }
)
NO_DEVICES = frozenset({"", "void", "none"})
CDI_PREFIX = "cdi.k8s.io/"


class Access:
    """Judges which user wrote what, and which pods run without having been let in."""

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
            for words in _decided(write, world):
                yield Finding("I14", write.at_s, (name,), f"{user}, a tenant, {words}")

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
            # Where users are not told, only the moment at which a key appears is judged.
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
    """The GPUs that a running pod has without a grant."""
    if pods.node(pod) not in world.reports:
        return
    if grants.of_pod(pod) is None and pods.asks_for_gpus(pod):
        yield "it runs and asks for GPUs, and has no grant"
    granted = grants.of_pod(pod) is not None
    for container in pods.containers(pod):
        # What a container was granted comes after what it says itself, and takes its place.
        overruled = granted and any(one.startswith(NVIDIA) for one in pods.requested(container))
        for variable in rows(container, "env"):
            name, value = str(variable.get("name", "")), str(variable.get("value") or "")
            names = "valueFrom" in variable or value not in NO_DEVICES
            of_nvidia = name == NVIDIA_VARIABLE and names and not overruled
            if of_nvidia or (name in OTHER_VARIABLES and names):
                said = value or "a reference"
                yield f"its container {container.get('name')} names devices itself by {name}={said}"
    for key in sorted(mapping(pod, "metadata", "annotations")):
        if key.startswith(CDI_PREFIX):
            yield f"its annotation {key} names devices itself"


def _decided(write: Write, world: World) -> Iterator[str]:
    """What a write of a Namespace changed of where its work may go: our labels, and what queues select by."""
    space = pods.name(write.latest)
    before, after = (pods.labels(one) if one is not None else {} for one in (write.before, write.value))
    for key in OF_NAMESPACES:
        if before.get(key) != after.get(key):
            yield f"wrote its label {key}"
    for name, queue in sorted(world.all(FLEET_QUEUES).items()):
        selector = section(queue, "spec", "namespaceSelector")
        then, now = (
            queue_access.selects(selector, queue_access.with_name(space, one)) for one in (before, after)
        )
        if selector and then != now:
            yield f"changed by its labels whether queue {name} selects it"
