"""GPU work that names a PriorityClass that is not there, so that its pods are not made."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.model.label_advice import nearest

_CLASS = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: {name}
value: 1000
description: Adapt the value; higher goes first.
"""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each class that is missing."""
    there = {one.name for one in facts.of_kind("PriorityClass")}
    named: dict[str, list[Workload]] = {}
    for workload in facts.gpu_workloads:
        if workload.manifest.kind == "Pod":
            # It is there, so it was let in.
            continue
        for template in workload.manifest.templates:
            if name := template.spec.text_at("priorityClassName"):
                named.setdefault(name, []).append(workload)
    for name in sorted(named.keys() - there):
        yield _failure(name, named[name], there)
    if named and named.keys() <= there:
        yield Good("every PriorityClass that GPU work names exists")


def _failure(name: str, group: list[Workload], there: set[str]) -> Failure:
    near = nearest(name, sorted(there))
    hint = f" (did you mean {near}?)" if near else ""
    return Failure(
        f"{listed(one.title for one in group)}: there is no PriorityClass {name}",
        tuple(one.title for one in group),
        (
            f"priorityClassName: {name}",
            f"there are {listed(sorted(there), 6)}" if there else "there is none at all",
        ),
        (
            Remedy(
                f"create the class, or name one that exists{hint}",
                "kubectl get priorityclasses",
                _CLASS.format(name=name),
            ),
        ),
        frozenset[str]().union(*(one.affects for one in group)),
    )


CHECK = Check(
    "priority-class-missing",
    Point.QUOTAS,
    Layer.ADMISSION,
    "PriorityClasses that are named exist",
    "The API server refuses pods of a PriorityClass that it does not know: not even a pending one is seen.",
    judge,
    ("PriorityClass",),
    written=True,
)
