"""GPU workloads that name their node themselves, and there is no such node."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.model.label_advice import nearest

_LEAVING = ("metadata", "deletionTimestamp")


def judge(facts: Facts) -> Iterator[Failure]:
    """The workloads by the node that they name."""
    there = {one.name for one in facts.nodes}
    found: dict[str, list[Workload]] = {}
    staying = (one for one in facts.gpu_workloads if not one.manifest.root.at(*_LEAVING).exists)
    for work in staying:
        for template in work.manifest.templates:
            name = template.spec.text_at("nodeName")
            if name and name not in there:
                found.setdefault(name, []).append(work)
    for name, works in found.items():
        titles = tuple(one.title for one in works)
        # Mostly a name that was mistyped.
        meant = nearest(name, sorted(there))
        way = f"; did you mean {meant}?" if meant else ""
        yield Failure(
            f"{listed(titles)}: bound to {name}, and there is no such node",
            titles,
            (f"spec.nodeName: {name}",),
            (
                Remedy(
                    f"leave nodeName out and select by labels: no scheduler is asked where it is set{way}",
                    f"{get_command(works[0].manifest)} -o yaml",
                ),
            ),
            frozenset(title for one in works for title in one.affects),
        )


CHECK = Check(
    "node-named-missing",
    Point.PLACING,
    Layer.PLACEMENT,
    "Nodes that pods name exist",
    "A pod that names its node waits for that node's kubelet, and is deleted after a while if there is none.",
    judge,
    ("Node",),
)
