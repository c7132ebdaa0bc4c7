"""GPUs held without a grant: by pods that gpufleet's scheduler did not place, or by what is no pod."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Mend, Point, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView

UNKNOWN = "a process of no pod"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """All devices that are held without a grant, in one failure, by their nodes."""
    reported = [one for one in facts.gpu_nodes if one.devices is not None]
    found = {one: _held(one) for one in reported}
    nodes = [one for one in reported if found[one]]
    if reported and not nodes:
        yield Good("every GPU that is held was granted")
    if not nodes:
        return
    holders = list(dict.fromkeys(holder for one in nodes for holder in found[one]))
    count = sum(len(its) for one in nodes for its in found[one].values())
    yield Failure(
        f"{count} GPU{'' if count == 1 else 's'} on {listed(one.name for one in nodes)} "
        f"{'is' if count == 1 else 'are'} held without a grant, by {listed(holders)}",
        tuple(one.title for one in nodes),
        tuple(
            f"NodeDevices {one.name}: {holder} holds {listed(devices)}"
            for one in nodes
            for holder, devices in found[one].items()
        ),
        (
            Mend("place such pods by gpufleet: schedulerName: gpufleet, and no nodeName"),
            Mend("have the agents refuse them (agent.requireGrant in the chart, --require-grant)"),
        ),
    )


def _held(node: NodeView) -> dict[str, list[str]]:
    """The holders of a node's devices without a grant, each with its devices."""
    found: dict[str, list[str]] = {}
    root = None if node.devices is None else node.devices.root
    for one in () if root is None else root.at("spec", "holders").items():
        name, uid = one.at("foreign").text or "", one.at("podUID").text or ""
        if name or not uid:
            found.setdefault(name or UNKNOWN, []).append(one.at("device").text or "a GPU")
    return found


CHECK = Check(
    "gpus-without-grant",
    Point.SECURITY,
    Layer.PRACTICE,
    "GPUs are held by grants alone",
    "What holds a GPU without a grant is under no queue and no quota, and takes what others were promised.",
    judge,
    ("Node", "NodeDevices"),
    Grade.RISK,
)
