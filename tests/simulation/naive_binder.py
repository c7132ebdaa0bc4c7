"""A scheduler of a hundred lines that lists, fits first and binds; and the same with one mistake.

It proves the simulation: without a mistake every promise holds, and each mistake breaks the promise
that is there to catch it.
"""

import asyncio
import json
from collections.abc import Awaitable
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec

from gpufleet.kube.clock import Clock
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import Request, Transport
from gpufleet.simulation import pod_facts
from gpufleet.simulation.free_capacity import NodeRoom, rooms_of
from gpufleet.simulation.history import NODE_DEVICES, NODES, PODS, RECORDED, History, Rules
from gpufleet.simulation.object_store import Written
from gpufleet.simulation.world import Scheduler

LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"
STRATEGIC = "application/strategic-merge-patch+json"
EVERY_S = 1.0
LEASE_S = 15.0


def naive(mistake: str = "") -> Scheduler:
    """The binder as a scenario starts it."""

    def start(identity: str, transport: Transport, clock: Clock, random: Random, /) -> Awaitable[None]:
        return NaiveBinder(identity, transport, clock, random, mistake).run()

    return start


class NaiveBinder:
    """Lists everything each second; remembers nothing but its epoch."""

    def __init__(
        self, identity: str, transport: Transport, clock: Clock, random: Random, mistake: str
    ) -> None:
        self._identity = identity
        self._transport = transport
        self._clock = clock
        self._random = random
        self._mistake = mistake
        self._epoch = -1
        self._first_epoch = -1
        self._renewed_s = -1e9

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                if await self._lead():
                    await self._round()
            except TransportError:
                pass
            await self._clock.sleep(EVERY_S if self._mistake != "hammers" else 0.02)

    async def _ask(self, method: str, target: str, body: Any = None, kind: str = "application/json") -> Any:
        raw = b"" if body is None else msgspec.json.encode(body)
        response = await self._transport.call(Request(method, target, raw, kind), timeout_s=10)
        return {"code": response.status, **msgspec.json.decode(response.body)}

    async def _lead(self) -> bool:
        """Hold the Lease, or take it when its holder did not renew it."""
        lease = await self._ask("GET", LEASE)
        now = self._clock.now().timestamp()
        spec = {"holderIdentity": self._identity, "leaseTransitions": 0, "renewedAt": now}
        if lease["code"] == 404:
            made = {"metadata": {"name": "gpufleet-scheduler"}, "spec": spec}
            lease = await self._ask("POST", LEASE.rpartition("/")[0], made)
        elif lease["code"] == 200:
            old = lease["spec"]
            mine = old["holderIdentity"] == self._identity
            if not mine and now - old["renewedAt"] < LEASE_S:
                return False
            spec["leaseTransitions"] = old["leaseTransitions"] + (not mine)
            code = lease.pop("code")
            lease = await self._ask("PUT", LEASE, {**lease, "spec": spec})
            del code
        if lease["code"] not in {200, 201}:
            return False
        self._epoch = lease["spec"]["leaseTransitions"]
        if self._first_epoch < 0:
            self._first_epoch = self._epoch
        return True

    async def _round(self) -> None:
        writes = []
        for kind in (NODES, NODE_DEVICES, PODS):
            listed = await self._ask("GET", RECORDED[kind])
            if listed["code"] != 200:
                return
            for item in listed["items"]:
                name = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
                writes.append(Written(0, 0.0, kind, name, item, None, ""))
        rooms = rooms_of(History(tuple(writes), 0.0, Rules()))
        for room in rooms.values():
            # Whatever report there is, it is believed: a GPU that it does not name is held by no pod.
            room.devices = {device: free for device, free in room.devices.items() if free >= 0}
        pods = [written.latest for written in writes if written.kind == PODS]
        await self._misbehave(pods)
        waiting = [pod for pod in pods if not pod_facts.node_of(pod) and _is_ours(pod)]
        groups: dict[str, list[Any]] = {}
        for pod in waiting:
            gang = pod_facts.gang_of(pod)
            key = pod["metadata"]["name"] if gang is None or self._mistake == "half-gangs" else gang[0]
            groups.setdefault(key, []).append(pod)
        for members in groups.values():
            await self._place(members, pods, rooms)

    async def _place(self, members: list[Any], pods: list[Any], rooms: dict[str, NodeRoom]) -> None:
        gang = pod_facts.gang_of(members[0])
        known = [
            pod
            for pod in pods
            if gang is not None and pod_facts.gang_of(pod) == gang and not pod_facts.is_over(pod)
        ]
        tried = msgspec.structs.replace
        copies = {name: tried(room, devices=dict(room.devices)) for name, room in rooms.items()}
        chosen = []
        for pod in members:
            room = next((name for name, room in copies.items() if room.fits(pod)), None)
            if room is None or self._mistake == "binds-nothing":
                break
            chosen.append((pod, room, self._grant(pod, copies[room])))
        short = gang is not None and len(known) < gang[1] and self._mistake != "half-gangs"
        if short or len(chosen) < len(members):
            for pod in members:
                await self._explain(pod)
            return
        if self._mistake != "forgets-what-it-gave":
            rooms.update(copies)
        for pod, node, grant in chosen:
            await self._bind(pod, node, grant)

    def _grant(self, pod: Any, room: NodeRoom) -> list[dict[str, Any]]:
        before = dict(room.devices)
        room.place(pod)
        return [
            {"id": device, "kind": "whole", "gpuMilli": before[device] - left}
            for device, left in room.devices.items()
            if left != before[device]
        ]

    async def _bind(self, pod: Any, node: str, grant: list[dict[str, Any]]) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        epoch = (
            self._first_epoch if self._mistake == "old-epoch" and self._random.random() < 0.5 else self._epoch
        )
        text = json.dumps({"v": 1, "epoch": epoch, "containers": {"main": grant}})
        metadata = {"name": name, "uid": uid, "annotations": {pod_facts.GRANT: text}}
        body = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
        answer = await self._ask("POST", f"{_path(pod)}/binding", body)
        if answer["code"] == 429:
            await asyncio.sleep(answer["details"]["retryAfterSeconds"])

    async def _explain(self, pod: Any) -> None:
        told = pod_facts.condition(pod, "PodScheduled")
        if self._mistake == "says-nothing" or (told is not None and told.get("reason") == "Unschedulable"):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no room",
        }
        if self._mistake == "talks-nonsense":
            condition["message"] = "nan of 4 nodes"
        await self._ask("PATCH", f"{_path(pod)}/status", {"status": {"conditions": [condition]}}, STRATEGIC)

    async def _misbehave(self, pods: list[Any]) -> None:
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        if self._mistake == "takes-running-pods" and running:
            await self._ask("DELETE", _path(self._random.choice(running)))


def _is_ours(pod: Any) -> bool:
    return pod["spec"].get("schedulerName") == "gpufleet" and "deletionTimestamp" not in pod["metadata"]


def _path(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{quote(pod['metadata']['name'])}"
