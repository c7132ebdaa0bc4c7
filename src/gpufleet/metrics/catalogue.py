"""The metrics that are served, by name: of what, from where, and how series of one object become one value.

Names of serving engines are their own. A queue's length is summed over models and engines of a pod; of a part
that is full (KV cache), the fullest counts. Counters and histograms are left out: an autoscaler would need
their rate.
"""

import enum
from collections.abc import Iterable

import msgspec

from gpufleet.metrics.reading import NODE_KIND, POD_KIND, QUEUE_KIND
from gpufleet.metrics.wire.documents import ServedMetric


class From(enum.Enum):
    """Which source has a metric."""

    AGENT = "the agent of the node"
    ENGINE = "the pod itself, or Prometheus"
    SCHEDULER = "the scheduler that leads"


class Together(enum.Enum):
    """How several series of one object become one value."""

    SUM = "sum"
    MEAN = "mean"
    MOST = "most"

    def of(self, amounts: Iterable[float]) -> float:
        """Several values made one; there is at least one."""
        found = list(amounts)
        if self is Together.MOST:
            return max(found)
        return sum(found) if self is Together.SUM else sum(found) / len(found)


class Metric(msgspec.Struct, frozen=True):
    """A metric; ``resources`` are the objects that have it.

    ``external``: it is served without an object, too.
    """

    name: str
    source: From
    together: Together
    help: str
    resources: tuple[str, ...] = ()
    external: bool = False


_PODS, _NODES, _QUEUES = (POD_KIND.resource,), (NODE_KIND.resource,), (QUEUE_KIND.resource,)


def _of_agent(name: str, together: Together, text: str, resources: tuple[str, ...]) -> Metric:
    return Metric(name, From.AGENT, together, text, resources)


def _of_engine(name: str, together: Together, text: str) -> Metric:
    return Metric(name, From.ENGINE, together, text, _PODS, external=True)


def _of_queue(name: str, text: str) -> Metric:
    together = Together.MOST if name.endswith("seconds") else Together.SUM
    return Metric(name, From.SCHEDULER, together, text, _QUEUES, external=True)


POD_USED = "gpufleet_pod_gpu_used_ratio"
POD_MEMORY = "gpufleet_pod_gpu_memory_used_bytes"
POD_POWER = "gpufleet_pod_gpu_power_watts"
NODE_BUSY = "gpufleet_node_gpu_busy_ratio"
NODE_MEMORY = "gpufleet_node_gpu_memory_used_bytes"
NODE_POWER = "gpufleet_node_gpu_power_watts"
QUEUE_PENDING = "gpufleet_queue_pending_pods"
QUEUE_WAIT = "gpufleet_queue_oldest_wait_seconds"

METRICS = (
    _of_agent(POD_USED, Together.MEAN, "How much the pod's GPUs compute, 0 to 1, over all of them", _PODS),
    _of_agent(POD_MEMORY, Together.SUM, "Device memory that the pod's programs use", _PODS),
    _of_agent(POD_POWER, Together.SUM, "Power that the pod's GPUs draw for it", _PODS),
    _of_agent(NODE_BUSY, Together.MEAN, "How much the node's GPUs compute, 0 to 1, over all of them", _NODES),
    _of_agent(NODE_MEMORY, Together.SUM, "Device memory that is in use on the node", _NODES),
    _of_agent(NODE_POWER, Together.SUM, "Power that the node's GPUs draw", _NODES),
    _of_queue(QUEUE_PENDING, "Pods that wait in the queue"),
    _of_queue(QUEUE_WAIT, "Age of the pod that waits longest in the queue"),
    _of_engine("vllm:num_requests_waiting", Together.SUM, "Requests that wait in vLLM"),
    _of_engine("vllm:num_requests_running", Together.SUM, "Requests that vLLM works on"),
    _of_engine("vllm:kv_cache_usage_perc", Together.MOST, "Part of vLLM's KV cache that is in use, 0 to 1"),
    _of_engine("sglang:num_queue_reqs", Together.SUM, "Requests that wait in SGLang"),
    _of_engine("sglang:num_running_reqs", Together.SUM, "Requests that SGLang works on"),
    _of_engine("sglang:token_usage", Together.MOST, "Part of SGLang's KV cache that is in use, 0 to 1"),
    _of_engine("tgi_queue_size", Together.SUM, "Requests that wait in Text Generation Inference"),
    _of_engine("nv_inference_pending_request_count", Together.SUM, "Requests that wait in Triton"),
    _of_engine(
        "inference_extension_flow_control_queue_size",
        Together.SUM,
        "Requests that wait in the inference gateway, also while no pod serves the model",
    ),
    _of_engine(
        "inference_pool_average_kv_cache_utilization",
        Together.MOST,
        "Part of the KV cache that is in use over a pool of the inference gateway, 0 to 1",
    ),
)
BY_NAME = {one.name: one for one in METRICS}
ENGINE_NAMES = frozenset(one.name for one in METRICS if one.source is From.ENGINE)


def custom_metrics() -> list[ServedMetric]:
    """The metrics of objects, as discovery lists them.

    An autoscaler asks for those of a queue in its own namespace.
    """
    return [
        ServedMetric(one.name, resource, resource != NODE_KIND.resource)
        for one in METRICS
        for resource in one.resources
    ]


def external_metrics() -> list[ServedMetric]:
    """The external metrics, as discovery lists them."""
    return [ServedMetric(one.name) for one in METRICS if one.external]
