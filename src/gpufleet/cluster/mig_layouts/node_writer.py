"""Layouts are written on a Node for its agent, each write tied to the version that was read."""

from collections.abc import Callable, Mapping

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODES
from gpufleet.kube.status import Conflict
from gpufleet.mig.wanted import (
    DEMAND_ANNOTATION,
    LAYOUTS_ANNOTATION,
    DemandRecord,
    Wanted,
    read_demand,
    read_wanted,
    write_demand,
    write_wanted,
)
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import WorldError

CONFLICTS_MAX = 10
"""A node's other writers are its kubelet and a few controllers; each writes a few times a minute."""


class LayoutNode(Structure, frozen=True):
    """A Node, as far as layouts are concerned."""

    metadata: Metadata = Metadata()


NODE_DECODER = msgspec.json.Decoder(LayoutNode)


async def write_layouts(
    client: Client,
    node: str,
    wishes: Wanted,
    before: str,
    records: Mapping[DeviceId, DemandRecord] | None = None,
    may_write: Callable[[], bool] = lambda: True,
    subresource: str = "",
) -> None:
    """Add wishes to those of a Node, where it has those of ``before`` for these cards.

    Those who may not write all of a Node name a ``subresource`` that has its metadata too. ``records`` are
    written with them; records of other layouts than are written any more go.

    Raises WorldError where it has others, or is written all the time.
    """
    for _ in range(CONFLICTS_MAX):
        seen = decode(await client.get(NODES, node), NODE_DECODER).metadata
        text = seen.annotations.get(LAYOUTS_ANNOTATION, "")
        there = read_wanted(text)
        if text != before:
            _check_unchanged(node, wishes, read_wanted(before), there)
        after = {**there, **wishes}
        annotations = {LAYOUTS_ANNOTATION: write_wanted(after)}
        if records:
            known = {**read_demand(seen.annotations.get(DEMAND_ANNOTATION, "")), **records}
            annotations[DEMAND_ANNOTATION] = write_demand(known, after)
        # Asked last: what takes long above may cost the right to write.
        if not may_write():
            return
        metadata = {"resourceVersion": seen.resource_version, "annotations": annotations}
        try:
            await client.patch(NODES, node, {"metadata": metadata}, subresource=subresource)
        except Conflict:
            continue
        return
    raise WorldError(f"the layouts of node {node} are not written: others write it all the time")


def _check_unchanged(node: str, wishes: Wanted, before: Wanted, there: Wanted) -> None:
    for card in wishes:
        if (card in before, before.get(card)) != (card in there, there.get(card)):
            problem = f"another layout of {card} was written on node {node} meanwhile"
            raise WorldError(f"{problem}: nothing more is written, run the command again")
