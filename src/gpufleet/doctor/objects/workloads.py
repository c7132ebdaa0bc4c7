"""What people run in a cluster: each object that makes pods and has no owner itself, with its pods.

A Deployment is one workload, and neither its ReplicaSets nor its pods are others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpufleet.doctor.objects.pods import PodView
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.worked_out_once import worked_out_once

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

    @worked_out_once
    def uses_gpu(self) -> bool:
        """Whether its pods run on GPUs."""
        return any(one.uses_gpu for one in self.manifest.templates)

    @worked_out_once
    def asks_for_gpu(self) -> bool:
        """Whether its pods are to be given GPUs."""
        return any(one.asks_for_gpu for one in self.manifest.templates)

    @worked_out_once
    def is_infrastructure(self) -> bool:
        """Whether it is a part of the GPU stack itself."""
        return any(one.is_gpu_infrastructure for one in self.manifest.templates)

    @worked_out_once
    def affects(self) -> frozenset[str]:
        """The workload's pods that wait, and the workload itself."""
        return frozenset({self.title, *(one.title for one in self.pods if not one.is_ready)})


class OwnerChains:
    """The objects that make pods, or are pods, and what made each of them."""

    def __init__(self, objects: Iterable[Manifest]) -> None:
        self.makers = tuple(one for one in objects if one.templates)
        self._by_key = {(one.kind, one.namespace, one.name): one for one in self.makers}
        # Thousands of pods have the same few owners: what made each object is sought once.
        self._above = {id(one): self._sought(one) for one in self.makers}
        self._roots = {id(one): self._outermost(one) for one in self.makers}

    def _sought(self, manifest: Manifest) -> Manifest | None:
        return next((self._by_key[key] for key in _makers(manifest) if key in self._by_key), None)

    def root(self, manifest: Manifest) -> Manifest:
        """The outermost object that made this one, as far as it is among those that were listed."""
        return self._roots[id(manifest)]

    def _outermost(self, manifest: Manifest) -> Manifest:
        for _ in range(10):  # chains of owners are shorter, and a circle ends here too
            above = self._above[id(manifest)]
            if above is None:
                return manifest
            manifest = above
        return manifest

    def titles(self) -> dict[str, str]:
        """For each object the title of the workload that it is a part of."""
        return {one.title: self.root(one).title for one in self.makers}

    def workloads(self, pods: Iterable[PodView]) -> tuple[Workload, ...]:
        """Each workload that has not ended, with its pods."""
        below: dict[int, list[PodView]] = {}
        for pod in pods:
            if not pod.has_ended:
                below.setdefault(id(self.root(pod.manifest)), []).append(pod)
        return tuple(
            Workload(one, tuple(below.get(id(one), ())))
            for one in self.makers
            if self.root(one) is one and not _has_ended(one)
        )


def _makers(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    for one in manifest.root.items_at("metadata", "ownerReferences"):
        if one.text_at("controller") == "true":
            yield one.text_at("kind") or "", manifest.namespace, one.text_at("name") or ""


def _has_ended(manifest: Manifest) -> bool:
    if manifest.kind == "Pod":
        return manifest.root.text_at("status", "phase") in {"Succeeded", "Failed"}
    return any(
        one.text_at("type") in _DONE and one.text_at("status") == "True"
        for one in manifest.root.items_at("status", "conditions")
    )
