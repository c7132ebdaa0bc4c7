"""Pods that wait for a GPU resource with a name that no node knows: nvidia.com/gpus, nvidia.com/GPU."""

import re
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.doctor.views.growth import COMING_S, may_grow
from gpufleet.doctor.views.offers import by_claims, known_names, offered_names
from gpufleet.kube.keys import SHARE_RESOURCES
from gpufleet.kube.meanings.gpu_resources import is_device, is_gpu, is_whole_gpu
from gpufleet.model.label_advice import nearest
from gpufleet.model.resource_names import is_mig_instance

_LIKE_A_GPU = re.compile(r"(?i)(nvidia|amd|gpu\.intel|gpufleet)[^/]*/.+|.*\b(gpu|mig|vgpu)s?\b.*")


def judge(facts: Facts) -> Iterator[Failure]:
    """The workloads by name."""
    known, offered, grows = known_names(facts), offered_names(facts), may_grow(facts)
    found: dict[str, list[tuple[Workload, list[PodView]]]] = {}
    for work in facts.workloads:
        waiting: dict[str, list[PodView]] = {}
        for pod in work.pods:
            for name in _strange(pod) if pod.waits else ():
                # A node that is still to come may have what has a right name.
                young = is_device(name) and grows and pod.age_s(facts.now) < COMING_S
                if name not in known and not young:
                    waiting.setdefault(name, []).append(pod)
        for name, pods in waiting.items():
            found.setdefault(name, []).append((work, pods))
    for name, works in found.items():
        yield _failure(name, works, offered | by_claims(facts))


def _strange(pod: PodView) -> frozenset[str]:
    """Names that speak of GPUs and are none that is known to be right, or that a scheduler reads itself."""
    names = {name for one in pod.template.all_containers for name in one.asked_names}
    return frozenset(name for name in names if _LIKE_A_GPU.fullmatch(name) and not _is_another_checks(name))


def _is_another_checks(name: str) -> bool:
    by_scheduler = name in SHARE_RESOURCES or (is_gpu(name) and not is_device(name))
    return by_scheduler or is_whole_gpu(name) or is_mig_instance(name)


def _failure(name: str, works: list[tuple[Workload, list[PodView]]], offered: frozenset[str]) -> Failure:
    titles = [work.title for work, _ in works]
    pods = [pod.title for _, pods in works for pod in pods]
    meant = _meant(name, offered)
    there = ", ".join(sorted(offered)) or "no GPU at all"
    way = f"did you mean {meant}?" if meant else f"ask for one of {there}"
    return Failure(
        f"{listed(titles)}: {name} is no resource of any node",
        tuple(dict.fromkeys((*titles, *pods))),
        (f"resources: {name}", f"nodes offer {there}"),
        (Remedy(way, f"{get_command(works[0][0].manifest)} -o yaml"),),
        frozenset((*titles, *pods)),
    )


def _meant(name: str, offered: frozenset[str]) -> str | None:
    """The nearest name that is offered, whatever its case."""
    lowered = {one.lower(): one for one in sorted(offered)}
    if name.lower() in lowered:
        return lowered[name.lower()]
    found = nearest(name.lower(), lowered)
    return None if found is None else lowered[found]


CHECK = Check(
    "resource-misnamed",
    Point.PLACING,
    Layer.OFFER,
    "GPU resources that pods ask for exist",
    "Any name is accepted for an extended resource; a pod that asks for one that no node has waits for ever.",
    judge,
    ("Node", "Pod"),
)
