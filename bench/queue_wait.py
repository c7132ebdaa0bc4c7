"""How soon a HorizontalPodAutoscaler acts on pods that wait in a queue.

Pods come that the quota of their queue does not let in, and go again. The time from their coming to more
replicas holds everything: how far apart the scheduler's looks at what waits are, how long its page is kept,
the autoscaler's period of fifteen seconds, and its writes. ``bench.gpu_use`` starts the cluster, and
``bench.see`` publishes the figure.
"""

import time

from bench.figures import Figure, figure
from gpufleet.localkube.access.api import Api
from tests.metrics.running_apis import PODS, autoscaler, deployment, replicas, simulated_node
from tests.scheduler.test_queues_on_a_real_server import add_pod, add_queue
from tests.waiting import until

QUEUE, WORKER, NODE = "batch", "worker", "without-gpus"
WAITING = 3
"""As many replicas are wanted at once: an autoscaler adds at most four at a time."""

ROUNDS = 3
"""Each has an act upwards and one downwards."""

PHASE_S = 5.0
"""Each round begins at another moment of the autoscaler's period."""

ACTS_S = 25.0
"""Target: what waits is acted on within so much."""

WAIT_S = 180.0
"""Long enough for what goes wrong to be a figure, and no end without one."""


def furnish(api: Api) -> None:
    """A queue that lets nothing in, and a workload with an autoscaler that follows it."""
    add_queue(api, QUEUE, quotas=[{"resource": "gpu", "nominal": 0, "borrowingLimit": 0}])
    simulated_node(api, NODE)
    deployment(api, WORKER, 1, NODE)
    described = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "name": QUEUE}
    target = {"type": "AverageValue", "averageValue": "1"}
    metric = {"metric": {"name": "gpufleet_queue_pending_pods"}, "describedObject": described}
    autoscaler(api, WORKER, {"type": "Object", "object": {**metric, "target": target}}, least=1)


def figures(api: Api) -> list[Figure]:
    """The slowest act."""
    taken_s = [acted_s for number in range(ROUNDS) for acted_s in _round(api, number)]
    name = f"metrics: pods that wait in a queue to more or fewer replicas, worst of {len(taken_s)}"
    return [figure(name, max(taken_s), "s", "lower", ACTS_S)]


def _round(api: Api, number: int) -> tuple[float, float]:
    """The seconds from pods that wait to replicas for all, and from none to one replica again."""
    until(lambda: replicas(api, WORKER) == 1, WAIT_S)
    time.sleep(PHASE_S * number)
    names = [f"{QUEUE}-{number}-{one}" for one in range(WAITING)]
    began_s = time.monotonic()
    for name in names:
        add_pod(api, name, QUEUE, 1)
    until(lambda: replicas(api, WORKER) == WAITING, WAIT_S)
    up_s = time.monotonic() - began_s
    time.sleep(PHASE_S * number)
    began_s = time.monotonic()
    for name in names:
        api.call("DELETE", f"{PODS}/{name}")
    until(lambda: replicas(api, WORKER) == 1, WAIT_S)
    return up_s, time.monotonic() - began_s
