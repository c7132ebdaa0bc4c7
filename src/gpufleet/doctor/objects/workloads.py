"""What people run in a cluster: each object that makes pods and has no owner itself, with its pods.

A Deployment is one workload, and neither its ReplicaSets nor its pods are others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpufleet.doctor.objects.pods import PodView
from gpufleet.lint.objects.manifest import Manifest

# Types of conditions with which jobs of several projects say that they are over.
_DONE = frozenset({"Complete", "Failed", "Succeeded", "Finished", "Completed"})


@dataclass(frozen=True)
class Workload:
    """A workload and its pods, those that ended left out."""

    manifest: Manifest
    pods: tuple[PodView, ...]

    @property
    def title(self) -> str:
        """How people name it."""
        return self.manifest.title

    @property
    def uses_gpu(self) -> bool:
        """Whether its pods run on GPUs."""
        return any(one.uses_gpu for one in self.manifest.templates)

    @property
    def asks_for_gpu(self) -> bool:
        """Whether its pods are to be given GPUs."""
        return any(one.asks_for_gpu for one in self.manifest.templates)

    @property
    def is_infrastructure(self) -> bool:
        """Whether it is a part of the GPU stack itself."""
        return any(one.is_gpu_infrastructure for one in self.manifest.templates)

    @property
    def affects(self) -> frozenset[str]:
        """The workload's pods that wait, and the workload itself."""
        return frozenset({self.title, *(one.title for one in self.pods if not one.is_ready)})


def workload_titles(objects: Iterable[Manifest]) -> dict[str, str]:
    """For each object that makes pods, or is one, the title of the workload that it is a part of."""
    makers = [one for one in objects if one.templates]
    by_key = {(one.kind, one.namespace, one.name): one for one in makers}
    return {one.title: _root(one, by_key).title for one in makers}


def workloads_of(objects: Iterable[Manifest], pods: Iterable[PodView]) -> tuple[Workload, ...]:
    """Each workload that has not ended."""
    makers = [one for one in objects if one.templates]
    by_key = {(one.kind, one.namespace, one.name): one for one in makers}
    below: dict[int, list[PodView]] = {}
    for pod in pods:
        if not pod.has_ended:
            below.setdefault(id(_root(pod.manifest, by_key)), []).append(pod)
    return tuple(
        Workload(one, tuple(below.get(id(one), ())))
        for one in makers
        if _root(one, by_key) is one and not _has_ended(one)
    )


def _root(manifest: Manifest, by_key: dict[tuple[str, str, str], Manifest]) -> Manifest:
    """The outermost object that made this one, as far as it is among those that were listed."""
    for _ in range(10):  # chains of owners are shorter, and a circle ends here too
        above = next((by_key[key] for key in _makers(manifest) if key in by_key), None)
        if above is None:
            return manifest
        manifest = above
    return manifest


def _makers(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    for one in manifest.root.at("metadata", "ownerReferences").items():
        if one.at("controller").is_true:
            yield one.at("kind").text or "", manifest.namespace, one.at("name").text or ""


def _has_ended(manifest: Manifest) -> bool:
    status = manifest.root.at("status")
    if manifest.kind == "Pod":
        return status.at("phase").text in {"Succeeded", "Failed"}
    return any(
        one.at("type").text in _DONE and one.at("status").text == "True"
        for one in status.at("conditions").items()
    )
