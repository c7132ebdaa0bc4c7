"""A cluster of three teams on the stage of the faults, hostile calls in it, and the auditor's verdicts.

Twelve GPUs: four are owed to green, who does nothing, two each to red and blue, who try everything, and four
to the traffic of honest users. What broke is made as small as it can be: the calls of the batch are tried
again in ever smaller parts on the cluster as it was before.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from gpufleet.auditor.audit import Audit
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.rules import Rules
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import NODE_DEVICES, PODS
from gpufleet.kube.status import NotFound
from gpufleet.simulation import history, pod_facts
from gpufleet.simulation.audited import writes_of
from gpufleet.simulation.cluster_recipe import NAMESPACE as HONEST
from gpufleet.simulation.refusal import JsonObject
from tests.chaos.stage import Stage
from tests.hostile.calls import Known, Thinker
from tests.hostile.people import (
    BLUE,
    GREEN,
    NAMESPACES,
    NODE_USER,
    RED,
    TENANTS,
    USERS,
    Answered,
    Call,
    People,
    roles,
)
from tests.hostile.shrinking import fewest

OWED = {GREEN: 4, RED: 2, BLUE: 2}
QUIET_S = 1.0
REST_WITHIN_S = 45.0
TRIES = 24
SERVER_TRIES = 20
ADMIN = "errs"
QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
JSON = "application/json"


class Verdict(msgspec.Struct, frozen=True):
    """What came of a batch."""

    answered: tuple[Answered, ...]
    findings: tuple[Finding, ...]
    unrest: str = ""

    @property
    def broke(self) -> frozenset[str]:
        """Which promises."""
        return frozenset(one.promise for one in self.findings)


class Ground:
    """Three teams and their queues."""

    def __init__(self, stage: Stage, seed: str) -> None:
        self.stage = stage
        self.thinker = Thinker(Random(f"{seed}/hostile"))
        self.codes: Counter[tuple[str, int]] = Counter()
        self.reports = stage.recorder.now(history.NODE_DEVICES)
        self.people = People(stage.cluster, min(name for _, name in self.reports))
        self._seen = 0
        scheduler = frozenset({stage.scheduler_user})
        self._audit = Audit(Rules(scheduler_users=scheduler, tenants=TENANTS, grants_required=True))

    async def furnish(self) -> None:
        """Namespaces, rights, queues and classes, as an administrator makes them."""
        for name in NAMESPACES:
            metadata = {"name": name, "labels": {"team": name}}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await self._do("POST", "/api/v1/namespaces", body)
        for name in (RED, BLUE):
            for path, role in roles(name):
                await self._do("POST", path, role)
        for name, value in (("never-evicted", 10), ("high", 1000)):
            labels = {"gpufleet.io/preemptible": "false"} if name == "never-evicted" else {}
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
            await self._do("POST", CLASSES, {**kind, "metadata": {"name": name, "labels": labels}})
        await self.describe_queues()
        for name in NAMESPACES:
            await self._account(name)
        spaces = {("", name) for name in NAMESPACES}
        await self.stage.until(lambda: spaces <= self.stage.recorder.now(history.NAMESPACES).keys())

    async def _account(self, space: str) -> None:
        """Pods are refused as long as a namespace has no account."""
        path = f"/api/v1/namespaces/{space}/serviceaccounts/default"
        while (await self._asked("GET", path)).code != 200:  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.1)

    async def describe_queues(self) -> None:
        """The queues as they are meant to be; those that somebody changed are so again."""
        specs: dict[str, dict[str, Any]] = {
            "fleet": {},
            "default": {"namespaces": [HONEST], "quotas": [{"resource": "gpu", "nominal": 4}]},
            GREEN: {"namespaces": [GREEN]},
            RED: {"namespaceSelector": {"matchLabels": {"team": RED}}},
            BLUE: {"localQueues": [{"namespace": BLUE, "name": "own"}], "namespaces": [BLUE]},
        }
        for name, spec in specs.items():
            if name in OWED:
                quota = {"resource": "gpu", "nominal": OWED[name], "lendingLimit": 0}
                spec |= {"parent": "fleet", "quotas": [quota]}
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "metadata": {"name": name}}
            path = f"{QUEUES}/{name}?fieldManager=administrator&force=true"
            await self._do("PATCH", path, {**kind, "spec": spec}, "application/apply-patch+yaml")

    async def _asked(self, method: str, path: str, body: object = None, kind: str = JSON) -> Answered:
        return await self.people.ask(Call(ADMIN, method, path, body, kind))

    async def _do(self, method: str, path: str, body: object, kind: str = JSON) -> None:
        for _ in range(SERVER_TRIES):
            found = await self._asked(method, path, body, kind)
            if found.code:
                break
            # A server that was killed may have left a connection that leads nowhere.
            await asyncio.sleep(0.5)
        assert found.code in {200, 201, 409}, found

    def known(self) -> Known:
        """What can be seen of the cluster."""
        pods: dict[str, list[str]] = {}
        for space, name in self.stage.recorder.now(history.PODS):
            pods.setdefault(space, []).append(name)
        devices = {
            node: tuple(one["id"] for one in report["spec"]["devices"])
            for (_, node), report in self.reports.items()
        }
        by_space = {space: tuple(sorted(names)) for space, names in pods.items()}
        return Known(by_space, tuple(sorted(devices)), devices)

    async def batch(self, count: int) -> Verdict:
        """``count`` calls, and what came of them once all is at rest."""
        return await self.verdict(await self.calls(count))

    async def calls(self, count: int) -> list[Answered]:
        """``count`` calls one after the other, each by what is known by then."""
        return [await self._call(self.thinker.next(self.known())) for _ in range(count)]

    async def again(self, calls: Sequence[Call]) -> Verdict:
        """These calls on the cluster as it is."""
        return await self.verdict([await self._call(call) for call in calls])

    async def _call(self, call: Call) -> Answered:
        found = await self.people.ask(call)
        self.codes[call.actor, found.code] += 1
        if found.revision:
            self.stage.recorder.sign(found.revision, USERS.get(call.actor, NODE_USER))
        # Others act meanwhile; what follows shall be about what is there.
        await asyncio.sleep(self.thinker.random.uniform(0.0, 0.05))
        return found

    async def verdict(self, answered: Sequence[Answered]) -> Verdict:
        """What came of calls, once all is at rest. A server that a fault has stopped would look like rest."""
        unrest = await self.rest()
        return Verdict(tuple(answered), tuple(self.findings(at_rest=not unrest)), unrest)

    async def rest(self) -> str:
        """Wait until nothing is written any more; what still moves after too long."""
        clock, recorder = self.stage.clock, self.stage.recorder
        limit_s = clock.monotonic_s() + REST_WITHIN_S
        quiet_since_s, before = clock.monotonic_s(), -1
        while clock.monotonic_s() < limit_s:
            await self._bring_reports_back()
            await asyncio.sleep(0.2)
            now = recorder.changes_of(history.PODS, history.NODE_DEVICES)
            if now != before or self._moving():
                before, quiet_since_s = now, clock.monotonic_s()
            elif clock.monotonic_s() - quiet_since_s > QUIET_S and self.stage.leader() is not None:
                return ""
        return self._moving() or "writes go on"

    def _moving(self) -> str:
        """A pod that is on its way in or out."""
        nodes = {node for _, node in self.reports}
        for name, pod in self.stage.recorder.now(history.PODS).items():
            if "deletionTimestamp" in pod["metadata"]:
                return f"{'/'.join(name)} is leaving"
            if pod_facts.node_of(pod) in nodes and pod["status"].get("phase") == "Pending":
                return f"{'/'.join(name)} has a node and does not start"
        return ""

    async def _bring_reports_back(self) -> None:
        """An agent writes its report anew when somebody deleted it."""
        for (_, node), report in self.reports.items():
            if ("", node) not in self.stage.recorder.now(history.NODE_DEVICES):
                body = {**report, "metadata": {"name": node}}
                with contextlib.suppress(KubeError):
                    await self.stage.client.create(NODE_DEVICES, body, name=node)

    def findings(self, *, at_rest: bool) -> list[Finding]:
        """What broke since this was asked last."""
        writes = list(writes_of(self.stage.recorder.history(self.stage.rules())))
        fresh = [finding for write in writes[self._seen :] for finding in self._audit.follow(write)]
        self._seen = len(writes)
        return [*fresh, *(self._audit.at_rest() if at_rest else ())]

    async def clear(self) -> None:
        """No work of anybody, and queues and labels as they are meant to be."""
        await self.describe_queues()
        for name in NAMESPACES:
            labels = {"team": name, "gpufleet.io/queue": None, "gpufleet.io/managed": None, "harmless": None}
            path = f"/api/v1/namespaces/{name}"
            await self._asked("PATCH", path, {"metadata": {"labels": labels}}, "application/merge-patch+json")
            jobs = f"/apis/batch/v1/namespaces/{name}/jobs?propagationPolicy=Background"
            await self._asked("DELETE", jobs)
        for space, name in self._work():
            with contextlib.suppress(NotFound, KubeError):
                await self.stage.client.delete(PODS, name, namespace=space)
        with contextlib.suppress(TimeoutError):
            await self.stage.until(lambda: not self._work(), 20.0)
        await self.rest()
        self.findings(at_rest=False)

    def _work(self) -> dict[tuple[str, str], JsonObject]:
        pods = self.stage.recorder.now(history.PODS)
        return {name: pod for name, pod in pods.items() if name[0] in NAMESPACES}

    async def owed_is_had(self) -> str:
        """What green lacks when it asks for all that it is owed, "" when it gets it."""
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        container = {"name": "main", "image": "example.com/none", "resources": limits}
        names = [f"owed-{number}" for number in range(OWED[GREEN])]
        for name in names:
            metadata = {"name": name, "labels": {"gpufleet.io/queue": GREEN}}
            spec = {"schedulerName": "gpufleet", "containers": [container]}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            await self._do("POST", f"/api/v1/namespaces/{GREEN}/pods", body)

        def lacking() -> list[str]:
            pods = self.stage.recorder.now(history.PODS)
            return [name for name in names if not pod_facts.node_of(pods.get((GREEN, name), {}))]

        try:
            await self.stage.until(lambda: not lacking(), REST_WITHIN_S)
        except TimeoutError:
            return f"green is owed 4 GPUs, and {lacking()} have no node: {self._held_and_said(lacking())}"
        return ""

    def _held_and_said(self, waiting: Sequence[str]) -> str:
        """What is said of green's pods that wait, and which pods have a node."""
        pods = self.stage.recorder.now(history.PODS)
        said = [
            f"{name}: {one.get('message', '')}"
            for name in waiting
            for one in pods.get((GREEN, name), {}).get("status", {}).get("conditions", ())
        ]
        held = [
            f"{'/'.join(name)} on {pod_facts.node_of(pod)}, {pod['status'].get('phase')}, "
            f"{pod['spec'].get('priorityClassName', 'no class')}, {pod['metadata'].get('labels', {})}"
            for name, pod in pods.items()
            if pod_facts.node_of(pod)
        ]
        return "\n  ".join(["", *said, "pods that have a node:", *held])

    async def smallest(self, verdict: Verdict) -> tuple[Call, ...]:
        """The fewest calls of a batch that break the same promise again, each time on an empty cluster."""
        taken = [one.call for one in verdict.answered if 200 <= one.code < 300]

        async def still(calls: Sequence[Call]) -> bool:
            await self.clear()
            return bool(verdict.broke & (await self.again(calls)).broke)

        return await fewest(taken, still, TRIES)
