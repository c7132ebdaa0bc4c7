"""The node has too few GPUs of a model that the pod accepts."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model import gpu_model
from gpufleet.model.phrases import listed

BIT = 1 << 7


def finding(case: Case) -> Finding:
    """The models that are asked for, and those that are there."""
    there = case.gpus_by_model
    have = case.gpus_in_words
    wanted = [str(model) for model in case.shape.gpu.models]
    that_would_do = " that would do" if any(model in there for model in wanted) else ""
    why = f"no node{that_would_do} has a GPU of the model {listed(wanted)}; the cluster has {have}"
    near = [gpu_model.nearest_name(model) for model in wanted if gpu_model.find(model) is None]
    ways = [f"did you mean {model}?" for model in near if model]
    return Finding(why, (*ways, f"ask for {case.gpus_of_its_resource_in_words}, or for any model"))


REASON = NodeReason(
    "gpu-model",
    BIT,
    height=14,
    kind=Kind.CHANGE,
    words="without the GPU model asked for",
    remedy="the pod accepted their model of GPU",
    finding=finding,
)
