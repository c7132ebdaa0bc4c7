"""How soon a HorizontalPodAutoscaler acts on the use of a GPU, and how old the value is that it is told.

``gpufleet up`` starts all parts: a real node whose pods hold simulated GPUs, the agent at its usual pace,
``gpufleet metrics``, and Kubernetes' own autoscaler with its period of fifteen seconds. A label of a pod says
how busy it keeps its GPU, so the time from its change to another number of replicas holds everything: how old
readings are, how long a page is kept, the autoscaler's period, and its writes. ``bench.see`` publishes it.
"""

import contextlib
import datetime as dt
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import queue_wait
from bench.figures import Figure, figure
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node import machine
from tests.metrics.running_apis import CUSTOM, PODS, asked, replicas
from tests.waiting import until

SERVICE = Path(__file__).parents[1] / "examples" / "autoscaling"
NAME = "serve"
OF_SERVICE = f"{PODS}?labelSelector=app%3D{NAME}"
VALUES = f"{CUSTOM}/namespaces/default/pods/*/gpufleet_pod_gpu_used_ratio?labelSelector=app%3D{NAME}"
BUSY = "gpufleet.io/simulated-busy-percent"
MERGE = "application/merge-patch+json"

ROUNDS = 3
"""Each has an act upwards and one downwards."""

PHASE_S = 5.0
"""Each round begins at another moment of the autoscaler's period of fifteen seconds."""

ACTS_S = 25.0
"""Target: what happens to a GPU is acted on within so much."""

AGE_S = 10.0
"""Target: the same without the autoscaler's period."""

ASKED = 10
"""So often it is asked how old a value is, at moments that chance chooses."""

WAIT_S = 180.0
"""Long enough for what goes wrong to be a figure, and no end without one."""


def problem() -> str:
    """Why there can be no real node here; "" if there can."""
    return machine.problem() or ""


@contextlib.contextmanager
def started() -> Iterator[Callable[[], list[Figure]]]:
    """A service on the real node runs; what is given measures."""
    with _cluster() as cluster, cluster.api() as api, cluster.api() as of_queue:
        manifests.install(api, SERVICE)
        queue_wait.furnish(of_queue)
        until(lambda: _served_ages(api) != [], WAIT_S)
        yield lambda: _side_by_side(api, of_queue)


def _side_by_side(api: Api, of_queue: Api) -> list[Figure]:
    """What is said of GPUs, and of a queue meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        queue = pool.submit(queue_wait.figures, of_queue)
        return [*_figures(api), *queue.result()]


def _figures(api: Api) -> list[Figure]:
    """The slowest act, and the oldest value."""
    ages_s, chance = [], random.Random(1)
    for _ in range(ASKED):
        # As if autoscalers asked at any time, also long after the one before.
        time.sleep(chance.uniform(0.2, 12.0))
        ages_s += _served_ages(api)
    taken_s = [acted_s for number in range(ROUNDS) for acted_s in _round(api, PHASE_S * number)]
    acts, values = f"worst of {len(taken_s)}", f"oldest of {len(ages_s)}"
    return [
        figure(
            f"metrics: use of a GPU to more or fewer replicas, {acts}", max(taken_s), "s", "lower", ACTS_S
        ),
        figure(f"metrics: age of a GPU's value when it is told, {values}", max(ages_s), "s", "lower", AGE_S),
    ]


def _round(api: Api, phase_s: float) -> tuple[float, float]:
    """The seconds from more work to another replica, and from less work to one replica again."""
    until(lambda: replicas(api, NAME) == 1 and len(_served_ages(api)) == 1, WAIT_S)
    time.sleep(phase_s)
    up_s = _acts(api, 95, 2)
    until(lambda: len(_served_ages(api)) == 2, WAIT_S)
    time.sleep(phase_s)
    return up_s, _acts(api, 5, 1)


def _acts(api: Api, busy_percent: int, count: int) -> float:
    """The seconds from this use of all GPUs to this number of replicas."""
    began_s = time.monotonic()
    _keep_busy(api, busy_percent)
    until(lambda: replicas(api, NAME) == count, WAIT_S)
    return time.monotonic() - began_s


def _keep_busy(api: Api, percent: int) -> None:
    for pod in api.call("GET", OF_SERVICE)["items"]:
        body = {"metadata": {"labels": {BUSY: str(percent)}}}
        api.call("PATCH", f"{PODS}/{pod['metadata']['name']}", body, MERGE)


def _served_ages(api: Api) -> list[float]:
    """How old each pod's value is that is told now."""
    status, document = asked(api, VALUES)
    now = dt.datetime.now(dt.UTC)
    if status != 200:
        return []
    return [(now - dt.datetime.fromisoformat(one["timestamp"])).total_seconds() for one in document["items"]]


@contextlib.contextmanager
def _cluster() -> Iterator[LocalCluster]:
    """A cluster that a person would start."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        start = ("up", "--real-node", "--nodes=0", "--metrics-apis", "--no-web")
        up = subprocess.run(_command(*start), check=True, env=environment, stdout=subprocess.PIPE, text=True)
        kubeconfig = Path(up.stdout.strip().removeprefix("export KUBECONFIG=").strip("'"))
        try:
            yield LocalCluster.at(kubeconfig.parent)
        finally:
            subprocess.run(_command("down"), check=True, env=environment)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gpufleet", *words]
