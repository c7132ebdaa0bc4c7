"""What the operator costs while nothing changes, at 1,000 nodes of a real API server: memory, and writes.

The operator is a process of its own, as the chart runs it, and the server's audit log counts what it writes.
It is given a policy that selects all nodes, and once ten projects more. The time from its last write on is
at rest: what it wrote to bring the nodes there is not counted. KWOK keeps the nodes ready.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.figures import Figure, figure
from bench.live import audit
from bench.live.arena import Arena, arena
from bench.live.contender import cost
from bench.live.objects import Object
from bench.progress import say
from gpufleet.localkube.processes import child, plan
from gpufleet.localkube.processes.child import Child
from gpufleet.model.model_errors import WorldError

NODES, PROJECTS = 1000, 10
MEMORY_MAX_MIB, WRITES_MAX_PER_S = 80.0, 1.0
"""The limits of the project."""

USER, GROUP = "bench-operator", "system:masters"
REST_S = 60.0
"""Longer than any period of the operator: its Lease is renewed every few seconds."""

QUIET_S = 6.0
"""After so long without a write but that of the Lease, the nodes are as the policy says."""

SETTLED_WAIT_S = 300.0
"""A thousand nodes are written in a minute or two on a busy machine."""

LEASES = "leases"
API = "gpufleet.io/v1alpha1"
POLICIES, PROJECT_LIST = (f"/apis/{API}/{plural}" for plural in ("fleetpolicies", "gpuprojects"))
NOTES = (
    (
        f"at rest: {NODES} nodes that KWOK keeps ready, on a real API server; one policy with a label and a "
        f"taint selects all of them; writes of {REST_S:.0f} s by the audit log, with its Lease"
    ),
)


def figures() -> list[Figure]:
    """Memory and writes, without projects and with them."""
    found: list[Figure] = []
    with arena(NODES, kubelets=True, others=(USER,)) as here:
        _make(here, POLICIES, _policy())
        for projects in (0, PROJECTS):
            for number in range(projects):
                _make(here, PROJECT_LIST, _project(number))
            found += _measured(here, projects)
    return found


def _measured(here: Arena, projects: int) -> Iterator[Figure]:
    title = f"at rest, {NODES} nodes, {projects or 'no'} projects"
    listener, story = here.another_listener(), audit.Story(USER)
    with _operator(here, projects=bool(projects)) as started:
        say(f"{title}: waiting until nothing is left to write")
        _settle(started, listener, story)
        begun = audit.Story(USER)
        say(f"{title}: {REST_S:.0f} s at rest")
        time.sleep(REST_S)
        listener.read(begun)
        peak_mib = cost(started.pid).peak_mib
    yield figure(f"{title}: memory, at most", peak_mib, "MiB", "lower", MEMORY_MAX_MIB)
    yield figure(f"{title}: writes", begun.writes.total() / REST_S, "1/s", "lower", WRITES_MAX_PER_S)


@contextmanager
def _operator(here: Arena, *, projects: bool) -> Iterator[Child]:
    kubeconfig = here.cluster.kubeconfig_for(USER, (GROUP,))
    command = (sys.executable, "-m", "gpufleet", "operator", f"--kubeconfig={kubeconfig}")
    options = ("--listen=127.0.0.1:0", *(("--projects",) if projects else ()))
    log = here.cluster.folder / plan.LOGS / f"operator-{'with' if projects else 'without'}-projects.log"
    started = child.start("operator", (*command, *options), log)
    try:
        yield started
    finally:
        ended = started.exit_code is not None
        started.stop()
        if ended:
            raise started.failed("ended by itself")


def _settle(started: Child, listener: audit.Listener, story: audit.Story) -> None:
    """Return when it has written nothing but its Lease for a while."""
    end_s = time.monotonic() + SETTLED_WAIT_S
    known, since_s = -1, time.monotonic()
    while known < 1 or time.monotonic() - since_s < QUIET_S:
        if started.exit_code is not None:
            raise started.failed("ended by itself")
        if time.monotonic() > end_s:
            raise WorldError(f"the operator was not at rest after {SETTLED_WAIT_S:.0f} s: {story.writes}")
        time.sleep(0.5)
        listener.read(story)
        now = _written(story.writes)
        if now != known:
            known, since_s = now, time.monotonic()


def _written(writes: Mapping[str, int]) -> int:
    return sum(count for what, count in writes.items() if LEASES not in what)


def _make(here: Arena, path: str, body: Object) -> None:
    with here.cluster.api() as api:
        api.call("POST", path, body)


def _policy() -> Object:
    return {
        "apiVersion": API,
        "kind": "FleetPolicy",
        "metadata": {"name": "all"},
        "spec": {
            "nodeSelector": {"matchLabels": {"nvidia.com/gpu.present": "true"}},
            "labels": {"example.com/fleet": "research"},
            "taints": [{"key": "example.com/gpu", "effect": "NoSchedule"}],
        },
    }


def _project(number: int) -> Object:
    name = f"team-{number}"
    spec = {
        "namespaces": [name],
        "members": [{"group": name, "role": "Member"}],
        "namespaceQuota": {"requests.nvidia.com/gpu": 8},
    }
    return {"apiVersion": API, "kind": "GpuProject", "metadata": {"name": name}, "spec": spec}
