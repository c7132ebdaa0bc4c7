"""A node that takes nothing new while a pod leaves it: otherwise its replacement might come back at once.

A node that was cordoned before stays so. Ours carries a mark, so that people can recognise one that a killed
process left behind.
"""

import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node import NodeSpec
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODES
from gpufleet.model.model_errors import WorldError

# The annotation on a node that was cordoned here, and its value.
MARK = keys.CORDONED_BY
MARKED = "defragment"


class CordonLeftError(WorldError):
    """A node could not be opened again; a person has to."""


class _Node(Structure, frozen=True):
    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()


_DECODER = msgspec.json.Decoder(_Node)


@contextlib.asynccontextmanager
async def cordoned(client: Client, node: str, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Keep new pods off a node for the length of the block, however that ends.

    Raises CordonLeftError where the node could not be opened again.
    """
    seen = decode(await client.get(NODES, node), _DECODER)
    if seen.spec.unschedulable:
        whose = " by an earlier defragmentation" if MARK in seen.metadata.annotations else ""
        tell(f"node {node} was cordoned before{whose}, and stays so")
        yield
        return
    try:
        await client.patch(NODES, node, _change(closed=True))
        yield
    except BaseException as first:
        await _open(client, node, first)
        raise
    else:
        await _open(client, node, None)


async def _open(client: Client, node: str, first: BaseException | None) -> None:
    try:
        await client.patch(NODES, node, _change(closed=False))
    except KubeError as problem:
        before = f"; before that: {first}" if first is not None else ""
        raise CordonLeftError(
            f"node {node} is still cordoned ({problem}): open it with `kubectl uncordon {node}`{before}"
        ) from problem


def _change(*, closed: bool) -> object:
    mark = MARKED if closed else None
    return {"metadata": {"annotations": {MARK: mark}}, "spec": {"unschedulable": closed or None}}
