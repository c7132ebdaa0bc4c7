"""The board of those who serve models: vLLM's own figures beside the GPUs that the engines hold.

Names are those of vLLM's metrics, with the labels ``namespace`` and ``pod`` that a PodMonitor puts on them.
The replicas are those of kube-state-metrics.
"""

from gpufleet.dashboards.board import Board, Colour, Panel, Query, Row, Threshold, Unit
from gpufleet.dashboards.lines import lines_from_0
from gpufleet.dashboards.promql import growth, legend, one_per, quantile, ratio, series
from gpufleet.dashboards.variables import CLUSTER, NAMESPACE

OF_NAMESPACE = 'namespace=~"$namespace"'
MODEL = "namespace, model_name"
BY_MODEL = legend("namespace", "model_name")
NO_ENGINE = "no vLLM engine is known"
NO_AUTOSCALER = "kube-state-metrics knows of no HorizontalPodAutoscaler"


def vllm(name: str) -> str:
    """A metric of vLLM."""
    return series(f"vllm:{name}", OF_NAMESPACE)


def total(name: str) -> str:
    """A gauge over all engines of a model."""
    return f"sum by (cluster, {MODEL}) (max by (cluster, {MODEL}, pod, engine) ({vllm(name)}))"


def lines(title: str, description: str, queries: tuple[Query, ...], unit: Unit) -> Panel:
    """Lines that there are only while an engine runs."""
    return lines_from_0(
        title,
        description,
        queries,
        unit,
        width=8,
        empty_when_well=NO_ENGINE,
    )


GENERATED = growth(vllm("generation_tokens_total"))
HELD_BY_POD = (
    "sum by (cluster, namespace, pod) ("
    + one_per("namespace, pod, node, uuid, mig_id", series("gpufleet_pod_gpu_held_ratio", OF_NAMESPACE))
    + ")"
)
HELD_BY_ENGINES = (
    "sum by (cluster, namespace, model_name) (sum by (cluster, namespace, pod, model_name) (0 * "
    + vllm("num_requests_running")
    + f") + on (cluster, namespace, pod) group_left () {HELD_BY_POD})"
)
"""The GPUs of the pods whose engines serve a model."""

REQUESTS = Row(
    "Do requests wait?",
    (
        lines(
            "Requests that wait and run",
            "Over all engines of a model. Requests that wait for long ask for another replica.",
            (
                Query(total("num_requests_waiting"), f"wait: {BY_MODEL}"),
                Query(total("num_requests_running"), f"run: {BY_MODEL}"),
            ),
            Unit.COUNT,
        ),
        lines(
            "First token, 95 of 100 within",
            "Time from the request to its first token.",
            (
                Query(
                    quantile(0.95, vllm("time_to_first_token_seconds_bucket"), *MODEL.split(", ")), BY_MODEL
                ),
            ),
            Unit.SECONDS,
        ),
        lines_from_0(
            "Cache of keys and values in use",
            "The fullest engine of each model. Near 100 % requests are preempted and computed again.",
            (Query(f"max by (cluster, {MODEL}) ({vllm('kv_cache_usage_perc')})", BY_MODEL),),
            Unit.RATIO,
            width=8,
            maximum=1,
            thresholds=(Threshold(0.95, Colour.WARNING),),
            empty_when_well=NO_ENGINE,
        ),
    ),
)

OUTPUT = Row(
    "What comes out",
    (
        lines(
            "Tokens a second",
            "Tokens that the engines of a model generate.",
            (Query(f"sum by (cluster, {MODEL}) ({GENERATED})", BY_MODEL),),
            Unit.PER_SECOND,
        ),
        lines(
            "Tokens a second for each GPU",
            "Tokens a second, divided by the GPUs that the pods of the engines hold.",
            (Query(ratio(f"sum by (cluster, {MODEL}) ({GENERATED})", HELD_BY_ENGINES, MODEL), BY_MODEL),),
            Unit.PER_SECOND,
        ),
        lines(
            "Requests preempted",
            "Requests that lost their place in the cache, a second; their work is done twice.",
            (Query(f"sum by (cluster, {MODEL}) ({growth(vllm('num_preemptions_total'))})", BY_MODEL),),
            Unit.PER_SECOND,
        ),
    ),
)

REPLICAS = Row(
    "Replicas and GPUs",
    (
        lines_from_0(
            "Replicas: wanted and there",
            "What each HorizontalPodAutoscaler wants, and what there is. A gap that stays is work that "
            "waits for "
            "room: see the board Queues.",
            tuple(
                Query(
                    one_per(
                        "namespace, horizontalpodautoscaler",
                        series(f"kube_horizontalpodautoscaler_status_{name}_replicas", OF_NAMESPACE),
                    ),
                    f"{words}: {legend('namespace', 'horizontalpodautoscaler')}",
                )
                for name, words in (("desired", "wanted"), ("current", "there"))
            ),
            Unit.COUNT,
            empty_when_well=NO_AUTOSCALER,
        ),
        lines_from_0(
            "GPUs held by pods of the namespace",
            "What pods hold, and what of it computes.",
            (
                Query(f"sum by (cluster, namespace) ({HELD_BY_POD})", f"held: {legend('namespace')}"),
                Query(
                    "sum by (cluster, namespace) ("
                    + one_per(
                        "namespace, pod, node, uuid, mig_id",
                        series("gpufleet_pod_gpu_held_ratio", OF_NAMESPACE),
                    )
                    + " * on (cluster, namespace, pod, node, uuid, mig_id) "
                    + one_per(
                        "namespace, pod, node, uuid, mig_id",
                        series("gpufleet_pod_gpu_used_ratio", OF_NAMESPACE),
                    )
                    + ")",
                    f"computing: {legend('namespace')}",
                ),
            ),
            Unit.COUNT,
            empty_when_well="no pod holds a GPU",
        ),
    ),
)

SERVING = Board(
    "gpufleet-serving",
    "Serving",
    "For those who serve models: whether requests wait, what comes out, and what GPUs it takes.",
    (REQUESTS, OUTPUT, REPLICAS),
    (CLUSTER, NAMESPACE),
    since="now-3h",
)
