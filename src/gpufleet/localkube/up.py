"""Everything `gpufleet up` does: find the programs, start the control plane, furnish it, let it live.

If anything fails or the person presses Ctrl-C, nothing is left. ``cli.up`` reads the options and prints.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.localkube import manifests, metrics_apis, node_agent, persistent, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Component, Options, needed_programs
from gpufleet.localkube.metrics_apis import MetricsPorts
from gpufleet.localkube.node import images, machine
from gpufleet.localkube.processes.child import log_tail
from gpufleet.localkube.processes.folders import cluster_folder, is_locked, lock_of
from gpufleet.localkube.processes.room import check_room
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.releases import release_of
from gpufleet.localkube.simulated_nodes import SimulatedNodes
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.progress.durations import Step
from gpufleet.progress.logged import UnderWay, under_way
from gpufleet.progress.reporting import Progress

COMPONENT_STEP_S = 75.0
"""How long a step of a component is taken to last whose log does not say: that of compiling kernels."""


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """What a user wants: a cluster of this name and version with these pools of nodes.

    ``claim_gpus`` are further GPUs of the real node, which go to resource claims.
    With ``kube_scheduler`` Kubernetes' own scheduler runs too, for pods that name none. ``metrics_apis`` says
    where its component serves them, if it has one.
    """

    name: str
    kubernetes: str
    pools: Sequence[SimulatedNodes]
    binaries: Path | None = None
    components: Sequence[Component] = ()
    real_node: bool = False
    claim_gpus: int = 0
    kube_scheduler: bool = True
    metrics_apis: MetricsPorts | None = None

    @property
    def real_gpus(self) -> SimulatedNodes | None:
        """The GPUs that its real node has: those of the first pool with any."""
        return next((pool for pool in self.pools if pool.gpus_per_node), None)


def up(request: ClusterRequest, progress: Progress) -> LocalCluster:
    """A cluster that lives on when this process ends.

    InputError if one of this name runs already, FileWriteError if the disk has no room for it, ClusterError
    with the way out if it cannot be had.
    """
    if request.real_node:
        machine.check()
    folder = cluster_folder(request.name)
    if is_locked(lock_of(folder)):
        raise InputError(
            "a local cluster of this name is running",
            field="--name",
            value=request.name,
            expected=f"another name, or `gpufleet down --name {request.name}` first",
        )
    if persistent.remove_left_over(request.name):
        progress.say(f"removed what a cluster {request.name} left behind that ended without `gpufleet down`")
    check_room(folder)
    options = Options(
        kubernetes=request.kubernetes, real_node=request.real_node, kube_scheduler=request.kube_scheduler
    )
    wanted = {name: release_of(name, request.kubernetes) for name in (*needed_programs(options), "kubectl")}
    found = binaries.find(wanted, progress, request.binaries, any_client=True)
    progress.say(binaries.sentence(found))
    begun_s = time.monotonic()
    paths = binaries.paths(found)
    cluster = LocalCluster.start(folder, request.name, paths, options, progress.say, request.components)
    try:
        _furnish(cluster, request, progress)
        if request.metrics_apis is not None:
            metrics_apis.write_certificate(cluster)
        cluster.furnished()
        for component in request.components:
            if component.lease is not None:
                _await_component(cluster, component, progress)
        if request.real_node:
            _await_real_node(cluster, progress)
            _start_agent(cluster, request.real_gpus, request.claim_gpus, progress)
        if request.metrics_apis is not None:
            _register_metrics(cluster, request.metrics_apis, progress)
        cluster.keep()
    # Ctrl-C too: nothing of a cluster that was not finished stays.
    except BaseException:
        cluster.stop()
        raise
    progress.say(
        f"ready after {time.monotonic() - begun_s:.1f} s: Kubernetes {cluster.kubernetes} at {cluster.url}"
    )
    return cluster


def _await_component(cluster: LocalCluster, component: Component, progress: Progress) -> None:
    """Return when it is at work. A long step that its log tells of is told here too."""
    words, step = f"waiting for {component.name} to be at work", Step(f"start {component.name}", 5.0)
    with progress.during(words, lambda: "", step):
        if cluster.await_component(component, lambda log: under_way(log) is not None):
            return
    log = cluster.log_of(component)
    its = under_way(log_tail(log)) or UnderWay("starting")

    def so_far() -> str:
        now = under_way(log_tail(log))
        return "" if now is None else now.so_far

    def revised(_: float, expected_s: float) -> float:
        now = under_way(log_tail(log))
        return expected_s if now is None or now.expected_s is None else now.expected_s

    # The component itself keeps how long its step took.
    step = Step(its.what, its.expected_s or COMPONENT_STEP_S, least_s=math.inf)
    with progress.during(f"{component.name} is {its.what}", so_far, step, revised):
        cluster.await_component(component)


def _await_real_node(cluster: LocalCluster, progress: Progress) -> None:
    node = cluster.node
    words, step = f"waiting for the node {node.name} to be ready", Step("start a real node", 10.0)
    with cluster.api() as api, progress.during(words, lambda: "", step):
        node.await_ready(api)
    progress.say(f"a real node {node.name} at {node.address}, with the image {images.BUSYBOX}")


def _start_agent(
    cluster: LocalCluster, nodes: SimulatedNodes | None, claim_gpus: int, progress: Progress
) -> None:
    if nodes is None:
        return
    # GPUs are offered as they are without a configuration; one counts once it is applied, under our name or a
    # guide's.
    places = ((node_agent.SYSTEM, node_agent.SHARING), *NVIDIA_CONFIG_MAPS)
    flags = [
        "--require-grant",
        "--mig-layouts",
        *(f"--nvidia-config-map={namespace}/{name}" for namespace, name in places),
    ]
    # One node may watch them all, so that what is pasted counts at once.
    flags.append("--nvidia-config-map-every-s=0")
    if claim_gpus:
        last = range(nodes.gpus_per_node, nodes.gpus_per_node + claim_gpus)
        flags += [f"--dra-cards={','.join(map(str, last))}", "--dra-mig-on-demand"]
    node_agent.start_agent(cluster, node_agent.machine_of(nodes, claim_gpus), flags)
    words = f"waiting for the agent on {cluster.node.name} to offer its GPUs"
    with progress.during(words, lambda: "", Step("start the agent", 5.0)):
        node_agent.await_gpus(cluster, nodes)
    claims = f", and {claim_gpus} more to claims" if claim_gpus else ""
    progress.say(f"an agent on {cluster.node.name} that serves {nodes.gpus_per_node} simulated GPUs{claims}")


def _register_metrics(cluster: LocalCluster, ports: MetricsPorts, progress: Progress) -> None:
    words, step = "waiting for the metrics APIs to be available", Step("register the metrics APIs", 5.0)
    with cluster.api() as api, progress.during(words, lambda: "", step):
        metrics_apis.register(cluster, api, ports.served)
        metrics_apis.await_available(cluster, api)
    progress.say("the metrics APIs for autoscalers: custom.metrics.k8s.io and external.metrics.k8s.io")


def _furnish(cluster: LocalCluster, request: ClusterRequest, progress: Progress) -> None:
    with cluster.api() as api:
        unknown = [*manifests.install(api), *manifests.install(api, manifests.USUAL_OBJECTS)]
        manifests.manage_default_namespace(api)
    if unknown:
        progress.say(
            f"not installed, because Kubernetes {request.kubernetes} does not know it: {', '.join(unknown)}"
        )
    pools = [pool for pool in request.pools if pool.count]
    nodes = sum(pool.count for pool in pools)
    if not nodes:
        return
    with progress.during(
        f"creating {counted(nodes, 'node')}", lambda: "", Step(f"create {nodes} nodes", nodes / 100)
    ):
        for pool in pools:
            simulated_nodes.create(cluster, pool)
    progress.say(f"simulated nodes: {'; '.join(str(pool) for pool in pools)}")
