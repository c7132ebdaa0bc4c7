"""Pods that ask to start together, of a scheduler that places each pod by itself."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.doctor.views.programs import Program, pods_of
from gpufleet.kube.meanings import group_names
from gpufleet.kube.meanings.group_names import GroupName

# Which scheduler starts pods together that name their group so.
_HEEDED_BY = {
    group_names.OWN: "gpufleet",
    group_names.PLUGINS: "scheduler-plugins-scheduler",
    group_names.VOLCANO: "volcano",
    group_names.KAI: "kai-scheduler",
}
_PLAIN = "default-scheduler"


def judge(facts: Facts) -> Iterator[Failure]:
    """Workloads by the name of a gang that their scheduler does not read."""
    found: dict[GroupName, list[Workload]] = {}
    for workload in facts.gpu_workloads:
        for pod in workload.pods[:1]:
            for way in _HEEDED_BY:
                if way.said(pod.template.labels, pod.template.annotations) and pod.scheduler == _PLAIN:
                    found.setdefault(way, []).append(workload)
    if pods_of(facts, Program.SCHEDULER_PLUGINS):
        # These may run in place of the default scheduler, under its name.
        found.pop(group_names.PLUGINS, None)
    for way, group in found.items():
        titles = tuple(one.title for one in group)
        key, who = way.keys[0], _HEEDED_BY[way]
        yield Failure(
            f"{listed(titles)}: asks for a gang by {key}, and its scheduler places each pod by itself",
            titles,
            (f"schedulerName: {_PLAIN}", f"{key} is heeded by {who}"),
            (Remedy(f"write schedulerName: {who} into the pod template"),),
        )


CHECK = Check(
    "gang-unheeded",
    Point.GANGS,
    Layer.PRACTICE,
    "Gangs have a scheduler that knows them",
    "Kubernetes' own scheduler reads no labels of gangs: a part of the pods starts and waits for the rest.",
    judge,
    ("Pod",),
    Grade.RISK,
)
