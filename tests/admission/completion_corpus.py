"""Pods for completion: those that lint is tried on, and varied ones that ask for GPUs in all notations."""

import random
from collections.abc import Iterator
from typing import Any

from tests.admission.lint_corpus import objects

Object = dict[str, Any]
VARIED = 400
"""Enough that each notation meets each other one, and each field that an addition looks at."""

_AMOUNTS: list[Object] = [
    {},
    {"cpu": "1"},
    {"nvidia.com/gpu": "1"},
    {"nvidia.com/gpu": "4", "memory": "32Gi"},
    {"nvidia.com/gpu": "2", "memory": "12Gi"},
    {"nvidia.com/gpu": "2", "memory": "3G"},
    {"nvidia.com/gpu": "2", "memory": "1500m"},
    {"nvidia.com/gpu": "2", "memory": "1"},
    {"nvidia.com/gpu": "2", "memory": "700Ki"},
    {"nvidia.com/gpu": "0"},
    {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4000"},
    {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"},
    {"nvidia.com/gpumem-percentage": "50"},
    {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"},
    {"volcano.sh/vgpu-number": "2"},
    {"gpufleet.io/gpu-share": "1"},
    {"gpufleet.io/gpu-share": "3"},
    {"nvidia.com/mig-1g.10gb": "1"},
    {"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-2g.20gb": "1"},
    {"nvidia.com/gpu.shared": "2"},
    {"amd.com/gpu": "8", "memory": "64Gi"},
    {"gpu.intel.com/i915": "1"},
    {"example.com/gpu": "1"},
]
_TOLERATIONS: list[Object] = [
    {"key": "gpufleet.io/shared", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
    {"key": "disk", "operator": "Exists"},
    {"operator": "Exists"},
]
_VOLUMES: list[Object] = [
    {"name": "dshm", "emptyDir": {"medium": "Memory"}},
    {"name": "gpu-dshm", "emptyDir": {}},
    {"name": "data", "emptyDir": {}},
]
_MOUNTS: list[Object] = [
    {"name": "data", "mountPath": "/dev/shm"},  # noqa: S108
    {"name": "data", "mountPath": "/dev/shm/"},  # noqa: S108
    {"name": "data", "mountPath": "/dev"},
    {"name": "data", "mountPath": "/data"},
]
_NOTES: list[Object] = [
    {"gpufleet.io/gpu-fraction": "0.5"},
    {"gpufleet.io/gpu-memory": "4Gi"},
    {"gpu-fraction": "0.5"},
    {"gpu-memory": "4000", "gpu-fraction-num-devices": "2"},
    {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"},
    {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1234567"},
    {"gpu-fraction": "0.5", "gpu-fraction-container-name": "c1"},
    {"gpu-fraction": "0.5", "gpu-fraction-container-name": "nowhere"},
]


def pods() -> Iterator[tuple[str, Object, Object]]:
    """Every pod of the corpus: its name, metadata and spec."""
    for name, _, templates in objects():
        for one in templates:
            yield name, one["metadata"], one["spec"]
    chance = random.Random(205)
    for number in range(VARIED):
        yield f"varied {number}", _metadata(chance), _spec(chance)


def _some(chance: random.Random, of: list[Object], most: int) -> list[Object]:
    return chance.sample(of, chance.randrange(most + 1))


def _metadata(chance: random.Random) -> Object:
    found: Object = {}
    if chance.random() < 0.4:
        found["annotations"] = dict(chance.choice(_NOTES))
    if chance.random() < 0.1:
        found["labels"] = {"gpufleet.io/gpu-fraction": "0.5"}
    return found


def _spec(chance: random.Random) -> Object:
    found: Object = {"containers": [_container(chance, number) for number in range(chance.randrange(1, 4))]}
    if chance.random() < 0.3:
        found["initContainers"] = [_container(chance, 9)]
        if chance.random() < 0.5:
            found["initContainers"][0]["restartPolicy"] = "Always"
    if chance.random() < 0.6:
        # A mount of a volume that is not there is refused, so one of them is always there.
        found["volumes"] = [_VOLUMES[2], *_some(chance, _VOLUMES[:2], 2)]
    else:
        found["volumes"] = [_VOLUMES[2]]
    if chance.random() < 0.5:
        found["tolerations"] = _some(chance, _TOLERATIONS, 2)
    if chance.random() < 0.2:
        found["schedulerName"] = chance.choice(("default-scheduler", "volcano", "gpufleet"))
    if chance.random() < 0.1:
        found["hostIPC"] = True
    if chance.random() < 0.2:
        found["runtimeClassName"] = "other"
    if chance.random() < 0.2:
        found["nodeSelector"] = {"runtime": chance.choice(("nvidia", "other"))}
    return found


def _container(chance: random.Random, number: int) -> Object:
    found: Object = {"name": f"c{number}", "image": "example.com/train:1"}
    limits = dict(chance.choice(_AMOUNTS))
    if limits:
        found["resources"] = {"limits": limits}
        if chance.random() < 0.3:
            found["resources"]["requests"] = dict(limits)
    if mounts := _some(chance, _MOUNTS, 1):
        found["volumeMounts"] = mounts
    return found
