"""What a pod that asks for a GPU lacks, and how it is completed: the policies' work in Python.

The webhook sends it on a server before Kubernetes 1.36, plans show it, and ``whatif`` asks where the pod
that comes of it would run. ``admission.cel.completion`` makes the policies from the same data, and
``tests/admission/test_same_completion.py`` holds both together on a real API server. Slots come first, and
the rest sees them. The scheduler looks at every pod again, so a pod that came past both waits with a reason
and is not placed wrongly.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from gpufleet.completion.additions import (
    DEFAULT_SCHEDULER,
    HAMI,
    OTHER_SHARES,
    OUR_SHARES,
    SLOT_COUNT,
    TAINT_EFFECT,
    Addition,
    Completion,
    is_served,
)
from gpufleet.completion.json_patch import Body, escaped, patched_copy
from gpufleet.kube import keys
from gpufleet.kube.meanings.gpu_resources import is_device
from gpufleet.kube.meanings.shares import says_share
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.shared_memory import fitting_size
from gpufleet.lint.rules.shared_memory import PLACE, VOLUME
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.json_values import node_of
from gpufleet.model.resource_names import NVIDIA_GPU

Patch = list[Body]
SECOND_VOLUME = f"gpu-{VOLUME}"
"""Where the pod has a volume of the first name for something else."""

COVERS = frozenset({PLACE, "/dev"})
"""What is mounted here decides about /dev/shm."""


def completing_patch(pod: Mapping[str, Any], completion: Completion) -> Patch:
    """The patch of a pod, as JSON Patch; empty where nothing is lacking or no GPU is asked for."""
    found: Patch = []
    body: Body = dict(pod)
    lacking = _Lacking(body, completion)
    if not lacking.asks:
        return []
    for addition, make in ADDITIONS.items():
        if completion.makes(addition) and (step := list(make(lacking))):
            body = patched_copy(body, step)
            lacking = _Lacking(body, completion)
            found += step
    return found


class _Lacking:
    """A pod, and what it lacks step by step."""

    def __init__(self, pod: Body, completion: Completion) -> None:
        self._completion = completion
        self._spec: Body = pod.get("spec") or {}
        metadata: Body = pod.get("metadata") or {}
        self._annotations: Body = metadata.get("annotations") or {}
        self._labels: Body = metadata.get("labels") or {}
        self._containers: list[Body] = self._spec.get("containers") or []
        self._limits: list[Body] = [_limits(one) for one in self._containers]
        self._template = PodTemplate(Field(node_of(metadata)), Field(node_of(self._spec)))
        every = [*self._limits, *map(_limits, self._spec.get("initContainers") or [])]
        self._slotted = any(keys.GPU_SHARE in one for one in every)
        self._described = any(one in self._annotations or one in self._labels for one in OUR_SHARES)
        self._described |= any(one in self._annotations for one in OTHER_SHARES)
        self._hami = [index for index, one in enumerate(self._limits) if _is_hami(one)]
        self._volcano = [index for index, one in enumerate(self._limits) if keys.VOLCANO_NUMBER in one]

    @cached_property
    def asks(self) -> bool:
        """Whether the pod asks for a GPU of ours, and is one that the API server may still change."""
        # The kubelet makes a mirror pod of a file on its node; a change in the API would not reach its
        # containers.
        if keys.MIRROR in self._annotations:
            return False
        template = self._template
        has_gpu = any(is_served(name) for one in template.all_containers for name in one.gpu_names)
        return has_gpu or says_share(template.labels, template.annotations)

    def scheduler(self) -> Iterator[Body]:
        if self._spec.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER:
            value = self._completion.scheduler_name
            yield {"op": "add", "path": "/spec/schedulerName", "value": value}

    def shared_toleration(self) -> Iterator[Body]:
        yield from self._tolerations([{"key": keys.SHARED_POOL_TAINT, "operator": "Exists"}])

    def pool_tolerations(self) -> Iterator[Body]:
        taints = self._completion.pool_taints
        yield from self._tolerations(
            [{"key": one, "operator": "Exists", "effect": TAINT_EFFECT} for one in taints]
        )

    def _tolerations(self, wanted: list[Body]) -> Iterator[Body]:
        known = self._spec.get("tolerations") or []
        there = {one.get("key", "") for one in known}
        # A toleration without a key is one of every taint.
        added = [one for one in wanted if there.isdisjoint({one["key"], ""})]
        if added and not known:
            yield {"op": "add", "path": "/spec/tolerations", "value": added}
        elif added:
            yield from ({"op": "add", "path": "/spec/tolerations/-", "value": one} for one in added)

    def described_slot(self) -> Iterator[Body]:
        """What the kubelet counts for a share, beside the words that ask for it."""
        if not self._described or self._slotted or self._hami or self._volcano:
            return
        devices = str(self._annotations.get(keys.KAI_DEVICES, "1"))
        names = [one.get("name") for one in self._containers]
        user = self._annotations.get(keys.KAI_CONTAINER)
        # An annotation may name the container that gets the share; without it that is the first one.
        index = 0 if user is None else names.index(user) if user in names else -1
        if 0 <= index < len(names) and SLOT_COUNT.fullmatch(devices):
            yield _slot(index, self._containers[index], devices)

    def hami_slots(self) -> Iterator[Body]:
        for index in [] if self._slotted else self._hami:
            yield _slot(index, self._containers[index], self._limits[index][NVIDIA_GPU])
            # Left there, it would have the kubelet give whole GPUs beside the share.
            yield {"op": "remove", "path": f"{_at(index)}/limits/{escaped(NVIDIA_GPU)}"}
            if NVIDIA_GPU in ((self._containers[index].get("resources") or {}).get("requests") or {}):
                yield {"op": "remove", "path": f"{_at(index)}/requests/{escaped(NVIDIA_GPU)}"}

    def volcano_slots(self) -> Iterator[Body]:
        for index in [] if self._slotted or self._hami else self._volcano:
            yield _slot(index, self._containers[index], self._limits[index][keys.VOLCANO_NUMBER])

    def runtime_class(self) -> Iterator[Body]:
        known = self._completion.runtime_class
        # Kubernetes adds the overhead of a class before webhooks and policies are asked, and refuses a pod
        # that names the class without it.
        if known is None or known.has_overhead or self._spec.get("runtimeClassName"):
            return
        selected = self._spec.get("nodeSelector") or {}
        if all(selected.get(key, value) == value for key, value in known.node_selector.items()):
            yield {"op": "add", "path": "/spec/runtimeClassName", "value": known.name}

    def memory(self) -> Iterator[Body]:
        """Memory at /dev/shm of containers with several GPUs, as lint would mend it."""
        containers = self._template.containers[: len(self._containers)]
        lacking = [
            (index, one)
            for index, one in enumerate(containers)
            if _has_several(one) and all(mount.path not in COVERS for mount in one.mounts)
        ]
        names = {volume.name for volume in self._template.volumes}
        name = SECOND_VOLUME if VOLUME in names else VOLUME
        # With hostIPC the containers have the shared memory of the node.
        if not lacking or name in names or self._spec.get("hostIPC"):
            return
        size = fitting_size([one for _, one in lacking])
        volume = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        yield _appended("/spec/volumes", self._spec.get("volumes"), volume)
        for index, _ in lacking:
            mounts = self._containers[index].get("volumeMounts")
            mount = {"name": name, "mountPath": PLACE}
            yield _appended(f"/spec/containers/{index}/volumeMounts", mounts, mount)


ADDITIONS: dict[Addition, Callable[[_Lacking], Iterator[Body]]] = {
    Addition.SHARE_SLOT: _Lacking.described_slot,
    Addition.HAMI_SLOTS: _Lacking.hami_slots,
    Addition.VOLCANO_SLOTS: _Lacking.volcano_slots,
    Addition.SCHEDULER_NAME: _Lacking.scheduler,
    Addition.SHARED_TOLERATION: _Lacking.shared_toleration,
    Addition.POOL_TOLERATIONS: _Lacking.pool_tolerations,
    Addition.RUNTIME_CLASS: _Lacking.runtime_class,
    Addition.SHARED_MEMORY: _Lacking.memory,
}
"""How each addition is made, slots first: what comes later counts them."""


def _has_several(container: Container) -> bool:
    """Whether it has two or more devices of one kind, which work together."""
    asked = (
        amount((container.limits.get(name) or container.requests[name]).text)
        for name in container.gpu_names
        if is_device(name)
    )
    return any(one is not None and one.value() > 1 for one in asked)


def _limits(container: Mapping[str, Any]) -> Body:
    # A field may be null, which Kubernetes takes for absent.
    return (container.get("resources") or {}).get("limits") or {}


def _is_hami(limits: Mapping[str, Any]) -> bool:
    return NVIDIA_GPU in limits and any(key in limits for key in HAMI)


def _at(index: int) -> str:
    return f"/spec/containers/{index}/resources"


def _slot(index: int, container: Mapping[str, Any], count: object) -> Body:
    if container.get("resources") is None:
        return {"op": "add", "path": _at(index), "value": {"limits": {keys.GPU_SHARE: str(count)}}}
    if not _limits(container):
        return {"op": "add", "path": f"{_at(index)}/limits", "value": {keys.GPU_SHARE: str(count)}}
    return {"op": "add", "path": f"{_at(index)}/limits/{escaped(keys.GPU_SHARE)}", "value": str(count)}


def _appended(path: str, known: object, value: Body) -> Body:
    """An item at the end of a list, which may not be there."""
    if known:
        return {"op": "add", "path": f"{path}/-", "value": value}
    return {"op": "add", "path": path, "value": [value]}
