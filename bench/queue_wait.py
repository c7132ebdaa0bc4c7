"""How soon a HorizontalPodAutoscaler acts on pods that wait in a queue, and how old the value is it is told.

Pods come that the quota of their queue does not let in, and go again. The age of the value is the time from
their coming or going until it is served: how far apart the scheduler's looks at what waits are, and how long
its page is kept. The time to another number of replicas has the autoscaler's period of fifteen seconds and
its writes in it, too. ``bench.gpu_use`` starts the cluster, and ``bench.see`` publishes the figures.
"""

import time
from typing import NamedTuple

from bench.figures import Figure, figure
from gpufleet.localkube.access.api import Api
from tests.metrics.running_apis import (
    CUSTOM,
    PODS,
    asked,
    autoscaler,
    condition,
    deployment,
    replicas,
    simulated_node,
)
from tests.scheduler.test_queues_on_a_real_server import add_pod, add_queue
from tests.waiting import until

QUEUE, WORKER, NODE = "batch", "worker", "without-gpus"
METRIC = "gpufleet_queue_pending_pods"
VALUE = f"{CUSTOM}/fleetqueues.gpufleet.io/{QUEUE}/{METRIC}"
WAITING = 3
"""As many replicas are wanted at once: an autoscaler adds at most four at a time."""

ROUNDS = 3
"""Each has an act upwards and one downwards."""

PHASE_S = 5.0
"""Each round begins at another moment of the autoscaler's period."""

ACTS_S = 25.0
"""Target: what waits is acted on within so much."""

AGE_S = 10.0
"""Target: the same without the autoscaler's period."""

WAIT_S = 180.0
"""Long enough for what goes wrong to be a figure, and no end without one."""


def furnish(api: Api) -> None:
    """A queue that lets nothing in, and a workload with an autoscaler that follows it."""
    add_queue(api, QUEUE, quotas=[{"resource": "gpu", "nominal": 0, "borrowingLimit": 0}])
    simulated_node(api, NODE)
    deployment(api, WORKER, 1, NODE)
    described = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "name": QUEUE}
    target = {"type": "AverageValue", "averageValue": "1"}
    metric = {"metric": {"name": METRIC}, "describedObject": described}
    autoscaler(api, WORKER, {"type": "Object", "object": {**metric, "target": target}}, least=1)


class Act(NamedTuple):
    """Seconds from another number of waiting pods until that is served, and until the replicas follow."""

    served_s: float
    replicas_s: float


def figures(api: Api) -> list[Figure]:
    """The slowest act, and the oldest value."""
    # kube-controller-manager asks each half minute which kinds there are, so to an autoscaler in a cluster
    # that is new there is no FleetQueue at first.
    until(lambda: condition(api, WORKER, "ScalingActive").get("status") == "True", WAIT_S)
    acts = [act for number in range(ROUNDS) for act in _round(api, number)]
    worst, oldest = f"worst of {len(acts)}", f"oldest of {len(acts)}"
    acted_s, age_s = max(act.replicas_s for act in acts), max(act.served_s for act in acts)
    return [
        figure(
            f"metrics: pods that wait in a queue to more or fewer replicas, {worst}",
            acted_s,
            "s",
            "lower",
            ACTS_S,
        ),
        figure(f"metrics: age of a queue's value when it is told, {oldest}", age_s, "s", "lower", AGE_S),
    ]


def _round(api: Api, number: int) -> tuple[Act, Act]:
    """Pods come until there are replicas for all, and go until there is one again."""
    until(lambda: replicas(api, WORKER) == 1, WAIT_S)
    names = [f"{QUEUE}-{number}-{one}" for one in range(WAITING)]
    time.sleep(PHASE_S * number)
    began_s = time.monotonic()
    for name in names:
        add_pod(api, name, QUEUE, 1)
    up = _followed(api, began_s, WAITING, WAITING)
    time.sleep(PHASE_S * number)
    began_s = time.monotonic()
    for name in names:
        api.call("DELETE", f"{PODS}/{name}")
    return up, _followed(api, began_s, 0, 1)


def _followed(api: Api, began_s: float, waiting: int, count: int) -> Act:
    """Wait until so many pods are said to wait, and until there are so many replicas."""
    until(lambda: _served(api) == str(waiting), WAIT_S)
    served_s = time.monotonic() - began_s
    until(lambda: replicas(api, WORKER) == count, WAIT_S)
    return Act(served_s, time.monotonic() - began_s)


def _served(api: Api) -> str:
    """How many pods are said to wait; empty while that is unknown."""
    status, document = asked(api, VALUE)
    return str(document["items"][0]["value"]) if status == 200 else ""
