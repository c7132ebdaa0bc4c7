"""The nodes of a pool: by the label of a provider or an autoscaler that names it, or by any label."""

from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.meanings.node_pools import pool_of
from gpufleet.kube.objects.node import Node
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import listed
from gpufleet.whatif.request import REMOVE_POOL


def nodes_of_pool(picture: Picture, pool: str) -> list[Node]:
    """The nodes of a pool by its name, or of a ``LABEL=VALUE``, by name. Raises InputError where there are
    none.
    """
    label, equals, value = pool.partition("=")
    nodes: list[Node] = sorted(picture.all(resources.NODES), key=lambda node: node.metadata.name)
    if equals:
        found = [node for node in nodes if node.metadata.labels.get(label) == value]
    else:
        found = [node for node in nodes if pool and pool_of(node.metadata.labels) == pool]
    if not found:
        raise _unknown(pool, sorted({pool_of(node.metadata.labels) for node in nodes} - {""}))
    return found


def _unknown(pool: str, pools: list[str]) -> InputError:
    near = nearest(pool, pools)
    if near is not None:
        expected = f"a pool that is there; did you mean {harmless(near)}?"
    elif pools:
        expected = f"a pool that is there, such as {listed(pools)}, or LABEL=VALUE of its nodes"
    else:
        expected = "LABEL=VALUE of its nodes: no label of a provider names a pool here"
    return InputError("no node is in such a pool", field=REMOVE_POOL, value=pool, expected=expected)
