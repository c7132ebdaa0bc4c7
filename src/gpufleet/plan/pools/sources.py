"""NodePools and NodeOverlays out of a file or a cluster."""

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpufleet.cluster.watching.mirrors import Watched
from gpufleet.cluster.watching.picture import Picture, take_picture
from gpufleet.files.regular import read_regular, read_standard_input
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.objects.node_overlays import NodeOverlay
from gpufleet.kube.objects.node_pools import NodePool
from gpufleet.kube.resources import NODE_OVERLAYS, NODE_POOLS
from gpufleet.kube.yaml_documents import DOCUMENTS_MAX_BYTES, EXPECTED, objects_of
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.phrases import listed
from gpufleet.plan.pools.offers import POOLS, PoolObjects

CLUSTER = "cluster"
"""The word that means those of the cluster."""

STANDARD_INPUT = "-"
RIGHTS = "the right to list nodepools and nodeoverlays of karpenter.sh, or a file of them"
_WATCHED = (
    Watched(NODE_POOLS, NodePool, optional=True),
    Watched(NODE_OVERLAYS, NodeOverlay, optional=True),
)
Object = TypeVar("Object", NodePool, NodeOverlay)


def pools_of_file(path: str) -> PoolObjects:
    """The objects of a file of YAML; other kinds in it are passed over. Raises InputError."""
    if path == STANDARD_INPUT:
        name, text = "standard input", read_standard_input(DOCUMENTS_MAX_BYTES, field=POOLS)
    else:
        name, text = Path(path).name, read_regular(Path(path), DOCUMENTS_MAX_BYTES, field=POOLS)
    bodies = objects_of(text, name)
    pools = [_read(body, NodePool, name) for body in bodies if body.get("kind") == NODE_POOLS.name]
    overlays = [_read(body, NodeOverlay, name) for body in bodies if body.get("kind") == NODE_OVERLAYS.name]
    if not pools:
        expected = "kubectl get nodepools,nodeoverlays -o yaml"
        raise InputError("holds no NodePool", field=POOLS, where=name, expected=expected)
    return PoolObjects(tuple(pools), tuple(overlays), name)


def _read(body: dict[str, Any], kind: type[Object], where: str) -> Object:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise InputError(printable(str(error), 200), field=POOLS, where=where, expected=EXPECTED) from None


def pools_of_cluster(cluster: ClusterChoice) -> PoolObjects:
    """The objects of a cluster. Raises InputError where it has none, or they may not be listed."""
    picture = asyncio.run(_listed(cluster))
    if picture.forbidden:
        kinds = listed([kind.plural for kind in picture.forbidden])
        raise InputError(f"you may not list {kinds}", field=POOLS, value=CLUSTER, expected=RIGHTS)
    pools = tuple(picture.all(NODE_POOLS))
    if not pools:
        expected = "a cluster with Karpenter, or a file of NodePools"
        raise InputError("the cluster has no NodePool", field=POOLS, value=CLUSTER, expected=expected)
    return PoolObjects(pools, tuple(picture.all(NODE_OVERLAYS)), "the cluster")


async def _listed(cluster: ClusterChoice) -> Picture:
    async with connect(cluster, connections=len(_WATCHED)) as connection:
        return await take_picture(connection.client, _WATCHED)
