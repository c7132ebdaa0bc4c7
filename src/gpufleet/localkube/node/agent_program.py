"""What the real node is told of its agent, a program of ours beside containerd and the kubelet.

The agent needs a Node to exist and a token bound to it, so it comes later than they: ``node_agent`` writes a
file when both are there, and ``first_process`` runs what it says from then on, in the node's own view of
files and processes, as a pod with the host's would be.
"""

from pathlib import Path

from gpufleet.localkube.node.configuration import FOLDER
from gpufleet.localkube.processes import plan
from gpufleet.localkube.processes.plan import Program

NAME = "agent"
PROGRAM_FILE = "agent.json"
MACHINE_FILE = "gpus.yaml"


def agent_folder(cluster_folder: Path) -> Path:
    """Where the node's agent keeps its state, and lets orders in for its simulated GPUs."""
    return cluster_folder / FOLDER / NAME


def machine_file(cluster_folder: Path) -> Path:
    """The description of the node's simulated GPUs."""
    return cluster_folder / FOLDER / MACHINE_FILE


def write_program(cluster_folder: Path, command: tuple[str, ...]) -> None:
    """From now on the node runs its agent by this command."""
    plan.write(cluster_folder / FOLDER, PROGRAM_FILE, Program(NAME, command))


def read_program(cluster_folder: Path) -> Program | None:
    """The agent to run; None while its command is not written yet."""
    return plan.read(cluster_folder / FOLDER / PROGRAM_FILE, Program)
