"""GPU pods that name a scheduler of which nothing is heard: no word on the pod, and no Lease of that name."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.views.leases import Leases, leases_of
from gpufleet.kube.installation import SCHEDULER_LEASE
from gpufleet.kube.keys import SCHEDULER_NAME
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.label_advice import nearest

UNHEARD_S = 30.0
"""A scheduler that runs has said of a pod by then whether it finds a node."""

STALE_S = 60.0
"""Four times a Lease's usual length of 15 s: its holder is gone."""

_LEASE_NAMES = {"default-scheduler": "kube-scheduler"}
"""The Lease's name by the scheduler's, where the two differ."""


def judge(facts: Facts) -> Iterator[Failure]:
    """The pods by the scheduler that they name."""
    leases = leases_of(facts)
    unheard: dict[str, list[PodView]] = {}
    for pod in facts.waiting:
        if _is_unheard(pod, facts):
            unheard.setdefault(pod.scheduler, []).append(pod)
    at_work = {one.scheduler for one in facts.pods if one.node or one.verdict}
    for name, pods in unheard.items():
        # What gpufleet's own scheduler leaves is another check's.
        if name == SCHEDULER_NAME or _lives(name, leases):
            continue
        if name in at_work and not _has_stopped(name, leases):
            # It has placed others; then it is slow, or stopped since, which nothing here tells apart.
            continue
        titles = tuple(one.title for one in pods)
        meant = nearest(name, sorted(at_work | {SCHEDULER_NAME}))
        way = f"; did you mean {meant}?" if meant else ""
        mine = frozenset(titles)
        yield Failure(
            f"{listed(titles)}: to be placed by {name}, of which nothing is heard",
            titles,
            (
                f"spec.schedulerName: {name}",
                "no condition PodScheduled since it was made",
                "no live Lease of that name",
            ),
            (
                Remedy(
                    f"name a scheduler that runs, such as {SCHEDULER_NAME}{way}",
                    f"{get_command(pods[0].manifest)} -o yaml",
                ),
            ),
            mine | facts.works_above(mine),
        )


def _is_unheard(pod: PodView, facts: Facts) -> bool:
    return "PodScheduled" not in pod.conditions and pod.age_s(facts.now) > UNHEARD_S


def _lives(scheduler: str, leases: Leases) -> bool:
    return any((leases.silent_s(one) or 0.0) < STALE_S for one in _of_scheduler(scheduler, leases))


def _has_stopped(scheduler: str, leases: Leases) -> bool:
    return bool(_of_scheduler(scheduler, leases))


def _of_scheduler(scheduler: str, leases: Leases) -> list[Manifest]:
    """The Leases that may be its own; gpufleet's is gpufleet's alone, whatever a pod calls its scheduler."""
    wanted = _LEASE_NAMES.get(scheduler, scheduler)
    return [one for one in leases.all if wanted in one.name and one.name != SCHEDULER_LEASE]


CHECK = Check(
    "scheduler-unknown",
    Point.PLACING,
    Layer.CONTROL_PLANE,
    "Schedulers that GPU pods name exist",
    "A pod whose scheduler does not run waits for ever, and nothing says so.",
    judge,
    ("Pod", "Lease"),
)
