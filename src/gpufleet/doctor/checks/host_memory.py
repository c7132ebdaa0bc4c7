"""GPU containers that are killed again and again for want of host memory."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.pods import ContainerState, PodView
from gpufleet.doctor.objects.status import age_s
from gpufleet.model.phrases import counted

_END = "OOMKilled"
_LATELY_S = 3600.0
"""What ended longer ago may have been given more memory since."""

_TIMES = 2
"""Once may be bad luck."""


def judge(facts: Facts) -> Iterator[Failure]:
    """Each workload with such containers, once."""
    told: set[str] = set()
    for pod in facts.pods:
        workload = facts.gpu_workload_above(pod.manifest)
        killed = next((one for one in pod.containers if one.last_end == _END), None)
        if workload is None or killed is None or killed.restarts < _TIMES or workload.title in told:
            continue
        if pod.is_ready and not _was_lately(facts, pod):
            # It recovered, long ago.
            continue
        told.add(workload.title)
        limit = _limit(pod, killed)
        others = [one.title for one in workload.pods if any(c.last_end == _END for c in one.containers)]
        yield Failure(
            f"{workload.title}: {killed.name} was killed "
            f"{counted(killed.restarts, 'time')} for memory of the host",
            (workload.title,),
            (
                f"{pod.title}: OOMKilled, {counted(killed.restarts, 'restart')}",
                f"memory limit: {limit or 'none of its own'}",
            ),
            (
                Remedy(
                    "raise its memory limit; loading a model takes about its size, and /dev/shm counts too",
                    get_command(workload.manifest).replace("kubectl get", "kubectl edit", 1),
                ),
            ),
            frozenset({workload.title, pod.title, *others}),
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
)
