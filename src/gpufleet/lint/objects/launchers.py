"""How many processes a manifest shows to start in one pod and to meet on its GPUs.

Launchers of ranks and servers that divide a model are known by their words. A script, an entry point of an
image or a shell that waits may start several processes or one: the manifest then does not say.
"""

import re

from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.server_parts import TGI, counts_all, parts_of, server_of

_SHELL = re.compile(r"\$(?:\{(\w+)(?::?-(\w*))?\}|(\w+))")
_PER_POD = re.compile(r"--?(?:nproc[-_]per[-_]node|num[-_]processes[-_]per[-_]node)[= ]+['\"]?([^\s'\"]+)")
_TORCHRUN = re.compile(r"(^|[\s/])torchrun\b|torch\.distributed\.(run|launch)\b|(^|[\s/])tune run\b")
_DEEPSPEED = re.compile(r"(^|[\s/])deepspeed\s")
_DEEPSPEED_GPUS = re.compile(r"--num[-_]gpus[= ]+(\S+)")
_ACCELERATE = re.compile(r"(^|[\s/])accelerate launch\b|accelerate\.commands\.launch")
_ACCELERATE_GPUS = re.compile(r"--num[-_]processes[= ]+(\S+)")
_MACHINES = re.compile(r"--num[-_]machines[= ]+(\d+)")
_MPI = re.compile(r"(^|[\s/])(mpirun|mpiexec|orterun|horovodrun)\b")
_MPI_PROCESSES = re.compile(r"\s(?:-np?|--np)[= ]+(\d+)\b")
_MPI_HOSTS = re.compile(r"\s(?:-H|--?host)[= ]+(\S+)")
_MPI_HOSTS_IN_A_FILE = re.compile(r"--?(hostfile|machinefile)\b|\s-f\s")
_ONE_PER_NODE = re.compile(r"--?(npernode|map-by ppr:)[= ]*1\b|-N 1\b|-ppn 1\b|\s-pernode\b")
_SPAWNS = re.compile(r"\b(multiprocessing|mp)\.spawn\(")
"""A program that is written in the manifest and starts a process for each rank."""
_OPERATORS = frozenset({"PyTorchJob", "TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"})
"""Kinds of which the operator tells torchrun to start a process for each GPU, where nothing else is said."""


def processes_of(container: Container, manifest: Manifest) -> int | None:
    """How many processes the container starts on its GPUs; None where the manifest does not show it."""
    line = _in_a_shell(container)
    if container.device_count < 2 or not (counts_all(container) or _names_several(container)):
        return None
    if _SPAWNS.search(line):
        return container.device_count
    for found in (_by_torchrun, _by_deepspeed, _by_accelerate, _by_mpi, _by_server):
        known = found(container, line, manifest)
        if known is not None:
            return known or None
    return None


def _in_a_shell(container: Container) -> str:
    """The command line with the values and defaults of the variables that a shell puts in."""

    def value(reference: re.Match[str]) -> str:
        variable = container.variable(reference[1] or reference[3])
        known = variable.value if variable else reference[2]
        return reference[0] if known is None else known

    return _SHELL.sub(value, " ".join(container.words))


def _names_several(container: Container) -> bool:
    """Whether only a variable says which GPUs are used, and it names several."""
    used = container.variable("CUDA_VISIBLE_DEVICES")
    return (
        used is not None and "," in (used.value or "") and "VISIBLE_DEVICES" not in " ".join(container.words)
    )


OUT_OF_SIGHT = 0
"""What a launcher starts where something else says how many."""


def _counted(text: str, gpus: int) -> int:
    """By a number of processes; words such as ``gpu`` and ``auto`` count the GPUs."""
    if text in {"gpu", "auto"}:
        return gpus
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else OUT_OF_SIGHT


def _by_torchrun(container: Container, line: str, manifest: Manifest) -> int | None:
    if not _TORCHRUN.search(line):
        return None
    told = _PER_POD.search(line)
    variable = container.variable("PET_NPROC_PER_NODE")
    if told is not None:
        return _counted(told[1], container.device_count)
    if variable is not None:
        return _counted(variable.value or "", container.device_count)
    return container.device_count if manifest.kind in _OPERATORS else 1


def _by_deepspeed(container: Container, line: str, _: Manifest) -> int | None:
    if not _DEEPSPEED.search(line):
        return None
    told = _DEEPSPEED_GPUS.search(line)
    return _counted(told[1], container.device_count) if told else container.device_count


def _by_accelerate(container: Container, line: str, _: Manifest) -> int | None:
    """It counts the GPUs, unless it is told a number for all machines or reads its settings from a file."""
    if not _ACCELERATE.search(line):
        return None
    told, machines = _ACCELERATE_GPUS.search(line), _MACHINES.search(line)
    if told is None:
        return OUT_OF_SIGHT if "--config" in line else container.device_count
    pods = max(int(machines[1]), 1) if machines else 1
    return -(-_counted(told[1], 0) // pods)


def _by_mpi(_: Container, line: str, manifest: Manifest) -> int | None:
    """The launcher of an MPIJob starts the processes of its workers, ``slotsPerWorker`` in each."""
    if manifest.kind == "MPIJob":
        others = [one for template in manifest.templates for one in template.containers]
        line = next((text for one in others if _MPI.search(text := " ".join(one.words))), "")
        slots = manifest.root.at("spec", "slotsPerWorker").integer
        return OUT_OF_SIGHT if not line or _ONE_PER_NODE.search(line) else slots or OUT_OF_SIGHT
    if not _MPI.search(line):
        return None
    told, hosts = _MPI_PROCESSES.search(line), _MPI_HOSTS.search(line)
    if told is None or _MPI_HOSTS_IN_A_FILE.search(line) or _ONE_PER_NODE.search(line):
        return OUT_OF_SIGHT
    pods = hosts[1].count(",") + 1 if hosts else 1
    return -(-int(told[1]) // pods)


def _by_server(container: Container, _: str, __: Manifest) -> int | None:
    """Servers that are told in numbers how they divide a model; that of Hugging Face takes all GPUs."""
    parts = parts_of(container)
    if parts is not None:
        return -(-parts.gpus // parts.nodes)
    if server_of(container) != TGI:
        return None
    told = container.variable("NUM_SHARD")
    return _counted(told.value or "", container.device_count) if told else container.device_count
