"""GPU nodes that were closed to new pods while GPU pods wait that can go nowhere else."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.waiting import kept_to


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """All cordoned nodes together, if a GPU pod waits for them alone."""
    cordoned = [one for one in facts.gpu_nodes if one.is_cordoned]
    stuck = kept_to(facts, cordoned) if cordoned else frozenset()
    if not stuck:
        if facts.gpu_nodes:
            closed = listed(one.name for one in cordoned)
            yield Good(f"no GPU pod waits for {closed} alone" if cordoned else "no GPU node is cordoned")
        return
    names = [one.name for one in cordoned]
    which = "every GPU node" if len(cordoned) == len(facts.gpu_nodes) else listed(names)
    yield Failure(
        f"{which}: cordoned, and GPU pods wait that can go nowhere else",
        tuple(one.title for one in cordoned),
        tuple(f"{name}: spec.unschedulable true" for name in names),
        (Remedy("let pods onto the nodes again", f"kubectl uncordon {' '.join(names)}"),),
        frozenset(one.title for one in cordoned) | stuck,
    )


CHECK = Check(
    "nodes-cordoned",
    Point.NODES,
    Layer.NODE,
    "GPU pods do not wait for cordoned nodes",
    "A cordoned node takes no new pods until it is uncordoned, however many GPUs are free there.",
    judge,
    ("Node", "Pod"),
)
