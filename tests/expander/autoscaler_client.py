"""Cluster Autoscaler's side of the question: its messages, its connection, and what it makes of an answer.

The rules are those of its gRPC client (pkg/expander/grpcplugin of Cluster Autoscaler 1.37): no options mean
that nothing is bought, an error means that all options stay, and groups that it did not offer are dropped.
"""

from collections.abc import Sequence

import grpc

from gpufleet.expander.protocol import expander_pb2 as api
from gpufleet.expander.protocol.question import Option

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 128 << 20
METHOD = "/grpcplugin.Expander/BestOptions"


def question(options: Sequence[Option], *, packed: bool) -> api.BestOptionsRequest:
    """The question; ``packed`` is the form since Kubernetes 1.35."""
    asked = api.BestOptionsRequest()
    for one in options:
        pods = [
            api.Pod(metadata=api.ObjectMeta(uid=pod.uid), spec=api.PodSpec(scheduler_name=pod.scheduler_name))
            for pod in one.pods
        ]
        said = asked.options.add(node_group_id=one.group, node_count=one.node_count, debug=one.group)
        node = _node(one)
        if packed:
            said.pod_bytes.extend(pod.SerializeToString() for pod in pods)
            asked.node_bytes_map[one.group] = node.SerializeToString()
        else:
            said.pod.extend(pods)
            asked.node_map[one.group].CopyFrom(node)
    return asked


def _node(option: Option) -> api.Node:
    node = option.node
    amounts = {name: api.Quantity(string=amount) for name, amount in node.status.allocatable.items()}
    taints = [api.Taint(key=one.key, value=one.value, effect=one.effect) for one in node.spec.taints]
    return api.Node(
        metadata=api.ObjectMeta(name=node.metadata.name, labels=node.metadata.labels),
        spec=api.NodeSpec(taints=taints),
        status=api.NodeStatus(allocatable=amounts),
    )


async def best_options(
    address: str, authority: bytes, asked: api.BestOptionsRequest, timeout_s: float = TIMEOUT_S
) -> list[str]:
    """The groups that the autoscaler goes on with."""
    offered = [one.node_group_id for one in asked.options]
    credentials = grpc.ssl_channel_credentials(authority)
    limit = [("grpc.max_receive_message_length", ANSWER_BYTES_MAX)]
    async with grpc.aio.secure_channel(address, credentials, limit) as channel:
        call = channel.unary_unary(
            METHOD, api.BestOptionsRequest.SerializeToString, api.BestOptionsResponse.FromString
        )
        try:
            answer: api.BestOptionsResponse = await call(asked, timeout=timeout_s)
        except grpc.aio.AioRpcError:
            return offered
    if not answer.options:
        return []
    known = [one.node_group_id for one in answer.options if one.node_group_id in offered]
    return known or offered
