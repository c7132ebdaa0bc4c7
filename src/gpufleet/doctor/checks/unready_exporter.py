"""Exporters of GPUs with pods that run on a node and are not ready, so that its GPUs are not seen."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView, logs_command
from gpufleet.doctor.views.stack import StackPart, stack_of
from gpufleet.model.phrases import counted

_PATIENCE_S = 180.0
"""An exporter may take minutes to start beside its driver."""


def judge(facts: Facts) -> Iterator[Failure]:
    """Each exporter with such pods; parts of the stack that do more than export are other checks'."""
    for daemon in stack_of(facts).having(StackPart.EXPORTER):
        if daemon.parts != {StackPart.EXPORTER}:
            continue
        bad = [
            one
            for one in daemon.pods
            if one.node and not one.is_ready and not one.is_leaving and one.age_s(facts.now) > _PATIENCE_S
        ]
        if bad:
            place = daemon.manifest.namespace
            yield Failure(
                f"{daemon.title}: not ready on {listed(one.node for one in bad)}",
                (daemon.title, *(one.title for one in bad)),
                tuple(f"{one.title}: {_reason(one)}" for one in bad),
                (
                    Remedy(
                        "read why it ended, or does not answer",
                        logs_command(bad[0]) or f"kubectl describe pod -n {place} {bad[0].manifest.name}",
                    ),
                ),
            )


def _reason(pod: PodView) -> str:
    for one in pod.containers:
        if one.waits_for or one.last_end:
            why = one.waits_for or one.last_end
            return f"container {one.name}: {why}, {counted(one.restarts, 'restart')}"
    return "its readiness probe fails"


CHECK = Check(
    "exporter-unready",
    Point.WATCHING,
    Layer.START,
    "Exporters of GPUs are ready",
    "An exporter that does not answer leaves its node's GPUs out of every dashboard and alert.",
    judge,
    ("DaemonSet", "Pod"),
)
