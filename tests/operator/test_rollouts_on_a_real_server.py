"""Rollouts on a real API server: from canary to return, ways back, obstacles, and every kill point."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.operator.node_objects import DRIVER_LABEL, TOOLKIT_LABEL
from gpufleet.operator.rollout_objects import image_key
from gpufleet.operator.service import Following
from tests.kube.manifests.real_server import Person
from tests.operator.node_stand_in import SYSTEM_PODS, VALIDATOR, NodeStandIn
from tests.operator.real_server import (
    NODES,
    POLICIES,
    AlwaysLeads,
    KillingTransport,
    Stage,
    following,
    play,
    until,
)

OLD, NEW, BROKEN = (f"registry.example.com/driver@sha256:{digit * 64}" for digit in "123")
TOOLKIT = f"registry.example.com/toolkit@sha256:{'4' * 64}"
NODE_INFO = dict.fromkeys(
    (
        "architecture",
        "bootID",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ),
    "",
)
QUICK = {"soak": "1s", "drainTimeout": "60s", "changeTimeout": "5s", "validationTimeout": "20s"}
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/gpufleet-system/resourceclaims"
DAEMON_SETS = "/apis/apps/v1/namespaces/gpufleet-system/daemonsets"


@pytest.fixture
def nodes(installed: LocalCluster, stage: Stage) -> Iterator[NodeStandIn]:
    """The stand-in for nodes: the old and the new driver work on it."""
    with (
        Person(installed, "nodes", ("system:masters",)) as person,
        NodeStandIn(person, stage, {OLD, NEW}) as found,
    ):
        yield found


def wanted(stage: Stage, image: str, **rollout: Any) -> str:
    """A policy that wants an image; where there is one, it is changed and keeps its status."""
    driver, settings = {"source": "Image", "image": image}, {**QUICK, **rollout}
    if stage.policies:
        (policy,) = stage.policies
        body = {"spec": {"driver": driver, "rollout": settings}}
        assert stage.admin.merge(f"{POLICIES}/{policy}", body)[0] == 200
        return policy
    return stage.policy("p", driver=driver, rollout=settings)


def state_of(stage: Stage, policy: str) -> tuple[str, str]:
    """The image and the state of a rollout."""
    told = stage.status(policy).get("rollout", {})
    return told.get("image", ""), told.get("state", "")


def drivers(stage: Stage) -> list[str]:
    """The driver that each node is to have, by its label."""
    return [stage.labels(node).get(DRIVER_LABEL, "") for node in stage.nodes]


def is_cordoned(stage: Stage, node: str) -> bool:
    return bool(stage.of(node)["spec"].get("unschedulable", False))


def work(stage: Stage, node: str, name: str, gpus: str = "nvidia.com/gpu") -> str:
    """A pod that holds a GPU of a node; the uid."""
    limits = {"limits": {gpus: "1"}}
    body = {
        "metadata": {"name": f"{stage.mark}-{name}"},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "work", "image": "work", "resources": limits}],
        },
    }
    deadline = time.monotonic() + 30
    while True:
        status, answer = stage.admin.ask("POST", SYSTEM_PODS, body)
        if status == 201:
            uid: str = answer["metadata"]["uid"]
            return uid
        # A namespace gets its ServiceAccount a moment after it was made.
        assert time.monotonic() < deadline, answer
        time.sleep(0.2)


def claim(stage: Stage, name: str, pod_uid: str) -> None:
    """A claim that has a GPU and is used by a pod, which asks for no GPU otherwise."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    status, answer = stage.admin.ask("POST", CLAIMS, body)
    assert status == 201, answer
    device = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "p", "device": "gpu-0"}
    user = {"resource": "pods", "name": f"{stage.mark}-{name}", "uid": pod_uid}
    told = {"allocation": {"devices": {"results": [device]}}, "reservedFor": [user]}
    status, answer = stage.admin.merge(f"{CLAIMS}/{name}/status", {"status": told})
    assert status == 200, answer


def phase(stage: Stage, policy: str, node: str) -> tuple[str, str]:
    """Phase and reason of a node in the status."""
    for one in stage.status(policy).get("nodes", []):
        if one["name"] == node:
            return one["phase"], one["reason"]
    return "", ""


VALIDATES = "nvidia.com/gpu.deploy.operator-validator"
UPGRADED = ["wait-for-jobs-required", "pod-restart-required", "validation-required", "upgrade-done"]


def validate(stage: Stage) -> None:
    """A DaemonSet like that of NVIDIA's validators, on nodes of this test whose label says so."""
    labels = {"app": VALIDATOR, "mark": stage.mark}
    container = {"name": "validator", "image": "stand-in"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"nodeSelector": {"mark": stage.mark, VALIDATES: "true"}, "containers": [container]},
    }
    body = {
        "metadata": {"name": f"{stage.mark}-validator"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    status, answer = stage.admin.ask("POST", DAEMON_SETS, body)
    assert status == 201, answer


def test_a_canary_that_fails_goes_back_by_itself_and_the_next_image_succeeds_around_work(
    installed: LocalCluster,
    stage: Stage,
    nodes: NodeStandIn,
) -> None:
    first, second = stage.node("a", **{VALIDATES: "true"}), stage.node("b")
    validate(stage)
    nodes.beat()
    policy = wanted(stage, OLD, canaries=0)

    async def story(client: Client) -> None:
        async with following(client):
            await until(lambda: state_of(stage, policy) == (OLD, "Done"), "the first driver is there")
            assert drivers(stage) == [image_key(OLD)] * 2
            for node in (first, second):
                assert stage.of(node)["metadata"]["annotations"]["gpufleet.io/driver-image"] == OLD
            assert stage.labels(first)[VALIDATES] == "true"
            nodes.begun.clear()

            wanted(stage, BROKEN, canaries=1)
            await until(lambda: "CrashLoopBackOff" in _message(stage, policy), "the problem is named at once")
            await until(lambda: state_of(stage, policy) == (BROKEN, "Stopped"), "the canary is back")
            rolled_back = ("Failed", "RolloutRolledBack")
            await until(lambda: phase(stage, policy, first) == rolled_back, "the failed node is named")
            assert phase(stage, policy, second)[0] == "NeedsRollout"
            assert drivers(stage) == [image_key(OLD)] * 2
            assert not any(is_cordoned(stage, node) for node in stage.nodes)

            uid = work(stage, second, "work")
            by_claim = work(stage, second, "claimed", "cpu")
            claim(stage, "claimed", by_claim)
            wanted(stage, NEW, canaries=1)
            await until(lambda: state_of(stage, policy) == (NEW, "Done"), "the next image succeeds")
            assert drivers(stage) == [image_key(NEW)] * 2
            left = {one["metadata"]["uid"] for one in stage.admin.ask("GET", SYSTEM_PODS)[1]["items"]}
            assert not {uid, by_claim} & left
            await until(lambda: stage.condition(policy, "Ready") == ("True", "AsThePolicySays"), "ready")

    play(installed, story)
    assert not any(is_cordoned(stage, node) for node in stage.nodes)
    assert nodes.evicting_managers == nodes.returned_unvalidated == set()
    whole = ["", *UPGRADED, *UPGRADED[:-1], "upgrade-failed", *UPGRADED]
    assert is_part_of(nodes.states[first], whole), nodes.states[first]
    assert {"validation-required", "upgrade-failed"} <= set(nodes.states[first])
    assert nodes.states[first][-1] == nodes.states[second][-1] == "upgrade-done"


def is_part_of(seen: list[str], whole: list[str]) -> bool:
    """Whether states came in this order; one that passes quickly is not seen each time."""
    rest = iter(whole)
    return all(one in rest for one in seen)


def _message(stage: Stage, policy: str) -> str:
    return " ".join(one.get("message", "") for one in stage.status(policy).get("nodes", []))


def test_a_toolkit_comes_with_its_driver_and_a_broken_one_goes_back_alone(
    installed: LocalCluster,
    stage: Stage,
    nodes: NodeStandIn,
) -> None:
    nodes.works.add(TOOLKIT)
    node = stage.node("a")
    # A real kubelet tells its runtime; the stand-in of other tests tells none.
    told = {"nodeInfo": {**NODE_INFO, "containerRuntimeVersion": "containerd://2.1.4"}}
    assert stage.admin.merge(f"{NODES}/{node}/status", {"status": told})[0] == 200
    nodes.beat()
    runtime = {"mode": "Toolkit", "image": TOOLKIT}
    driver = {"source": "Image", "image": OLD}
    policy = stage.policy("p", driver=driver, runtime=runtime, rollout={**QUICK, "canaries": 0})

    def images() -> tuple[str, str]:
        labels = stage.labels(node)
        return labels.get(DRIVER_LABEL, ""), labels.get(TOOLKIT_LABEL, "")

    async def story(client: Client) -> None:
        async with following(client):
            both = f"{OLD} and toolkit {TOOLKIT}"
            await until(lambda: state_of(stage, policy) == (both, "Done"), "driver and toolkit are there")
            assert images() == (image_key(OLD), image_key(TOOLKIT))
            annotations = stage.of(node)["metadata"]["annotations"]
            assert annotations["gpufleet.io/driver-image"] == OLD
            assert annotations["gpufleet.io/toolkit-image"] == TOOLKIT
            await until(lambda: stage.condition(policy, "Ready") == ("True", "AsThePolicySays"), "ready")

            body = {"spec": {"runtime": {"image": BROKEN}}}
            assert stage.admin.merge(f"{POLICIES}/{policy}", body)[0] == 200
            rolled_back = ("Failed", "RolloutRolledBack")
            await until(lambda: phase(stage, policy, node) == rolled_back, "the toolkit of before is back")
            assert images() == (image_key(OLD), image_key(TOOLKIT))

    play(installed, story)
    assert not is_cordoned(stage, node)


def test_a_first_toolkit_that_is_broken_leaves_and_its_node_is_as_before(
    installed: LocalCluster,
    stage: Stage,
    nodes: NodeStandIn,
) -> None:
    node = stage.node("a")
    told = {"nodeInfo": {**NODE_INFO, "containerRuntimeVersion": "containerd://2.1.4"}}
    assert stage.admin.merge(f"{NODES}/{node}/status", {"status": told})[0] == 200
    nodes.beat()
    policy = stage.policy("p", runtime={"mode": "Toolkit", "image": BROKEN}, rollout=QUICK)

    async def story(client: Client) -> None:
        async with following(client):
            gone = f"toolkit {BROKEN}"
            await until(lambda: state_of(stage, policy) == (gone, "Stopped"), "the toolkit has left")
            rolled_back = ("Failed", "RolloutRolledBack")
            await until(lambda: phase(stage, policy, node) == rolled_back, "the status says so")

    play(installed, story)
    assert TOOLKIT_LABEL not in stage.labels(node)
    assert "gpufleet.io/toolkit-image" not in stage.of(node)["metadata"]["annotations"]
    assert not is_cordoned(stage, node)


def test_nodes_that_cannot_go_along_stop_nobody_and_stay_as_they_are(
    installed: LocalCluster,
    stage: Stage,
    nodes: NodeStandIn,
) -> None:
    gone, away, foreign, well = (stage.node(name) for name in "abcd")
    nodes.not_ready.add(away)
    nodes.beat()
    assert stage.admin.merge(f"{NODES}/{foreign}", {"spec": {"unschedulable": True}})[0] == 200
    policy = wanted(stage, NEW, canaries=0)

    async def story(client: Client) -> None:
        async with following(client):
            await until(lambda: gone in nodes.begun, "the first node is under way")
            stage.nodes.remove(gone)
            assert stage.admin.ask("DELETE", f"{NODES}/{gone}")[0] == 200
            await until(lambda: stage.labels(well).get(DRIVER_LABEL) == image_key(NEW), "the other goes on")
            late = stage.node("e")
            nodes.beat()
            await until(lambda: stage.labels(late).get(DRIVER_LABEL) == image_key(NEW), "a new one too")
            await until(lambda: not is_cordoned(stage, late), "it returns")

    play(installed, story)
    for node in (away, foreign):
        assert DRIVER_LABEL not in stage.labels(node)
        assert node not in nodes.begun
    assert is_cordoned(stage, foreign)
    assert not is_cordoned(stage, well)
    reason = stage.status(policy)["rollout"]["reason"]
    assert f"{away}: not ready" in reason
    assert f"{foreign}: cordoned by others" in reason


class CountingTransport:
    """Counts the evictions that the server grants, also to a process that ended before the answer."""

    def __init__(self, inner: Transport, evictions: Counter[str]) -> None:
        self._inner, self._evictions = inner, evictions
        self._asked: set[asyncio.Future[Response]] = set()

    async def settled(self) -> None:
        """The server has answered whatever an ended process had asked."""
        await asyncio.gather(*self._asked, return_exceptions=True)

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass a request on. A process that ends takes back no request that the server has by then."""
        asked = asyncio.ensure_future(self._counted(request, timeout_s))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        return await asyncio.shield(asked)

    async def _counted(self, request: Request, timeout_s: float) -> Response:
        answer = await self._inner.call(request, timeout_s=timeout_s)
        if "/eviction" in request.target and answer.status < 300:
            self._evictions[request.target.split("?")[0]] += 1
        return answer

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """Watches go through."""
        return await self._inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """The connection is closed by its owner."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_every_write_a_rollout_ends_as_it_would_have(
    installed: LocalCluster,
    stage: Stage,
    nodes: NodeStandIn,
    *,
    after: bool,
) -> None:
    """Each process lives for one write: it ends right after that, or right before the next one."""
    names = [stage.node(name) for name in "ab"]
    nodes.beat()
    for node in names:
        work(stage, node, f"work-on-{node}")
    policy = wanted(stage, NEW, changeTimeout="5m", validationTimeout="5m", drainTimeout="5m")
    evictions: Counter[str] = Counter()

    async def story(client: Client) -> None:
        kills = 0
        counting = CountingTransport(client.transport, evictions)
        async with asyncio.timeout(180):
            while state_of(stage, policy) != (NEW, "Done"):
                transport = KillingTransport(counting, 1 if after else 2, after=after)
                dying = Client(transport, MachineClock(), random.Random(kills))
                found = Following(dying, AlwaysLeads(), "gpufleet-system")  # type: ignore[arg-type]
                task = asyncio.ensure_future(found.run())
                done, _ = await asyncio.wait({task}, timeout=3)
                if not done:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                await counting.settled()
                if not done:
                    continue
                kills += 1
                assert "Killed" in repr(task.exception())
        assert kills > 20

    play(installed, story)
    assert drivers(stage) == [image_key(NEW)] * 2
    assert not any(is_cordoned(stage, node) for node in names)
    assert sorted(evictions.values()) == [1, 1]
    assert nodes.deadlines_us
    assert all(len(found) == 1 for found in nodes.deadlines_us.values()), nodes.deadlines_us
