"""GPU nodes that have been closed to new pods for more than a day while GPU pods wait that would go there."""

import datetime as dt
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.objects.status import age_s
from gpufleet.doctor.views.waiting import held_up_by
from gpufleet.model.taint import CORDON

LONG_S = 24 * 3600.0
"""Maintenance that closes a node on purpose is mostly over within a day."""


def judge(facts: Facts) -> Iterator[Failure]:
    """All nodes that were cordoned long ago, in one failure."""
    since = {one.name: _cordoned_s(one, facts.now) for one in facts.gpu_nodes if one.is_cordoned}
    left = [one for one in facts.gpu_nodes if since.get(one.name, 0.0) > LONG_S]
    if not left or not held_up_by(facts, left):
        return
    names = [one.name for one in left]
    yield Failure(
        f"{listed(names)}: cordoned for more than a day while GPU pods wait",
        tuple(one.title for one in left),
        tuple(f"{name}: cordoned for {since[name] / 3600:.0f} hours" for name in names),
        (
            Remedy(
                "uncordon what is mended, or take it out of the cluster",
                f"kubectl uncordon {' '.join(names)}",
            ),
        ),
    )


def _cordoned_s(node: NodeView, now: dt.datetime) -> float:
    """Seconds since it was cordoned, by the taint with which Kubernetes repeats it; 0 where nothing tells."""
    taints = node.manifest.root.at("spec", "taints").items()
    ages = (age_s(one.at("timeAdded"), now) for one in taints if one.text_at("key") == CORDON.key)
    return next((age for age in ages if age is not None), 0.0)


CHECK = Check(
    "cordon-forgotten",
    Point.NODES,
    Layer.NODE,
    "No GPU node stays cordoned while work waits",
    "A cordon has no end of its own: a node is paid for until it is uncordoned, however long that takes.",
    judge,
    ("Node", "Pod"),
    Grade.RISK,
)
