"""What the real kube-scheduler does in each case, with nothing but its defaults.

No kubelet ends what it evicts: such pods stay on their way out until they are taken away here, after it has
looked at every pod that waits. Then it looks again, until nothing changes any more.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.listing import Selection
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.processes.child import Child
from tests.differential.builder import ASKS
from tests.differential.cases import CASE_LABEL, Case, Manifest, path_of
from tests.differential.preemption.outcome import Outcome, noted
from tests.differential.server import WRITES_AT_ONCE, create
from tests.differential.theirs import POLL_EVERY_S, running_scheduler, until_told

SETTINGS: Manifest = {
    "profiles": [{"schedulerName": ASKS}],
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 1,
}
PAUSE_S = 2.0
"""Longer than kube-scheduler lets a pod pause before it tries it again."""
ROUNDS_MAX = 20
QUIET_ROUNDS = 2
"""After so many rounds without a change it is done."""
LAST = "last"
"""The node and the pods, of the lowest priority, that are placed when all others were looked at."""

EVENTS_WAIT_S = 120.0


class _Reference(msgspec.Struct, frozen=True):
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


_PREEMPTED_BY = re.compile(r"Preempted by pod (\S+) on node")


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    """An Event that tells of an eviction, and in words by the UID of which pod."""

    regarding: _Reference
    note: str
    event_time: str


_POD = msgspec.json.Decoder(Pod)
_EVENT = msgspec.json.Decoder(_Event)


@dataclass(frozen=True)
class Seen:
    """The pods of all cases at one moment, by path."""

    pods: Mapping[str, Pod]

    @property
    def leaving(self) -> frozenset[str]:
        """Those that are on their way out."""
        return frozenset(
            path for path, pod in self.pods.items() if pod.metadata.deletion_timestamp is not None
        )

    def is_owed(self, path: str) -> bool:
        """True if a place is kept for a pod that it does not have yet; one that was evicted has none."""
        pod = self.pods.get(path)
        return pod is not None and bool(pod.status.nominated_node_name) and not pod.spec.node_name

    def place_of(self, path: str) -> str:
        """The node of a pod, "" if it waits or was evicted."""
        pod = self.pods.get(path)
        return (pod.spec.node_name or "") if pod is not None else ""


async def outcomes(cluster: LocalCluster, client: Client, cases: Iterable[Case]) -> Mapping[str, Outcome]:
    """What came of each case, by its token."""
    cases = list(cases)
    asked = {path_of(pod) for case in cases for pod in case.asked}
    first = await _look(client)
    with running_scheduler(cluster, SETTINGS) as child:
        await until_told(client, child, asked, _told)
        nominated: dict[str, tuple[str, ...]] = {}
        ended = await _play(client, child, asked, nominated)
    seen = await _look(client)
    # A pod that waited may have got a place, for which others were evicted, and then be evicted itself.
    paths = {pod.metadata.uid: path for look in (first, seen) for path, pod in look.pods.items()}
    victims = ended - first.leaving
    told = await _beneficiaries(client, paths, victims)
    return {case.token: _outcome(case, seen, told, nominated) for case in cases}


def _outcome(
    case: Case, seen: Seen, told: Mapping[str, str], nominated: Mapping[str, tuple[str, ...]]
) -> Outcome:
    pods = (*(one for one in case.objects if one["kind"] == "Pod"), *case.asked)
    there = map(path_of, pods)
    places = {path_of(pod): seen.place_of(path_of(pod)) for pod in case.asked}
    kept = {path: nominated[path] for path in places if path in nominated}
    return Outcome({path: told[path] for path in there if path in told}, places, kept)


async def _beneficiaries(
    client: Client, paths: Mapping[str, str], victims: frozenset[str]
) -> Mapping[str, str]:
    """For which pod each victim was evicted, as its Event says; ``paths`` has the pods by UID."""
    found: dict[str, str] = {}
    try:
        async with asyncio.timeout(EVENTS_WAIT_S):
            while not victims <= found.keys():
                events = [one async for one in _preempted(client)]
                events.sort(key=lambda one: one.event_time, reverse=True)
                found = {one.regarding.path: paths[_beneficiary(one)] for one in events}
                await asyncio.sleep(POLL_EVERY_S)
    except TimeoutError:
        raise AssertionError(
            f"no Event says for which pod these were evicted: {victims - found.keys()}"
        ) from None
    return {path: found[path] for path in victims}


def _beneficiary(event: _Event) -> str:
    said = _PREEMPTED_BY.match(event.note)
    assert said is not None, event.note
    return said[1]


async def _preempted(client: Client) -> AsyncIterator[_Event]:
    async for page in client.list_pages(resources.EVENTS, selection=Selection(fields="reason=Preempted")):
        for raw in page.items or ():
            yield _EVENT.decode(raw)


def _told(pod: Pod) -> str | None:
    told = pod.spec.node_name or pod.status.nominated_node_name
    return told or (None if pod.condition(POD_SCHEDULED) is None else "none")


async def _play(
    client: Client, child: Child, asked: set[str], nominated: dict[str, tuple[str, ...]]
) -> frozenset[str]:
    """Take away what is on its way out until nothing changes; all pods that went.

    ``nominated`` gets the places that are kept before each round and after it.
    """
    await create(client, [_last_node()])
    ended: frozenset[str] = frozenset()
    quiet = 0
    for number in range(ROUNDS_MAX):
        await asyncio.sleep(PAUSE_S)
        before = await _look(client)
        leaving = before.leaving
        _note(before, asked, nominated)
        await _take_away(client, leaving)
        ended |= leaving
        await asyncio.sleep(PAUSE_S)
        last = _last_pod(number)
        await create(client, [last])
        await until_told(client, child, {path_of(last)}, lambda pod: pod.spec.node_name or None)
        seen = await _look(client)
        _note(seen, asked, nominated)
        owed = [path for path in asked if seen.is_owed(path)]
        quiet = 0 if leaving or owed else quiet + 1
        if quiet == QUIET_ROUNDS:
            return ended
    raise child.failed(f"did not come to rest; among those that wait are {owed[:5]}")


def _note(seen: Seen, asked: set[str], nominated: dict[str, tuple[str, ...]]) -> None:
    for path in asked:
        if seen.is_owed(path):
            noted(nominated, path, seen.pods[path].status.nominated_node_name)


async def _look(client: Client) -> Seen:
    found = {}
    async for page in client.list_pages(resources.PODS):
        for raw in page.items or ():
            pod = _POD.decode(raw)
            found[pod.metadata.path] = pod
    return Seen(found)


async def _take_away(client: Client, paths: Iterable[str]) -> None:
    turns = asyncio.Semaphore(WRITES_AT_ONCE)

    async def one(path: str) -> None:
        namespace, name = path.split("/")
        async with turns:
            try:
                await client.delete(resources.PODS, name, namespace=namespace, grace_s=0)
            except (NotFound, Conflict):
                return

    async with asyncio.TaskGroup() as group:
        for path in sorted(paths):
            group.create_task(one(path))


def _last_node() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": LAST, "labels": {CASE_LABEL: LAST}},
        "spec": {},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
    }


def _last_pod(number: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{LAST}-{number}", "namespace": "plain"},
        "spec": {
            "schedulerName": ASKS,
            "priorityClassName": "below-zero",
            "nodeSelector": {CASE_LABEL: LAST},
            "containers": [{"name": "main", "image": "none"}],
        },
    }
