"""What a pod that asks for a GPU lacks, and how it is completed: the policies' work for servers without them.

The same steps as ``kube/manifests/pod-completion.yaml``, for the webhook to send on a server before
Kubernetes 1.36. The scheduler looks at every pod again, so a pod that came past both waits with a reason and
is not placed wrongly.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gpufleet.kube import keys
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.shared_memory import fitting_size
from gpufleet.lint.rules.shared_memory import PLACE, VOLUME
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.json_values import node_of
from gpufleet.model.resource_names import NVIDIA_GPU

Body = dict[str, Any]
Patch = list[Body]
DEFAULT_SCHEDULER = "default-scheduler"
_HAMI = (keys.HAMI_MEMORY, keys.HAMI_MEMORY_PERCENT, keys.HAMI_CORES)
_DESCRIBING = (keys.GPU_FRACTION, keys.GPU_MEMORY, keys.KAI_FRACTION, keys.KAI_MEMORY)


class Completion(msgspec.Struct, frozen=True):
    """What is added. ``runtime_class`` is empty where containers get their GPUs without one."""

    scheduler_name: str = keys.SCHEDULER_NAME
    runtime_class: str = ""
    shared_memory: bool = False
    device_tolerations: bool = False


def completing_patch(pod: Mapping[str, Any], completion: Completion) -> Patch:
    """The patch of a pod, as JSON Patch; empty where nothing is lacking or no GPU is asked for."""
    lacking = _Lacking(pod)
    if not lacking.asks:
        return []
    return [
        *lacking.scheduler(completion.scheduler_name),
        *lacking.tolerations(devices=completion.device_tolerations),
        *lacking.slots(),
        *(lacking.runtime_class(completion.runtime_class) if completion.runtime_class else ()),
        *(lacking.memory() if completion.shared_memory else ()),
    ]


class _Lacking:
    """A pod, and what it lacks step by step."""

    def __init__(self, pod: Mapping[str, Any]) -> None:
        self._spec: Body = pod.get("spec") or {}
        metadata: Body = pod.get("metadata") or {}
        self._annotations: Body = metadata.get("annotations") or {}
        self._containers: list[Body] = self._spec.get("containers") or []
        self._limits: list[Body] = [_limits(one) for one in self._containers]
        self._template = PodTemplate(Field(node_of(metadata)), Field(node_of(self._spec)))
        every = [*self._limits, *map(_limits, self._spec.get("initContainers") or [])]
        self._slotted = any(keys.GPU_SHARE in one for one in every)
        self._described = any(key in self._annotations for key in _DESCRIBING)
        self.asks = self._template.asks_for_gpu

    def scheduler(self, name: str) -> Iterator[Body]:
        if self._spec.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER:
            yield {"op": "add", "path": "/spec/schedulerName", "value": name}

    def tolerations(self, *, devices: bool) -> Iterator[Body]:
        known = self._spec.get("tolerations") or []
        wanted: list[Body] = [{"key": keys.SHARED_POOL_TAINT, "operator": "Exists"}]
        if devices:
            names = sorted({name for one in self._template.all_containers for name in one.gpu_names})
            wanted += [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in names]
        there = {one.get("key", "") for one in known}
        added = [one for one in wanted if one["key"] not in there]
        if added and not known:
            yield {"op": "add", "path": "/spec/tolerations", "value": added}
        elif added:
            yield from ({"op": "add", "path": "/spec/tolerations/-", "value": one} for one in added)

    def slots(self) -> Iterator[Body]:
        """What the kubelet counts for a share, beside the words that ask for it."""
        if self._slotted:
            return
        hami = [index for index, one in enumerate(self._limits) if _is_hami(one)]
        volcano = [index for index, one in enumerate(self._limits) if keys.VOLCANO_NUMBER in one]
        for index in hami:
            yield _slot(index, self._containers[index], self._limits[index][NVIDIA_GPU])
            yield {"op": "remove", "path": f"{_at(index)}/limits/{_escaped(NVIDIA_GPU)}"}
            if NVIDIA_GPU in ((self._containers[index].get("resources") or {}).get("requests") or {}):
                yield {"op": "remove", "path": f"{_at(index)}/requests/{_escaped(NVIDIA_GPU)}"}
        for index in volcano:
            yield _slot(index, self._containers[index], self._limits[index][keys.VOLCANO_NUMBER])
        if self._described and not hami and not volcano:
            yield from self._described_slot()

    def _described_slot(self) -> Iterator[Body]:
        devices = str(self._annotations.get(keys.KAI_DEVICES, "1"))
        names = [one.get("name") for one in self._containers]
        user = self._annotations.get(keys.KAI_CONTAINER)
        index = 0 if user is None else names.index(user) if user in names else -1
        is_count = devices.isascii() and devices.isdecimal() and devices[:1] != "0" and len(devices) <= 6
        if 0 <= index < len(names) and is_count:
            yield _slot(index, self._containers[index], devices)

    def runtime_class(self, name: str) -> Iterator[Body]:
        if not self._spec.get("runtimeClassName"):
            yield {"op": "add", "path": "/spec/runtimeClassName", "value": name}

    def memory(self) -> Iterator[Body]:
        """Memory at /dev/shm of containers with several GPUs, as lint would mend it."""
        lacking = [
            (index, one)
            for index, one in enumerate(self._template.containers[: len(self._containers)])
            if one.device_count > 1 and all(mount.path not in {PLACE, "/dev"} for mount in one.mounts)
        ]
        names = {volume.name for volume in self._template.volumes}
        if not lacking or VOLUME in names or self._spec.get("hostIPC"):
            return
        size = fitting_size([one for _, one in lacking])
        volume = {"name": VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        yield _appended("/spec/volumes", self._spec.get("volumes"), volume)
        for index, _ in lacking:
            mounts = self._containers[index].get("volumeMounts")
            mount = {"name": VOLUME, "mountPath": PLACE}
            yield _appended(f"/spec/containers/{index}/volumeMounts", mounts, mount)


def _limits(container: Mapping[str, Any]) -> Body:
    return (container.get("resources") or {}).get("limits") or {}


def _is_hami(limits: Mapping[str, Any]) -> bool:
    return NVIDIA_GPU in limits and any(key in limits for key in _HAMI)


def _at(index: int) -> str:
    return f"/spec/containers/{index}/resources"


def _slot(index: int, container: Mapping[str, Any], count: object) -> Body:
    if container.get("resources") is None:
        return {"op": "add", "path": _at(index), "value": {"limits": {keys.GPU_SHARE: str(count)}}}
    if not _limits(container):
        return {"op": "add", "path": f"{_at(index)}/limits", "value": {keys.GPU_SHARE: str(count)}}
    return {"op": "add", "path": f"{_at(index)}/limits/{_escaped(keys.GPU_SHARE)}", "value": str(count)}


def _appended(path: str, known: object, value: Body) -> Body:
    """An item at the end of a list, which may not be there."""
    if known:
        return {"op": "add", "path": f"{path}/-", "value": value}
    return {"op": "add", "path": path, "value": [value]}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
