"""Starts gpufleet's agent on a cluster's real node, with simulated GPUs.

The node must be Ready and the cluster furnished: the agent is given a token that is bound to the Node
object, and writes what gpufleet defines.
"""

import sys
import time
from collections.abc import Sequence

import msgspec

from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.kube.write_bodies import LAST_APPLIED
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.agent_identity import agent_kubeconfig
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.agent_program import NAME, agent_folder, machine_file, write_program
from gpufleet.localkube.processes import child, plan
from gpufleet.localkube.processes.process_errors import ProgramFailedError
from gpufleet.localkube.simulated_nodes import NUMA_NODES, SimulatedNodes, offered

SYSTEM = DEFAULT_IDENTITY.namespace
SHARING = "gpufleet-sharing"
"""The ConfigMap that says how the real node's GPUs are shared."""

WHOLE = """version: gpufleet.io/v1alpha1
pools:
  default:
    - {gpus: rest, exclusive: {}}
"""
METRICS_PORT = 9400
"""The port of dcgm-exporter, where monitoring looks for metrics of GPUs."""

# The agent starts, registers, and the kubelet writes the Node's status.
ADVERTISED_WAIT_S = 60.0
# Short: tests and `up` wait for it. Each look takes the processor from what is waited for.
POLL_EVERY_S = 0.2


def machine_of(nodes: SimulatedNodes, claim_gpus: int = 0) -> str:
    """The description of a machine with the GPUs of one of these nodes, and uncut ones for claims behind."""
    instances = ", ".join(f"{{profile: {one.profile}, start: {one.start}}}" for one in nodes.mig)
    cut = f", mig: [{instances}]" if nodes.mig else ""
    gpus = f"model: {nodes.model.name}, count: {nodes.gpus_per_node}, numaNodes: {NUMA_NODES}{cut}"
    more = f", {{model: {nodes.model.name}, count: {claim_gpus}}}" if claim_gpus else ""
    return f"gpus: [{{{gpus}}}{more}]\n"


def start_agent(cluster: LocalCluster, machine: str, flags: Sequence[str] = ()) -> None:
    """Have the real node run the agent on the GPUs that ``machine`` describes.

    They are offered whole by a ConfigMap of ours, unless ``flags`` name a configuration.
    """
    node = cluster.node
    folder = agent_folder(cluster.folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    described = machine_file(cluster.folder)
    described.write_text(machine, encoding="utf-8")
    if not any(flag.startswith(("--config", "--nvidia-config-map")) for flag in flags):
        _declare_sharing(cluster)
        flags = (*flags, f"--config-map={SYSTEM}/{SHARING}")
    command = (
        *(sys.executable, "-m", "gpufleet", "agent"),
        f"--node-name={node.name}",
        f"--kubeconfig={agent_kubeconfig(cluster, node.name)}",
        f"--simulated={described}",
        f"--state-folder={folder}",
        f"--metrics-address={node.address}:{METRICS_PORT}",
        "--cdi-folder=/run/cdi",
        "--accounting",
        *flags,
    )
    write_program(cluster.folder, command)


def _declare_sharing(cluster: LocalCluster) -> None:
    """A ConfigMap that says how the GPUs are shared, whole at first, for people to edit.

    It is as `kubectl apply` would have made it, so that the next apply has nothing to warn of.
    """
    metadata = {"name": SHARING, "namespace": SYSTEM}
    declared: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"default": WHOLE},
    }
    applied = {LAST_APPLIED: msgspec.json.encode(declared).decode()}
    with cluster.api() as api:
        body = {**declared, "metadata": {**metadata, "annotations": applied}}
        api.call("POST", f"/api/v1/namespaces/{SYSTEM}/configmaps", body)


def await_resource(
    cluster: LocalCluster, resource: str, count: int, wait_s: float = ADVERTISED_WAIT_S
) -> None:
    """Return when the real node has ``count`` of the resource to give; ProgramFailedError with a log if it
    takes long.
    """
    limit_s = time.monotonic() + wait_s
    path = f"/api/v1/nodes/{cluster.node.name}"
    with cluster.api() as api:
        while True:
            node: Object = api.call("GET", path)
            if node["status"].get("allocatable", {}).get(resource) == str(count):
                return
            if time.monotonic() > limit_s:
                log = cluster.folder / plan.LOGS / f"{NAME}.log"
                raise ProgramFailedError(
                    f"the node {cluster.node.name} did not offer {count} {resource} within {wait_s:.0f} s; "
                    f"the end of its agent's log, {log}:\n{child.log_tail(log)}"
                )
            time.sleep(POLL_EVERY_S)


def await_gpus(cluster: LocalCluster, nodes: SimulatedNodes) -> None:
    """Return when the real node offers the GPUs, or their instances, that ``machine_of`` gave it."""
    for resource, count in offered(nodes).items():
        await_resource(cluster, resource, count)
