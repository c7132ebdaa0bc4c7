"""The other actors of a cluster: kubelets that run bound pods, controllers that make pods anew.

They act on the server directly, as other users with connections of their own: faults are the scheduler's.
Everything they do comes a little later than its cause, by the seed.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from gpufleet.kube.transport import Request
from gpufleet.simulation import pod_facts
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.history import NODE_DEVICES, PODS
from gpufleet.simulation.object_store import Written
from gpufleet.simulation.pod_facts import Granted
from gpufleet.simulation.refusal import JsonObject, Refusal

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
RUNS_FOR = "simulation.gpufleet.io/runs-for-s"
# Drawn anew each time between these: seeds differ in the order in which things happen.
STARTS_WITHIN_S = (0.05, 0.8)
ENDS_WITHIN_S = (0.1, 2.0)
REPLACES_WITHIN_S = (0.2, 1.5)
RECHECK_AFTER_S = 5.0
DRAINED_FOR_S = (5.0, 20.0)
ADMIN = "system:users:administrator"


class SimulatedWorkload(msgspec.Struct):
    """Pods that a controller keeps at a number: those that vanish or fail are made anew."""

    name: str
    template: JsonObject
    replicas: int
    made: int = 0


class Actors:
    """All kubelets and controllers of one simulated cluster."""

    def __init__(self, server: ApiServer, random: Random) -> None:
        self.server = server
        self.workloads: dict[str, SimulatedWorkload] = {}
        self.rejects: Callable[[JsonObject], str] = lambda _: ""
        """The reason for which a kubelet rejects a bound pod, "" to run it."""

        self.twin_of: Callable[[JsonObject], JsonObject | None] = lambda _: None
        """Another pod that starts on the node and gets this one's devices, and this one its."""

        self.lets_end: Callable[[JsonObject], bool] = lambda _: True
        """Whether a pod that was told to end does so now; otherwise it is looked at again later."""

        self._random = random
        self._regarded: set[tuple[str, str]] = set()
        self._given: dict[str, tuple[Granted, ...]] = {}

    async def run(self) -> None:
        """Act on every write, for ever."""
        cursor = 0
        while True:
            # Asked for before the writes are read, so that a write meanwhile is no news missed.
            waiting = self.server.store.next_write()
            revision = self.server.store.revision
            for written in self.server.store.since(PODS, cursor, revision):
                self._observe(written)
            cursor = revision
            await waiting

    def add_workload(self, workload: SimulatedWorkload) -> None:
        """Make the pods of a workload and keep their number."""
        self.workloads[workload.name] = workload
        for _ in range(workload.replicas):
            self._make(workload)

    def drain(self, node: str) -> None:
        """Drain a node like ``kubectl drain``: cordon it and evict what runs there. Put it back after a
        while.
        """
        path = f"/api/v1/nodes/{node}"
        self.ask(ADMIN, "PATCH", path, {"spec": {"unschedulable": True}})
        # Sorted, so that one seed evicts in one order.
        for name, pod in sorted(self.server.store.all(PODS).items()):
            if pod_facts.node_of(pod) == node and not pod_facts.is_over(pod):
                body = {"metadata": {"name": name[1], "namespace": name[0]}}
                self.ask(ADMIN, "POST", f"{_path(pod)}/eviction", body)
        back: JsonObject = {"spec": {"unschedulable": None}}
        after_s = self._random.uniform(*DRAINED_FOR_S)
        asyncio.get_running_loop().call_later(after_s, self.ask, ADMIN, "PATCH", path, back)

    def ask(self, user: str, method: str, target: str, body: object = None, content_type: str = MERGE) -> int:
        """One request; returns its code. A refusal is the world's way, not a mistake."""
        raw = b"" if body is None else msgspec.json.encode(body)
        return self.server.answer(Request(method, target, raw, content_type), user).status

    def _observe(self, written: Written) -> None:
        pod = written.value
        if pod is None or pod_facts.is_over(pod):
            self._release(written.latest)
            self._replace(written)
            return
        if pod_facts.node_of(pod) and "deletionTimestamp" in pod["metadata"]:
            self._later(ENDS_WITHIN_S, (pod, "end"), self._end, pod)
        elif pod_facts.node_of(pod) and pod["status"].get("phase") == "Pending":
            self._later(STARTS_WITHIN_S, (pod, "start"), self._start, pod)

    def _later(
        self,
        within_s: tuple[float, float],
        once: tuple[JsonObject, str],
        act: Callable[[JsonObject], None],
        pod: JsonObject,
    ) -> None:
        # By UID: a pod made anew under the same name starts and ends for itself.
        key = once[0]["metadata"]["uid"], once[1]
        if key not in self._regarded:
            self._regarded.add(key)
            asyncio.get_running_loop().call_later(self._random.uniform(*within_s), act, pod)

    def _current(self, pod: JsonObject) -> JsonObject | None:
        """The current state of a pod; None where it is gone or another pod took its name."""
        now = self.server.store.get(PODS, _name(pod))
        return now if now is not None and now["metadata"]["uid"] == pod["metadata"]["uid"] else None

    def _start(self, pod: JsonObject) -> None:
        now = self._current(pod)
        if now is None or pod_facts.is_over(now) or "deletionTimestamp" in now["metadata"]:
            return
        reason = self.rejects(now)
        status: JsonObject = {"phase": "Failed", "reason": reason} if reason else {"phase": "Running"}
        # Devices are handed out, and reported, before a container starts.
        if not reason:
            status["conditions"] = [{"type": "Ready", "status": "True"}]
            self._give(now)
        self.ask(_kubelet(now), "PATCH", f"{_path(now)}/status", {"status": status}, STRATEGIC)
        runs_for_s = pod_facts.annotations(now).get(RUNS_FOR)
        if not reason and runs_for_s is not None:
            asyncio.get_running_loop().call_later(float(runs_for_s), self._succeed, pod)

    def _succeed(self, pod: JsonObject) -> None:
        now = self._current(pod)
        if now is not None and not pod_facts.is_over(now):
            self.ask(
                _kubelet(now), "PATCH", f"{_path(now)}/status", {"status": {"phase": "Succeeded"}}, STRATEGIC
            )

    def _end(self, pod: JsonObject) -> None:
        now = self._current(pod)
        if now is not None and not self.lets_end(now):
            asyncio.get_running_loop().call_later(RECHECK_AFTER_S, self._end, pod)
        elif now is not None:
            self._stop(now)

    def _stop(self, pod: JsonObject) -> None:
        """End a pod like the kubelet since 1.27: write a terminal phase first, then finish the deletion."""
        if not pod_facts.is_over(pod):
            self.ask(
                _kubelet(pod), "PATCH", f"{_path(pod)}/status", {"status": {"phase": "Failed"}}, STRATEGIC
            )
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self.ask(_kubelet(pod), "DELETE", _path(pod), body)

    def _give(self, pod: JsonObject) -> None:
        """Hand out what the grant says, or what the grant of a twin says; the twin gets this pod's then."""
        uid = pod["metadata"]["uid"]
        if uid not in self._given:
            twin = self.twin_of(pod)
            self._given[uid] = pod_facts.grant_of(pod if twin is None else twin)[1]
            if twin is not None:
                self._given[twin["metadata"]["uid"]] = pod_facts.grant_of(pod)[1]
                self._report(pod_facts.node_of(pod), [uid, twin["metadata"]["uid"]])
                return
        self._report(pod_facts.node_of(pod), [uid])

    def _release(self, pod: JsonObject) -> None:
        if pod_facts.node_of(pod):
            self._given.pop(pod["metadata"]["uid"], None)
            self._report(pod_facts.node_of(pod), [pod["metadata"]["uid"]])

    def _report(self, node: str, uids: Sequence[str]) -> None:
        """Say in the node's NodeDevices what these pods hold now, nothing for those that have ended."""
        report = self.server.store.get(NODE_DEVICES, ("", node))
        if report is None:
            return
        before = report["spec"].get("holders") or []
        holders = [holder for holder in before if holder.get("podUID") not in uids]
        for uid in uids:
            holders += self._holders_of(uid)
        if holders != before:
            target = f"/apis/gpufleet.io/v1alpha1/nodedevices/{node}"
            self.ask(f"system:node:{node}", "PATCH", target, {
                # With its version, so that it never writes over what another has just said.
                "metadata": {"resourceVersion": report["metadata"]["resourceVersion"]},
                "spec": {"holders": holders},
            })  # fmt: skip

    def write_report(self, node: str, spec: JsonObject) -> None:
        """A node's agent writes its report whole: these devices, and the pods that hold them by the agent's
        memory.
        """
        pods = self.server.store.all(PODS).values()
        here = [pod["metadata"]["uid"] for pod in pods if pod_facts.node_of(pod) == node]
        holders = [holder for uid in here for holder in self._holders_of(uid)]
        wanted = {**spec, "holders": holders}
        target = "/apis/gpufleet.io/v1alpha1/nodedevices"
        body: JsonObject = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices"}
        body |= {"metadata": {"name": node}, "spec": wanted}
        if self.server.store.get(NODE_DEVICES, ("", node)) is None:
            self.ask(f"system:node:{node}", "POST", target, body, "application/json")
        else:
            self.ask(f"system:node:{node}", "PATCH", f"{target}/{node}", {"spec": wanted})

    def _holders_of(self, uid: str) -> list[JsonObject]:
        holders = []
        for one in self._given.get(uid, ()):
            kind = "whole" if one.gpu_milli >= 1000 else "share"
            holder = {"device": one.device, "podUID": uid, "kind": kind, "gpuMilli": one.gpu_milli}
            holders.append({**holder, "memoryMiB": one.memory_mib} if one.memory_mib else holder)
        return holders

    def _replace(self, written: Written) -> None:
        """A controller's pod that ended without success is made anew, and a failed one cleared away."""
        pod = written.latest
        workload = self.workloads.get(pod["metadata"].get("labels", {}).get("workload", ""))
        failed = pod.get("status", {}).get("phase") == "Failed"
        if workload is None or pod["status"].get("phase") == "Succeeded":
            return
        if (pod["metadata"]["uid"], "replaced") in self._regarded:
            return
        self._regarded.add((pod["metadata"]["uid"], "replaced"))
        loop = asyncio.get_running_loop()
        delay_s = self._random.uniform(*REPLACES_WITHIN_S)
        if failed and written.value is not None:
            loop.call_later(delay_s, self.ask, "system:controller", "DELETE", _path(pod))
        loop.call_later(delay_s, self._make, workload)

    def _make(self, workload: SimulatedWorkload) -> None:
        workload.made += 1
        metadata = dict(workload.template["metadata"])
        metadata["name"] = f"{workload.name}-{workload.made}"
        metadata["labels"] = {**metadata.get("labels", {}), "workload": workload.name}
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": workload.name,
                "uid": f"owner-{workload.name}",
                "controller": True,
            }
        ]
        try:
            self.server.add({**workload.template, "metadata": metadata}, user="system:controller")
        except Refusal:
            # A real controller tries again, too.
            asyncio.get_running_loop().call_later(1.0, self._make, workload)


def _name(pod: JsonObject) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _path(pod: JsonObject) -> str:
    namespace, name = _name(pod)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _kubelet(pod: JsonObject) -> str:
    return f"system:node:{pod_facts.node_of(pod)}"
