"""A picture of the cluster, read with the scheduler's own trackers.

Every object goes through the same codecs and the same engine_events as in the live scheduler, so what
is held back there is held back here, for the same reason. The engine is not needed for that;
``judgement`` hands it the events.
"""

from collections.abc import Sequence

from gpufleet.cluster.engine_events import NODE_KINDS, EngineEvents, Unobserved
from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.dependencies import Dependencies
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.cluster.pods.pod_reader import PodReader
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.change_queue import ChangeQueue, Seen
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.event import Event
from gpufleet.kube import resources
from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.codec.gangs import read_membership
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.mirror_changes import Appeared, Unreadable
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.model_errors import printable


class Facts:
    """The trackers as a scheduler with these settings would have them, and what it would tell its engine."""

    def __init__(self, picture: Picture, settings: Settings, clock: Clock) -> None:
        self.picture = picture
        self.settings = settings
        self.clock = clock
        self.gangs = GangTracker(settings.gang_deadline_s, settings.stale_gang_s)
        dependencies = Dependencies()
        reader = PodReader(picture, dependencies, self.gangs)
        self.pods = PodTracker(settings.scheduler_name, reader, self.gangs)
        self.pods.holders.evict_memory_offenders = settings.evict_memory_offenders
        self.nodes = NodeTracker(picture)
        self._engine_events = EngineEvents(
            picture, ChangeQueue(), dependencies, self.nodes, self.pods, self.gangs, clock, Unobserved()
        )
        first = self._engine_events.take(picture.seen())
        self.waves: list[list[Event]] = [first, *self._engine_events.waves()]

    def appeared(self, seen: Sequence[Seen]) -> list[Event]:
        """Take in objects that came after the picture. Returns what the engine is to hear of them."""
        for kind, change in seen:
            if isinstance(change, Appeared):
                metadata = change.object.metadata
                self.picture.objects.setdefault(kind, {})[metadata.namespace, metadata.name] = change.object
        return self._engine_events.take(list(seen))

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it was listed."""
        found: Pod | None = self.picture.find(resources.PODS, name, namespace)
        return found

    def entry(self, pod: Pod) -> Entry | None:
        """Where the scheduler's tracker has the pod; None if it is no business of a scheduler's."""
        return self.pods.entries.get(PodUid(pod.metadata.uid))

    def unreadable(self, namespace: str, name: str) -> str:
        """Why a pod cannot be read at all, "" if it can or is not there."""
        for kind, change in self.picture.unreadable:
            if kind == resources.PODS and isinstance(change, Unreadable):
                if (change.namespace, change.name) == (namespace, name):
                    return change.problem
        return ""

    def unreadable_nodes(self) -> dict[str, str]:
        """Nodes that nothing can be placed on because one of their objects cannot be read, and why."""
        found = {str(name): problem for name, problem in self.nodes.problems.items()}
        for kind, change in self.picture.unreadable:
            if kind in NODE_KINDS and kind != resources.NODE_DEVICES and isinstance(change, Unreadable):
                found[change.name] = f"{kind.name} {harmless(change.name)}: {printable(change.problem)}"
        return found

    def unread_reports(self) -> dict[str, str]:
        """Nodes that get no work with GPUs because their report of them cannot be read, and why."""
        return {str(name): problem for name, problem in self.nodes.unread_reports.items()}

    def names(self, namespace: str) -> list[str]:
        """The names of a namespace's pods."""
        return [key[1] for key in self.picture.objects.get(resources.PODS, {}) if key[0] == namespace]

    def gang_of(self, pod: Pod) -> GangName | None:
        """The gang that a pod was bound in, else says it belongs to; None if it stands alone."""
        entry = self.entry(pod)
        if entry is not None and entry.terms is not None and entry.meaning is not None:
            return entry.meaning.gang
        membership = self.membership(pod)
        return None if membership is None else membership.gang

    def membership(self, pod: Pod) -> Membership | None:
        """What a pod says of its gang; None if it stands alone or cannot say it."""
        try:
            found = read_membership(pod, self.picture)
        except ObjectError:
            return None
        return found if isinstance(found, Membership) else None

    def members(self, gang: GangName) -> list[Pod]:
        """All pods that say they belong to a gang, whatever state they are in."""
        namespace = gang.split("/")[1]
        pods = [pod for pod in self.picture.all(resources.PODS) if pod.metadata.namespace == namespace]
        return [pod for pod in pods if self.gang_of(pod) == gang]
