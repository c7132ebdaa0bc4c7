"""In which queue GPU work waits, by words on its pods, its object or its namespace, and which scheduler reads
them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.kube import keys
from gpufleet.kube.meanings.queue_names import named_queue
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field

KUEUE_GROUP = "kueue.x-k8s.io"
DEFAULT_QUEUE = "default"
"""Our queue for work that names none; it need not be described."""

# Where jobs of Kubernetes and of Kubeflow say that they wait to be let in.
_SUSPENDS = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))


@dataclass(frozen=True)
class Waiting:
    """Work that has not started, and the queue ``name`` that it names by ``key``."""

    workload: Workload
    key: str
    name: str

    @property
    def namespace(self) -> str:
        """The namespace of the work."""
        return self.workload.manifest.namespace

    @property
    def is_ours(self) -> bool:
        """Whether our scheduler reads the name."""
        return any(
            one.spec.text_at("schedulerName") == keys.SCHEDULER_NAME
            for one in self.workload.manifest.templates
        ) or any(one.scheduler == keys.SCHEDULER_NAME for one in self.workload.pods)

    @property
    def is_kueues(self) -> bool:
        """Whether Kueue reads the name."""
        return self.key == keys.KUEUE_QUEUE and not self.is_ours

    @property
    def affects(self) -> frozenset[str]:
        """The titles of the objects that suffer."""
        return self.workload.affects


def waiting_in_queues(facts: Facts) -> tuple[Waiting, ...]:
    """GPU work that waits and names a queue."""
    return facts.once(_waiting_in_queues)


def _waiting_in_queues(facts: Facts) -> tuple[Waiting, ...]:
    waits = [
        one for one in facts.gpu_workloads if is_suspended(one.manifest) or any(pod.waits for pod in one.pods)
    ]
    return tuple(Waiting(one, *named) for one in waits if (named := _named(facts, one)))


def is_suspended(manifest: Manifest) -> bool:
    """Whether the job was told not to start."""
    return any(manifest.root.text_at(*path) == "true" for path in _SUSPENDS)


def _named(facts: Facts, workload: Workload) -> tuple[str, str] | None:
    for place in _places(workload):
        said = named_queue(place.texts_at("labels"), place.texts_at("annotations"))
        if said is not None:
            return said
    namespace = facts.find("Namespace", "", workload.manifest.namespace)
    text = namespace.root.text_at("metadata", "labels", keys.QUEUE) if namespace is not None else None
    return None if text is None else (keys.QUEUE, text)


def _places(workload: Workload) -> Iterator[Field]:
    yield from (one.root.at("metadata") for one in workload.pods[:1])
    yield from (one.metadata for one in workload.manifest.templates)
    yield workload.manifest.root.at("metadata")


@dataclass(frozen=True)
class Queues:
    """The queues of a cluster, by the names that work has for them."""

    facts: Facts

    @cached_property
    def _fleet(self) -> dict[tuple[str, str], Manifest]:
        """FleetQueues by the namespace and the name of their local queues, and by "" and their own names."""
        queues = self.facts.of_kind("FleetQueue")
        own = {("", one.name): one for one in queues}
        local = {
            (each.text_at("namespace") or "", each.text_at("name") or ""): one
            for one in reversed(queues)
            for each in one.root.at("spec", "localQueues").items()
        }
        return own | local

    @property
    def are_ours(self) -> bool:
        """Whether any FleetQueue is described: our scheduler has no queues otherwise."""
        return bool(self.facts.of_kind("FleetQueue"))

    def fleet_queue(self, one: Waiting) -> Manifest | None:
        """The FleetQueue that work names, by a name that it has in the namespace or by its own."""
        return self._fleet.get((one.namespace, one.name)) or self._fleet.get(("", one.name))

    def local_queue(self, one: Waiting) -> Manifest | None:
        """The LocalQueue of Kueue that work names."""
        return self.facts.find("LocalQueue", one.namespace, one.name)

    def cluster_queue(self, one: Waiting) -> Manifest | None:
        """The ClusterQueue of Kueue in which work waits."""
        local = self.local_queue(one)
        return None if local is None else self.facts.find("ClusterQueue", "", clusters_name(local))


def clusters_name(local: Manifest) -> str:
    """The ClusterQueue that a LocalQueue names."""
    return local.root.text_at("spec", "clusterQueue") or ""
