"""GPUs held without a grant: by pods that gpufleet's scheduler did not place, or by what is no pod."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.model.phrases import counted

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
    every = [held for one in nodes for its in found[one].values() for held in its]
    yield Failure(
        f"{_counts(every)} on {listed(one.name for one in nodes)} "
        f"{'is' if len(every) == 1 else 'are'} held without a grant, by {listed(holders)}",
        tuple(one.title for one in nodes),
        tuple(
            f"NodeDevices {one.name}: {holder} holds {listed(held.words for held in its)}"
            for one in nodes
            for holder, its in found[one].items()
        ),
        (
            Remedy("place such pods by gpufleet: schedulerName: gpufleet, and no nodeName"),
            Remedy("have the agents refuse them (agent.requireGrant in the chart, --require-grant)"),
        ),
    )


@dataclass(frozen=True)
class _Held:
    """A GPU, or the MIG instance of this profile of it."""

    device: str
    profile: str

    @property
    def words(self) -> str:
        """What it is, for a line of evidence."""
        return f"MIG instance {self.profile} of {self.device}" if self.profile else self.device


def _counts(every: Sequence[_Held]) -> str:
    """How many GPUs and MIG instances these are."""
    instances = sum(bool(one.profile) for one in every)
    kinds = ((len(every) - instances, "GPU"), (instances, "MIG instance"))
    return " and ".join(counted(number, one) for number, one in kinds if number)


def _held(node: NodeView) -> dict[str, list[_Held]]:
    """The holders of a node's devices without a grant, each with what it holds."""
    found: dict[str, list[_Held]] = {}
    root = None if node.devices is None else node.devices.root
    for one in () if root is None else root.at("spec", "holders").items():
        name, uid = one.text_at("foreign") or "", one.text_at("podUID") or ""
        if name or not uid:
            held = _Held(one.text_at("device") or "a GPU", one.text_at("migProfile") or "")
            found.setdefault(name or UNKNOWN, []).append(held)
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
