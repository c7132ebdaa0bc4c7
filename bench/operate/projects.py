"""What projects cost, on a real API server: how soon one is there, how soon drift is repaired, and memory.

`gpufleet operator --projects` runs as a process of its own. Its memory is its peak with so many projects
less its peak with none. Ready and repaired are measured beside these projects, several times, and the longest
counts. Each is polled, so it is told up to one step too long. ``bench.operate`` publishes the figures.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from bench.live.contender import cost
from bench.progress import say
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options, needed_programs
from gpufleet.localkube.processes import child
from gpufleet.localkube.processes.child import Child
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.releases import DEFAULT_KUBERNETES, release_of
from gpufleet.model.model_errors import WorldError
from gpufleet.progress.reporting import ToPerson

PROJECTS, TRIES, SEED = 1_000, 5, 20
MEMORY_MOST_MIB, READY_MOST_S, REPAIRED_MOST_S = 80.0, 5.0, 10.0
"""The limits of the project."""

STEP_S = 0.02
PATIENCE_S = 120.0
"""For so long may no project more become ready. Each is some ten objects, and a server that has other work
takes some ten a second.
"""

SETTLE_S = 5.0
"""Until a process that has started holds what it holds with no projects."""

GROUP = "/apis/gpufleet.io/v1alpha1/gpuprojects"
NOTES = (
    (
        f"projects: {PROJECTS} (or --projects) of one namespace each, an owner and three members, on a real "
        f"API server; the longest of {TRIES} tries"
    ),
)


def project(name: str) -> dict[str, Any]:
    """A project that says most of what one may say."""
    return {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "GpuProject",
        "metadata": {"name": name},
        "spec": {
            "namespaces": [name],
            "members": [
                {"user": f"owner-{name}@example.com", "role": "Owner"},
                {"user": f"one-{name}@example.com", "role": "Member"},
                {"user": f"two-{name}@example.com", "role": "Member"},
                {"group": f"team-{name}", "role": "Viewer"},
            ],
            "ownQueue": {"quotas": [{"resource": "gpu", "nominal": "8"}]},
            "namespaceQuota": {"requests.nvidia.com/gpu": 8, "limits.memory": "1Ti"},
            "containerDefaults": {"memory": "1Gi"},
            "network": {"egress": ["10.0.0.0/8"], "ingressNamespaces": ["monitoring"]},
            "images": {"policy": "Deny", "registries": ["registry.example.com"]},
            "idleRule": {"after": "2h"},
        },
    }


def figures(projects: int = PROJECTS) -> list[Figure]:
    """Memory first, then times beside all projects."""
    tries = min(TRIES, projects)
    with _cluster() as cluster, cluster.api() as api, _operator(cluster) as operator:
        time.sleep(SETTLE_S)
        before_mib = cost(operator.pid).peak_mib
        say(f"making {projects} projects")
        began_s, began_cpu_s = time.monotonic(), cost(cluster.pid("kube-apiserver")).cpu_s
        for number in range(projects):
            api.call("POST", GROUP, project(f"team-{number}"))
        _await_all(api, projects)
        all_s = time.monotonic() - began_s
        # Other work of the machine makes projects wait, and changes little of this.
        each_cpu_s = (cost(cluster.pid("kube-apiserver")).cpu_s - began_cpu_s) / projects
        after_mib = cost(operator.pid).peak_mib
        say("ready and repaired")
        ready_s = [_until_ready(api, f"new-{number}") for number in range(tries)]
        chosen = random.Random(SEED).sample(range(projects), tries)
        repaired_s = [_until_repaired(api, f"team-{number}") for number in chosen]
    return [
        figure(f"projects: memory of {projects:,}", after_mib - before_mib, "MiB", "lower", MEMORY_MOST_MIB),
        figure("projects: one is ready", max(ready_s), "s", "lower", READY_MOST_S),
        figure("projects: drift is repaired", max(repaired_s), "s", "lower", REPAIRED_MOST_S),
        figure(f"projects: {projects:,} at once are ready", all_s, "s", "lower"),
        figure("projects: processor time of the server for one", each_cpu_s * 1000, "ms", "lower"),
    ]


@contextmanager
def _cluster() -> Iterator[LocalCluster]:
    options = Options()
    wanted = {name: release_of(name, DEFAULT_KUBERNETES) for name in needed_programs(options)}
    paths = binaries.paths(binaries.find(wanted, ToPerson("bench: ")))
    with (
        tempfile.TemporaryDirectory(prefix="bench-projects-") as folder,
        LocalCluster.start(Path(folder) / "cluster", "bench", paths, options) as cluster,
    ):
        with cluster.api() as api:
            manifests.install(api)
        yield cluster


@contextmanager
def _operator(cluster: LocalCluster) -> Iterator[Child]:
    options = ("--projects", f"--kubeconfig={cluster.kubeconfig}", "--listen=127.0.0.1:0")
    command = (sys.executable, "-m", "gpufleet", "operator", *options)
    started = child.start("operator", command, cluster.folder / "logs" / "operator.log")
    try:
        yield started
    finally:
        started.stop()


def _await_all(api: Api, projects: int) -> None:
    ready, since_s = 0, time.monotonic()
    while ready < projects:
        count = _ready_count(api)
        if count > ready:
            ready, since_s = count, time.monotonic()
        if time.monotonic() - since_s > PATIENCE_S:
            raise WorldError(
                f"{ready} of {projects} projects are ready, and none more for {PATIENCE_S:.0f} s"
            )


def _ready_count(api: Api) -> int:
    time.sleep(1.0)
    return sum(_is_ready(one) for one in api.call("GET", GROUP)["items"])


def _is_ready(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _until_ready(api: Api, name: str) -> float:
    began_s = time.monotonic()
    api.call("POST", GROUP, project(name))
    _await(lambda: _is_ready(api.call("GET", f"{GROUP}/{name}")), f"project {name} is ready")
    return time.monotonic() - began_s


def _until_repaired(api: Api, name: str) -> float:
    path = f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies/gpufleet-project"
    began_s = time.monotonic()
    api.call("DELETE", path)
    _await(lambda: api.request("GET", path)[0] == 200, f"the network policy of {name} is back")
    return time.monotonic() - began_s


def _await(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end_s:
            raise WorldError(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(STEP_S)
