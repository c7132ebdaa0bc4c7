"""GPU containers that are killed again and again for want of host memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.pods import ContainerState, PodView
from gpufleet.doctor.objects.status import age_s
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.model.phrases import counted

_END = "OOMKilled"
_LATELY_S = 3600.0
"""What ended longer ago may have been given more memory since."""

_TIMES = 2
"""Once may be bad luck."""


def judge(facts: Facts) -> Iterator[Failure]:
    """The workloads with such containers; those with the same limit have one cause."""
    found: dict[tuple[str, str], dict[str, KilledPod]] = {}
    for pod in facts.pods:
        killed = next((one for one in pod.containers if one.last_end == _END), None)
        if killed is None or killed.restarts < _TIMES or (pod.is_ready and not _was_lately(facts, pod)):
            # One that is ready again recovered, long ago.
            continue
        workload = facts.gpu_workload_above(pod.manifest)
        if workload is not None:
            alike = found.setdefault((killed.name, _limit(pod, killed)), {})
            alike.setdefault(workload.title, KilledPod(workload, pod, killed.restarts))
    for (name, limit), pods in found.items():
        yield _failure(name, limit, tuple(pods.values()))


@dataclass(frozen=True)
class KilledPod:
    """The first pod of a workload that was seen to be killed, and how often it began anew."""

    workload: Workload
    pod: PodView
    restarts: int


def _failure(name: str, limit: str, killed: tuple[KilledPod, ...]) -> Failure:
    titles = tuple(one.workload.title for one in killed)
    times = counted(max(one.restarts for one in killed), "time")
    alike = (pod for one in killed for pod in one.workload.pods)
    others = (pod.title for pod in alike if any(each.last_end == _END for each in pod.containers))
    seen = tuple(f"{one.pod.title}: OOMKilled, {counted(one.restarts, 'restart')}" for one in killed)
    return Failure(
        f"{listed(titles)}: {name} was killed {times} for memory of the host",
        titles,
        (f"memory limit: {limit or 'none of its own'}", *seen),
        (
            Remedy(
                "raise its memory limit; loading a model takes about its size, and /dev/shm counts too",
                get_command(killed[0].workload.manifest).replace("kubectl get", "kubectl edit", 1),
            ),
        ),
        frozenset({*titles, *(one.pod.title for one in killed), *others}),
    )


def _was_lately(facts: Facts, pod: PodView) -> bool:
    """Whether a container of it ended within the hour."""
    ends = (
        age_s(one.at(part, "terminated", "finishedAt"), facts.now)
        for one in pod.root.at("status", "containerStatuses").items()
        for part in ("state", "lastState")
    )
    return any(one is not None and one < _LATELY_S for one in ends)


def _limit(pod: PodView, state: ContainerState) -> str:
    for one in pod.template.all_containers:
        if one.name == state.name and "memory" in one.limits:
            return one.limits["memory"].text or ""
    return ""


CHECK = Check(
    "host-memory-short",
    Point.UPGRADES,
    Layer.START,
    "GPU work has the memory of the host that it needs",
    "The host's memory ran out, not the GPU's: each start loads the model anew and ends the same way.",
    judge,
    ("Pod",),
    written=True,
)
