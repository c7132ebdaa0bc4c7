"""A question of Cluster Autoscaler as values, in every form that its versions send.

A version sends each node and pod as a message, as the bytes of one, or as both.
"""

from collections.abc import Iterator

import msgspec
from google.protobuf.message import DecodeError

from gpufleet.expander.protocol import expander_pb2 as api
from gpufleet.kube.objects.node import Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import InputError

_VIRTUAL = frozenset({"ProvisioningRequest", "CapacityBuffer"})
"""The owners of pods that stand for room which is wanted."""


class OfferedPod(msgspec.Struct, frozen=True):
    """A pod that an option would help, as the autoscaler believes.

    One ``is_virtual`` that the autoscaler made up for a request or a buffer: the cluster has no such pod.
    """

    uid: PodUid
    scheduler_name: str
    is_virtual: bool = False


class Option(msgspec.Struct, frozen=True):
    """So many more nodes of a group; ``node`` is what each would be like."""

    group: str
    node_count: int
    pods: tuple[OfferedPod, ...]
    node: Node


def read_question(asked: api.BestOptionsRequest) -> tuple[Option, ...]:
    """The options. Raises InputError for a question that cannot be read."""
    return tuple(
        Option(
            one.node_group_id,
            one.node_count,
            tuple(map(_offered, _pods(one))),
            _node(asked, one.node_group_id),
        )
        for one in asked.options
    )


def _offered(pod: api.Pod) -> OfferedPod:
    owners = (one.kind for one in pod.metadata.owner_references)
    return OfferedPod(
        PodUid(pod.metadata.uid), pod.spec.scheduler_name, is_virtual=not _VIRTUAL.isdisjoint(owners)
    )


def _pods(option: api.Option) -> Iterator[api.Pod]:
    if option.pod:
        yield from option.pod
        return
    for position, packed in enumerate(option.pod_bytes):
        try:
            yield api.Pod.FromString(packed)
        except DecodeError as error:
            field = f"option {option.node_group_id}: podBytes[{position}]"
            raise InputError("holds no pod", field=field, expected="a v1.Pod in protobuf") from error


def _node(asked: api.BestOptionsRequest, group: str) -> Node:
    packed = asked.node_bytes_map.get(group)
    if packed is not None:
        try:
            return _read_node(api.Node.FromString(packed))
        except DecodeError as error:
            field = f"nodeBytesMap[{group}]"
            raise InputError("holds no node", field=field, expected="a v1.Node in protobuf") from error
    if group not in asked.node_map:
        raise InputError("no node is like it", field=f"option {group}", expected="a node for each option")
    return _read_node(asked.node_map[group])


def _read_node(said: api.Node) -> Node:
    return Node(
        NodeMetadata(name=said.metadata.name, labels=dict(said.metadata.labels)),
        NodeSpec(tuple(Taint(one.key, one.effect, one.value) for one in said.spec.taints)),
        NodeStatus({name: amount.string for name, amount in said.status.allocatable.items()}),
    )
