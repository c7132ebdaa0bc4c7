"""The agent on a real node, beside its kubelet and containerd, with simulated GPUs.

start_agent(cluster, "gpus: [{model: H100-80GB, count: 4}]")
await_offered(cluster, "nvidia.com/gpu", 4)
"""

import sys

from gpufleet.localkube import child, plan
from gpufleet.localkube.agent_identity import agent_kubeconfig
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.agent_program import NAME, agent_folder, machine_file, write_program
from tests.localkube.real_node import awaited


def start_agent(cluster: LocalCluster, machine: str) -> None:
    """Have the node run the agent on the GPUs that ``machine`` describes."""
    node = cluster.node
    folder = agent_folder(cluster.folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    described = machine_file(cluster.folder)
    described.write_text(machine, encoding="utf-8")
    kubeconfig = agent_kubeconfig(cluster, node.name)
    command = (
        *(sys.executable, "-m", "gpufleet", "agent"),
        f"--node-name={node.name}",
        f"--kubeconfig={kubeconfig}",
        f"--simulated={described}",
        f"--state-folder={folder}",
        f"--metrics-address={node.address}:9400",
        "--cdi-folder=/run/cdi",
    )
    write_program(cluster.folder, command)


def await_offered(cluster: LocalCluster, resource: str, count: int) -> None:
    """Return when the node has so many to give."""
    path = f"/api/v1/nodes/{cluster.node.name}"

    def offered() -> bool:
        with cluster.api() as api:
            allocatable = api.call("GET", path)["status"].get("allocatable", {})
        return bool(allocatable.get(resource) == str(count))

    log = cluster.folder / plan.LOGS / f"{NAME}.log"
    awaited(f"{count} of {resource}", offered, lambda: child.log_tail(log) if log.exists() else "no log")
