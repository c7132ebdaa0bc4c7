"""A new leader decides nothing before the server refuses what an older one writes."""

from random import Random

import msgspec
import pytest

from gpufleet.cluster.settings import LEASE_NAME, LEASE_NAMESPACE
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import write_grant
from gpufleet.kube.transport import Request
from gpufleet.model.grant import Grant
from gpufleet.scheduler.fence import GIVE_UP_S, PAUSE_MOST_S, FenceMissingError, wait_for_fence
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.engine.effort import seeds
from tests.simulation.spoilt_way import Lost, Spoilt, SpoiltWay, refused, too_many

OLD, NEW = 3, 4
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases/{LEASE_NAME}"
USELESS: tuple[Spoilt, ...] = (
    Lost.REQUEST,
    Lost.ANSWER,
    too_many(1),
    refused(500, "not now"),
    refused(403, "this user may not bind pods"),
    refused(422, "not valid"),
)
"""Answers from which nothing follows about the fence."""


class TakeOver:
    """A server whose Lease was the old leader's, and a pod that both leaders could bind."""

    def __init__(self, loop: VirtualLoop, lag_s: float) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(1))
        self.server.policies.fence_lag_s = lag_s
        self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}})
        self.server.add(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": LEASE_NAME, "namespace": LEASE_NAMESPACE},
                "spec": {"leaseTransitions": OLD},
            }
        )
        self.way = SpoiltWay(
            SimulatedTransport(self.server, SCHEDULER_USER, Random(2)), self.clock, "/binding"
        )
        self.client = Client(self.way, self.clock, Random(3))

    def lead(self) -> None:
        """The new leader has the Lease."""
        body = msgspec.json.encode({"spec": {"leaseTransitions": NEW}})
        request = Request("PATCH", LEASE, body, content_type="application/merge-patch+json")
        assert self.server.answer(request, "system:masters").status == 200

    def binds(self, epoch: int) -> bool:
        """True if a leader of this epoch can bind a pod now."""
        name = f"p{epoch}"
        spec = {"schedulerName": "gpufleet", "containers": [{"name": "main", "image": "x"}]}
        self.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        metadata = {"name": name, "annotations": {keys.GRANT: write_grant(Grant(epoch))}}
        body = msgspec.json.encode({"metadata": metadata, "target": {"kind": "Node", "name": "n"}})
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        request = Request("POST", path, body, content_type="application/json")
        return self.server.answer(request, SCHEDULER_USER).status == 201


@pytest.mark.parametrize("seed", seeds(60))
def test_once_the_wait_is_over_the_older_leader_binds_nothing_and_the_new_one_does(seed: int) -> None:
    chance = Random(seed)
    lag_s = chance.choice((0.0, 0.002, 0.3, 3.0, 15.0))

    async def work(loop: VirtualLoop) -> None:
        take_over = TakeOver(loop, lag_s)
        await take_over.clock.sleep(60.0)
        take_over.lead()
        take_over.way.spoilt = chance.choices(USELESS, k=chance.randint(0, 5))
        began_s = take_over.clock.monotonic_s()
        await wait_for_fence(take_over.client, LEASE_NAMESPACE, NEW)
        took_s = take_over.clock.monotonic_s() - began_s
        assert not take_over.binds(OLD)
        assert take_over.binds(NEW)
        assert all("dryRun=All" in target for _, target in take_over.way.asked)
        # At least as long as the policy took to follow, and no longer than two pauses and the answers beyond.
        assert lag_s <= took_s <= lag_s + 2 * PAUSE_MOST_S + 5

    run(work, seed)


def test_where_no_policy_refuses_the_older_leader_the_new_one_never_begins() -> None:
    async def work(loop: VirtualLoop) -> None:
        take_over = TakeOver(loop, 0.0)
        take_over.server.policies.fence = False
        take_over.lead()
        began_s = take_over.clock.monotonic_s()
        with pytest.raises(FenceMissingError, match="epoch 3 although the Lease is at 4"):
            await wait_for_fence(take_over.client, LEASE_NAMESPACE, NEW)
        assert 0 <= take_over.clock.monotonic_s() - began_s - GIVE_UP_S <= 2 * PAUSE_MOST_S
        # About one probe a second, after the first few.
        assert len(take_over.way.asked) <= GIVE_UP_S / PAUSE_MOST_S + 10

    run(work, 1)
