"""Containers that the node's runtime cannot give their GPUs: driver, toolkit or CDI are not right there."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.views.warnings import Warned, warnings_of

RECENT_S = 3600.0
"""How old an Event may be to be believed; the server keeps them for an hour."""


@dataclass(frozen=True)
class Trouble:
    """What words of the runtime mean, and what mends it. The first that matches counts."""

    words: re.Pattern[str]
    means: str
    way: str
    command: str


_DRIVER_PODS = "kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
TROUBLES = (
    Trouble(
        re.compile(r"(?i)driver/library version mismatch"),
        "the driver that is loaded is not the one that is installed",
        "reboot the node, or unload and load the driver: it was upgraded under a running kernel module",
        "kubectl drain {node} --ignore-daemonsets --delete-emptydir-data",
    ),
    Trouble(
        re.compile(r"unsatisfied condition"),
        "the image requires a newer driver than the node has",
        "use an image of an older CUDA, or upgrade the driver of the node",
        "kubectl get node {node} -L nvidia.com/cuda.driver-version.full",
    ),
    Trouble(
        re.compile(r"(?i)driver not loaded|libnvidia-ml\.so|nvml error"),
        "no driver is loaded on the node",
        "install or start the driver on the node",
        _DRIVER_PODS,
    ),
    Trouble(
        re.compile(r"unresolvable CDI devices|CDI device injection failed|failed to inject CDI"),
        "the container runtime knows no CDI device of that name",
        "have CDI specs written anew: restart the device plugin there, or run nvidia-ctk cdi generate",
        _DRIVER_PODS,
    ),
    Trouble(
        re.compile(r'no runtime for "[^"]+" is configured|unknown runtime handler'),
        "the container runtime of the node has no handler of the RuntimeClass's name",
        "configure it there: nvidia-ctk runtime configure --runtime=containerd, then restart containerd",
        _DRIVER_PODS,
    ),
    Trouble(
        re.compile(r"nvidia-container-runtime.*(not found|no such file)"),
        "the container toolkit is not installed on the node",
        "install the NVIDIA container toolkit there, or let the GPU operator do it",
        _DRIVER_PODS,
    ),
    Trouble(
        re.compile(r"nvidia-container-cli|nvidia-container-runtime"),
        "the container toolkit of the node cannot hand out its GPUs",
        "run nvidia-smi on the node: where that fails, the driver is to be mended first",
        _DRIVER_PODS,
    ),
)


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The pods by trouble and node."""
    told: dict[str, list[Warned]] = {}
    for event in warnings_of(facts):
        if event.age_s(facts.now) < RECENT_S:
            told.setdefault(event.subject, []).append(event)
    found: dict[tuple[str, Trouble], list[tuple[PodView, str]]] = {}
    for name, pods in facts.pods_by_node.items():
        for pod in pods:
            if pod.is_ready:
                continue
            # Some errors of a runtime stand in Events alone: the pod has no container yet.
            events = (one.message for one in told.get(pod.title, ()) if one.is_about(pod.manifest))
            known = next(_troubles((*(one.message for one in pod.containers), *events)), None)
            if known is not None:
                found.setdefault((name, known[0]), []).append((pod, known[1]))
    for (node, trouble), refused in found.items():
        yield _failure(facts, node, trouble, refused)
    if not found and any(pod.asks_for_gpu for pods in facts.pods_by_node.values() for pod in pods):
        yield Good("container runtimes give GPU pods their devices")


def _troubles(messages: tuple[str, ...]) -> Iterator[tuple[Trouble, str]]:
    return ((one, text) for one in TROUBLES for text in messages if one.words.search(text))


def _failure(facts: Facts, node: str, trouble: Trouble, refused: list[tuple[PodView, str]]) -> Failure:
    titles = tuple(pod.title for pod, _ in refused)
    above = facts.works_above(titles)
    return Failure(
        f"{listed(titles)}: {trouble.means} ({node})",
        titles,
        tuple(f"{pod.title}: {' '.join(text.split())}" for pod, text in refused),
        (Remedy(trouble.way, trouble.command.format(node=node)),),
        frozenset({*titles, *above, f"Node {node}"}),
    )


CHECK = Check(
    "runtime-refuses-gpu",
    Point.STACK,
    Layer.DRIVER,
    "Container runtimes hand GPUs to containers",
    "The pod has its GPU and holds it, and its container never starts.",
    judge,
    ("Pod", "Event"),
)
