"""Pods that ask to start together, of a scheduler that places each pod by itself."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Grade, Layer, Mend, Point, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.doctor.views.programs import Program, pods_of
from gpufleet.kube import keys

_HEEDED_BY = {
    keys.GANG: "gpufleet",
    keys.PLUGINS_POD_GROUP: "scheduler-plugins-scheduler",
    keys.VOLCANO_GROUP: "volcano",
    keys.KAI_GROUP: "kai-scheduler",
}
_PLAIN = "default-scheduler"


def judge(facts: Facts) -> Iterator[Failure]:
    """Workloads by the key that asks for a gang and that their scheduler does not read."""
    found: dict[str, list[Workload]] = {}
    for workload in facts.gpu_workloads:
        for pod in workload.pods[:1]:
            for key in _HEEDED_BY:
                said = pod.root.at("metadata", "labels", key).text or pod.template.annotation(key)
                if said and pod.scheduler == _PLAIN:
                    found.setdefault(key, []).append(workload)
    if pods_of(facts, Program.SCHEDULER_PLUGINS):
        # These may run in place of the default scheduler, under its name.
        found.pop(keys.PLUGINS_POD_GROUP, None)
    for key, group in found.items():
        titles = tuple(one.title for one in group)
        who = _HEEDED_BY[key]
        yield Failure(
            f"{listed(titles)}: asks for a gang by {key}, and its scheduler places each pod by itself",
            titles,
            (f"schedulerName: {_PLAIN}", f"{key} is heeded by {who}"),
            (Mend(f"write schedulerName: {who} into the pod template"),),
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
