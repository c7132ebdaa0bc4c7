"""Options of an autoscaler: groups of H100 nodes and of nodes without GPUs."""

import datetime as dt
import time

from gpufleet.cluster.settings import Settings
from gpufleet.expander.answering import Answered, Answering
from gpufleet.expander.judgement import Seen
from gpufleet.expander.protocol.question import OfferedPod, Option
from gpufleet.kube.objects.node import Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from gpufleet.model.identifiers import PodUid
from gpufleet.plan.instance_types import read_catalogue
from tests.cluster.snapshots.small_snapshots import AT, Fleet

POOL = "cloud.google.com/gke-nodepool"
CATALOGUE = read_catalogue(
    "instance_type,gpus,gpu_model,cpus,memory_gib,price,currency\n"
    "one,1,H100-80GB,16,256,7,USD\n"
    "eight,8,H100-80GB,192,2048,50,USD\n",
    "types.csv",
)


def group_node(group: str, *, gpus: int, instance_type: str = "", taints: tuple[Taint, ...] = ()) -> Node:
    """A node as the autoscaler says that a group would have more of."""
    labels = {
        POOL: group,
        "node.kubernetes.io/instance-type": instance_type,
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "kubernetes.io/os": "linux",
    }
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    return Node(NodeMetadata(name=f"template-{group}", labels=labels), NodeSpec(taints), NodeStatus(amounts))


def option(
    group: str, count: int, *pods: str, gpus: int = 8, instance_type: str = "", scheduler: str = "gpufleet"
) -> Option:
    """So many more nodes of a group for pods by name."""
    offered = tuple(OfferedPod(PodUid(f"uid-of-{name}"), scheduler) for name in pods)
    return Option(group, count, offered, group_node(group, gpus=gpus, instance_type=instance_type))


def gang(fleet: Fleet, name: str, members: int, *, gpus: int = 8, **spec: object) -> tuple[str, ...]:
    """A gang that waits; the names of its pods."""
    names = tuple(f"{name}-{number}" for number in range(members))
    for one in names:
        fleet.pod(one, gpus=gpus, job=name, gang=members, **spec)  # type: ignore[arg-type]
    return names


def answered(
    fleet: Fleet, *options: Option, answering: Answering | None = None, after_s: float = 0.0
) -> Answered:
    """The answer to these options."""
    at = AT + dt.timedelta(seconds=after_s)
    seen = Seen(fleet.picture, Settings(identity="test"), at)
    answering = answering or Answering(CATALOGUE)
    found = answering.answer(seen, options, time.monotonic() + 3600)
    answering.sent(found)
    return found


def groups(answer: Answered, *options: Option) -> list[str]:
    """The groups that are answered."""
    return [options[at].group for at in answer.choice.options]
