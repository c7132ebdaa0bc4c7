"""One of the two schedulers as a process: how it is started, and what it costs.

CPU and memory are those of the process and everything below it, from its start to the moment when
nothing is left to write.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.processes import child
from gpufleet.localkube.processes.child import Child

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# kube-scheduler's own default of 50 requests a second would make the comparison a formality.
REQUESTS_PER_S = 10_000


@dataclass(frozen=True, slots=True)
class Contender:
    """A scheduler: its name for people, what pods call it, and whom the API server sees."""

    name: str
    scheduler_name: str
    user: str


GPUFLEET = Contender("gpufleet", "gpufleet", DEFAULT_IDENTITY.user)
KUBE = Contender("kube-scheduler", "default-scheduler", "system:kube-scheduler")
BOTH = (GPUFLEET, KUBE)


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds and peak resident memory of a process tree."""

    cpu_s: float
    peak_mib: float


def tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for below in (task / "children").read_text().split():
            yield from tree(int(below))


def cost(pid: int) -> Cost:
    """What the tree below a process has cost so far."""
    ticks, peak_kib = 0, 0
    for one in tree(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        # utime, stime and those of children that have ended: fields 14 to 17 of proc(5)
        ticks += sum(int(field) for field in fields[11:15])
        status = Path(f"/proc/{one}/status").read_text()
        peak_kib += int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    return Cost(ticks / TICKS_PER_S, peak_kib / 1024)


@contextmanager
def running(who: Contender, cluster: LocalCluster, kube_scheduler: Path, *, gangs: bool) -> Iterator[Child]:
    """The scheduler at work for the length of the block."""
    started = _start_ours(cluster) if who is GPUFLEET else _start_kube(cluster, kube_scheduler, gangs=gangs)
    try:
        yield started
    finally:
        ended = started.exit_code is not None
        started.stop()
        if ended:
            raise started.failed("ended by itself")


def _start_ours(cluster: LocalCluster) -> Child:
    kubeconfig = cluster.kubeconfig_for(DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups)
    # Nobody starts it again here, and a busy machine may keep it from renewing a short Lease.
    options = (f"--kubeconfig={kubeconfig}", "--lease-seconds=60")
    command = (sys.executable, "-m", "gpufleet", "scheduler", *options)
    return child.start("gpufleet", command, cluster.folder / "logs" / "gpufleet-scheduler.log")


def _start_kube(cluster: LocalCluster, binary: Path, *, gangs: bool) -> Child:
    limits = (f"--kube-api-qps={REQUESTS_PER_S}", f"--kube-api-burst={REQUESTS_PER_S}")
    gates = ("--feature-gates=GenericWorkload=true",) if gangs else ()
    return cluster.start_kube_scheduler(binary, (*limits, *gates))
