"""Pods of a claim read in an Event what was made for it."""

import asyncio
from random import Random

import msgspec

from gpufleet.agent.dra.claim_preparer import ClaimName
from gpufleet.agent.dra.made_instance_events import MadeInstanceEvents
from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from tests.agent.set_clock import Moment, SetClock

NOTE = "made for claim team/one: gpu-0-mig-2g20gb-14-2 in 4.5 s (MIG mode 1.5 s, instances made 3.0 s)"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"


class ClaimOfPods:
    """An API server with a claim that two pods and another thing may use."""

    def __init__(self) -> None:
        clock = SetClock(Moment())
        self.server = ApiServer(clock, Random(1))
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        made = self.server.add({**kind, "metadata": {"name": "one", "namespace": "team"}, "spec": {}})
        self.claim = ClaimName("team", made["metadata"]["uid"], "one")
        users = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in ("a", "b")]
        other = {"apiGroup": "example.com", "resource": "things", "name": "c", "uid": "uid-c"}
        allocation: dict[str, object] = {"devices": {"results": []}}
        status = {"status": {"allocation": allocation, "reservedFor": [*users, other]}}
        body = msgspec.json.encode(status)
        patch = Request("PATCH", f"{CLAIMS}/one/status", body, "application/merge-patch+json")
        self.server.answer(patch, "system:masters")
        client = Client(SimulatedTransport(self.server, "system:masters", Random(2)), clock, Random(3))
        self.events = MadeInstanceEvents(client, PodEvents(client, "node-1"))

    def told(self, claim: ClaimName) -> list[tuple[str, str, str]]:
        """For which pods Events are there afterwards, with type and note."""
        asyncio.run(self.events.tell(claim, NOTE))
        path = "/apis/events.k8s.io/v1/namespaces/team/events"
        found = msgspec.json.decode(self.server.answer(Request("GET", path), "system:masters").body)
        return sorted((one["regarding"]["uid"], one["type"], one["note"]) for one in found["items"])


def test_every_pod_that_may_use_the_claim_is_told() -> None:
    here = ClaimOfPods()
    assert here.told(here.claim) == [("uid-a", "Normal", NOTE), ("uid-b", "Normal", NOTE)]


def test_pods_of_another_claim_of_that_name_are_not_told() -> None:
    here = ClaimOfPods()
    assert here.told(msgspec.structs.replace(here.claim, uid="another")) == []
    assert here.told(msgspec.structs.replace(here.claim, name="gone")) == []
