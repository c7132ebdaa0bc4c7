"""The controller of services with GPUs: twice a minute it lists pods and writes what differs.

Costs of deletion go on pods, and what keeps replicas from a place on their owner. What was written before is
read from the objects, but for Events of owners without a condition: another leader writes those once more.
Kubernetes warns of costs that are written often, so only those that changed are.
"""

import datetime as dt
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.resources import DEPLOYMENTS, EVENTS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS, Kind
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.operator.events import event_of
from gpufleet.operator.services.deletion_costs import PodKey, deletion_costs
from gpufleet.operator.services.service_pods import DELETION_COST, OUR_COST, ServiceNode, ServicePod
from gpufleet.operator.services.unplaced_replicas import (
    CONDITION,
    NOT_PLACED,
    PLACED,
    Owner,
    OwnerKey,
    Unplaced,
    replicas_by_owner,
    unplaced,
)

LOG = logging.getLogger(__name__)
ROUND_S = 30.0
"""Autoscalers of pods decide every 15 seconds, and wait minutes before they scale down."""

ACTION = "PlaceReplicas"
US_PER_S = 10**6
KINDS: Mapping[str, Kind] = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
}
_POD = msgspec.json.Decoder(ServicePod)
_NODE = msgspec.json.Decoder(ServiceNode)
_OWNER = msgspec.json.Decoder(Owner)
Read = TypeVar("Read", ServicePod, ServiceNode, Owner)


class ServicesController:
    """A leader's rounds. ``may_write`` is asked before each write: whether this process still leads."""

    def __init__(
        self, client: Client, may_write: Callable[[], bool], scheduler_name: str = keys.SCHEDULER_NAME
    ) -> None:
        self._client = client
        self._may_write = may_write
        self._scheduler_name = scheduler_name
        self._told: dict[OwnerKey, str] = {}
        self.rounds = 0

    async def run(self) -> None:
        """Take rounds until cancelled."""
        while True:
            try:
                await self.turn()
            except KubeError as error:
                LOG.warning("services were not read", extra={"problem": str(error)})
            await self._client.clock.sleep(ROUND_S)

    async def turn(self) -> int:
        """One round; the number of writes. Raises KubeError where the cluster cannot be read."""
        pods, nodes = await self._all(PODS, _POD), await self._all(NODES, _NODE)
        written = 0
        by_key = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
        for key, cost in deletion_costs(pods, nodes).items():
            written += await self._write_cost(by_key[key], key, cost)
        sets = (
            await self._all(REPLICA_SETS, _OWNER) if any(pod.gpus and pod.replica_set for pod in pods) else []
        )
        names = {
            (one.metadata.namespace, one.metadata.name): owner.name
            for one in sets
            if (owner := one.metadata.controller) is not None and owner.kind == DEPLOYMENTS.name
        }
        replicas = replicas_by_owner(pods, names, self._scheduler_name)
        now = self._client.clock.now()
        said = dict(unplaced(replicas, int(now.timestamp() * US_PER_S)))
        deployments = {
            (DEPLOYMENTS.name, one.metadata.namespace, one.metadata.name): one
            for one in await self._all(DEPLOYMENTS, _OWNER)
        }
        # Nothing waits where no replica with a GPU is left, as after a scale-down to none.
        told = (key for key, one in deployments.items() if one.condition is not None)
        said |= dict.fromkeys(key for key in told if key not in replicas)
        for owner_key, found in said.items():
            try:
                written += await self._tell(owner_key, found, deployments.get(owner_key), now)
            except KubeError as error:
                problem = {"service": "/".join(owner_key), "problem": str(error)}
                LOG.warning("a service is not written", extra=problem)
        self._told = {key: reason for key, reason in self._told.items() if said.get(key) is not None}
        self.rounds += 1
        return written

    async def _all(self, kind: Kind, decoder: "msgspec.json.Decoder[Read]") -> list[Read]:
        return [
            decode(raw, decoder) async for page in self._client.list_pages(kind) for raw in page.items or ()
        ]

    async def _write_cost(self, pod: ServicePod, key: PodKey, cost: int) -> bool:
        said = pod.metadata.annotations
        if said.get(DELETION_COST, "0") == str(cost):
            return False
        annotations = {DELETION_COST: str(cost), OUR_COST: str(cost)}
        body = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
        return await self._patched(PODS, key[1], body, key[0])

    async def _tell(
        self, key: OwnerKey, found: Unplaced | None, deployment: Owner | None, now: dt.datetime
    ) -> bool:
        """Write the condition of a Deployment, and an Event where something is new to say."""
        kind, namespace, name = key
        if kind == DEPLOYMENTS.name:
            if deployment is None or not await self._conditioned(deployment, found, now):
                return False
            owner = deployment
        elif found is None or self._told.get(key) == found.reason:
            return False
        else:
            try:
                text = await self._client.get(KINDS[kind], name, namespace=namespace)
            except NotFound:
                return False
            owner = decode(text, _OWNER)
        before = owner.condition
        is_new = found is not None and (before is None or before.reason != found.reason)
        if found is not None and is_new and self._may_write():
            self._told[key] = found.reason
            note = f"{found.reason}: {found.words}"
            event = event_of(KINDS[kind], owner.metadata, NOT_PLACED, note, now, action=ACTION, warns=True)
            try:
                await self._client.create(EVENTS, event, namespace=namespace)
            except KubeError as error:
                LOG.warning("an Event could not be written", extra={"problem": str(error)})
        return True

    async def _conditioned(self, owner: Owner, found: Unplaced | None, now: dt.datetime) -> bool:
        """Whether the condition of a Deployment was another and is written."""
        before, condition = owner.condition, _condition(found)
        if before is None and found is None:
            return False
        if before is not None and {name: getattr(before, name) for name in condition} == condition:
            return False
        is_turned = before is None or before.status != condition["status"]
        times = {"lastTransitionTime": whole_time(now.astimezone(dt.UTC))} if is_turned else {}
        stamped = {"type": CONDITION, **condition, "lastUpdateTime": whole_time(now), **times}
        body = {"metadata": {"uid": owner.metadata.uid}, "status": {"conditions": [stamped]}}
        name, namespace = owner.metadata.name, owner.metadata.namespace
        return await self._patched(
            DEPLOYMENTS, name, body, namespace, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def _patched(
        self,
        kind: Kind,
        name: str,
        body: Mapping[str, Any],
        namespace: str,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> bool:
        """Whether it was written; the next round sees what is different by then."""
        if not self._may_write():
            return False
        try:
            await self._client.patch(
                kind, name, body, namespace=namespace, patch_type=patch_type, subresource=subresource
            )
        except (Conflict, NotFound, LeadershipLost):
            return False
        except KubeError as error:
            LOG.warning("a service is not written", extra={"service": name, "problem": str(error)})
            return False
        return True


def _condition(found: Unplaced | None) -> dict[str, str]:
    if found is None:
        return {"status": "True", "reason": PLACED, "message": "each replica has a place"}
    return {"status": "False", "reason": found.reason or NOT_PLACED, "message": found.words}
