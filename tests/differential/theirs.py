"""What the real kube-scheduler says of each asked pod.

Asked twice. `feasible_nodes` overhears all nodes that its filters leave (``recorder``). `picks` then lets
a kube-scheduler with nothing but its defaults place pods, one a case, so that it is seen to do what was
overheard.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from gpufleet.kube import keys, resources
from gpufleet.kube.client import Client
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.processes.child import Child
from tests.differential.builder import ASKS
from tests.differential.cases import Case, Manifest, path_of
from tests.differential.provisioner import provision
from tests.differential.recorder import Recorder
from tests.differential.server import create, gates
from tests.localkube.cluster import program

QUIET_S = 180.0
POLL_EVERY_S = 0.5
PAUSES_A_LOOK = 3
"""So many times as long as a look is the pause after it: to list thousands of pods keeps the server busy."""
PAUSE_MAX_S = 10.0
"""Far shorter than ``QUIET_S``."""
PICKED = "-picked"

_POD = msgspec.json.Decoder(Pod)


@dataclass(frozen=True)
class Answer:
    """The nodes on which a pod fits, and what was said of those where it does not."""

    feasible: frozenset[str]
    said: str


@contextlib.contextmanager
def overhearing(cluster: LocalCluster) -> Iterator[tuple[Child, Recorder]]:
    """A kube-scheduler that tells the recorder of every pod once, and places none."""
    with Recorder() as recorder:
        extender = {"urlPrefix": recorder.url, "filterVerb": "filter", "weight": 1, "nodeCacheCapable": True}
        settings: Manifest = {
            "profiles": [{"schedulerName": ASKS}],
            "extenders": [extender],
            "percentageOfNodesToScore": 100,
            # Once asked is enough.
            "podInitialBackoffSeconds": 3600,
            "podMaxBackoffSeconds": 3600,
        }
        with running_scheduler(cluster, settings) as child:
            yield child, recorder


@contextlib.contextmanager
def running_scheduler(cluster: LocalCluster, settings: Manifest) -> Iterator[Child]:
    """A kube-scheduler with these settings while the block lasts."""
    written = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "kube-scheduler.kubeconfig", "qps": 2000, "burst": 4000},
        "leaderElection": {"leaderElect": False},
        **settings,
    }
    path = cluster.folder / "kube-scheduler.yaml"
    path.write_bytes(msgspec.yaml.encode(written))
    on = ",".join(f"{gate}=true" for gate in gates())
    flags = [f"--config={path}", *([f"--feature-gates={on}"] if on else [])]
    child = cluster.start_kube_scheduler(program("kube-scheduler"), flags)
    try:
        yield child
    finally:
        child.stop()


async def feasible_nodes(
    cluster: LocalCluster, client: Client, cases: Iterable[Case]
) -> Mapping[str, Answer]:
    """For each asked pod ("namespace/name") all nodes that are left by kube-scheduler's filters."""
    asked = {path_of(pod) for case in cases for pod in case.asked}
    with overhearing(cluster) as (child, recorder):
        said = await until_told(client, child, asked, _refusal)
        return {path: Answer(recorder.feasible.get(path, frozenset()), said[path]) for path in asked}


async def picks(cluster: LocalCluster, client: Client, cases: Iterable[Case]) -> Mapping[str, str]:
    """The node that a kube-scheduler without any settings gives the last asked pod of each case, by the
    pod's path; "" for none.

    Cases in which a node was chosen for a claim before are left out: the provisioner would serve it.
    """
    pods = [_for_defaults(case.asked[-1]) for case in cases if not any(map(_is_chosen, case.objects))]
    await create(client, pods)
    with running_scheduler(cluster, {}) as child:
        told = await until_told(client, child, {path_of(pod) for pod in pods}, _place, provision)
    return {path.removesuffix(PICKED): node for path, node in told.items()}


def _is_chosen(manifest: Manifest) -> bool:
    return keys.SELECTED_NODE in manifest["metadata"].get("annotations", {})


def _for_defaults(pod: Manifest) -> Manifest:
    name = f"{pod['metadata']['name']}{PICKED}"
    spec = {**pod["spec"], "schedulerName": "default-scheduler"}
    return {**pod, "metadata": {**pod["metadata"], "name": name}, "spec": spec}


def _refusal(pod: Pod) -> str | None:
    condition = pod.condition(POD_SCHEDULED)
    return None if condition is None else f"{condition.reason}: {condition.message}"


def _place(pod: Pod) -> str | None:
    if pod.spec.node_name:
        return pod.spec.node_name
    return None if pod.condition(POD_SCHEDULED) is None else ""


async def nothing(_: Client) -> None:
    """Nothing is to be done while waiting."""


async def until_told(
    client: Client,
    child: Child,
    asked: set[str],
    told: Callable[[Pod], str | None],
    meanwhile: Callable[[Client], Awaitable[None]] = nothing,
) -> dict[str, str]:
    """What is told of each pod, as soon as something is told of all."""
    found: dict[str, str] = {}
    heard_at_s = time.monotonic()
    while True:
        before, looked_at_s = len(found), time.monotonic()
        async for page in client.list_pages(resources.PODS):
            for raw in page.items or ():
                pod = _POD.decode(raw)
                words = told(pod) if pod.metadata.path in asked else None
                if words is not None:
                    found[pod.metadata.path] = words
        if len(found) == len(asked):
            return found
        if len(found) > before:
            heard_at_s = time.monotonic()
        silent_s = time.monotonic() - heard_at_s
        if child.exit_code is not None or silent_s > QUIET_S:
            missing = sorted(asked - found.keys())
            raise child.failed(f"said nothing of {len(missing)} pods, among them {missing[:5]}")
        took_s = time.monotonic() - looked_at_s
        await meanwhile(client)
        await asyncio.sleep(min(max(POLL_EVERY_S, PAUSES_A_LOOK * took_s), PAUSE_MAX_S))
