"""Jobs that are suspended for a queue, where no controller runs that would let them go on."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.status import age_s
from gpufleet.doctor.views.programs import Program, pods_of
from gpufleet.doctor.views.queues import KUEUE_GROUP, is_suspended, waiting_in_queues
from gpufleet.kube import keys

_PATIENCE_S = 120.0
"""A job is suspended for a moment whenever it is made; its queue lets it go on soon after."""


def judge(facts: Facts) -> Iterator[Failure]:
    """Each suspended job, once there was time to start it."""
    if pods_of(facts, Program.KUEUE):
        return
    is_served = KUEUE_GROUP in facts.served_groups
    for one in waiting_in_queues(facts):
        manifest = one.workload.manifest
        age = age_s(manifest.root.at("metadata", "creationTimestamp"), facts.now)
        if one.key != keys.KUEUE_QUEUE or not is_suspended(manifest) or (age or 0.0) < _PATIENCE_S:
            continue
        missing = "no pod of its controller is there" if is_served else "Kueue is not installed"
        resume = get_command(manifest).replace("kubectl get", "kubectl patch", 1)
        path = "runPolicy" if manifest.root.at("spec", "runPolicy", "suspend").exists else ""
        change = '{"runPolicy": {"suspend": false}}' if path else '{"suspend": false}'
        yield Failure(
            f"{manifest.title}: suspended for Kueue's queue {one.name}, and {missing}",
            (manifest.title,),
            ("suspend: true", f"{one.key}: {one.name}", missing),
            (
                Remedy("start Kueue's controller, or install it", "kubectl get pods -n kueue-system"),
                Remedy(
                    "or let the job start without it",
                    f"{resume} --type merge -p '{{\"spec\": {change}}}'",
                ),
            ),
            one.affects,
        )


CHECK = Check(
    "job-suspended",
    Point.QUOTAS,
    Layer.QUEUE,
    "Suspended jobs have a queue that starts them",
    "A job made suspended makes no pod until Kueue, or its owner, takes that back.",
    judge,
    ("Pod",),
)
