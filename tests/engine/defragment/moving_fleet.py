"""A fleet on which controllers make each pod anew that was told to end, for tests of automatic moves."""

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, WhyEvicted
from gpufleet.model.defragmentation import DefragmentationRules
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import SECOND_US, Story, node

MINUTE_US = 60 * SECOND_US
TO_START = DefragmentationRules(start_after_us=MINUTE_US)


def fleet(*gpus: int, rules: DefragmentationRules | None = TO_START) -> Story:
    """Nodes n0, n1, ... with so many GPUs, whose pods are moved by these rules."""
    told = Story()
    told.nodes(*(node(f"n{number}", count) for number, count in enumerate(gpus)))
    told.happen(event.DefragmentationSet(rules))
    return told


def runs(told: Story, one: Pod, on: int, *devices: int) -> None:
    """A pod turns out to run on these GPUs of a node."""
    told.run_on(one, f"n{on}", *(f"n{on}/{device}" for device in devices))


def moved(said: list[AnyInstruction]) -> dict[str, tuple[str | None, str]]:
    """Who is told to end to be moved: for whom, and to which node."""
    found: dict[str, tuple[str | None, str]] = {}
    for one in said:
        if isinstance(one, Evict) and one.reason == WhyEvicted.MOVED:
            assert one.moved is not None
            found[one.uid] = (one.beneficiary, one.moved.node)
    return found


def anew(told: Story, uid: str, name: str = "") -> Pod:
    """The pod that a controller makes instead of a known one."""
    pods = told.engine.state.pods
    known = pods.pod_at(pods.row_by_uid[PodUid(uid)])
    created_us = told.at_us
    return msgspec.structs.replace(
        known, uid=PodUid(name or f"{uid}+"), leaving=False, created_at_us=created_us
    )


def confirm(told: Story, said: list[AnyInstruction]) -> None:
    """What was bound runs."""
    pods = told.engine.state.pods
    for one in said:
        if isinstance(one, Bind):
            pod = pods.pod_at(pods.row_by_uid[one.uid])
            told.happen(event.PodBound(pod, one.node, one.devices, told.at_us))
