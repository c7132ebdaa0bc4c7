"""A gang whose queue says so asks for its nodes by a ProvisioningRequest, and starts when they are there."""

from typing import Any

from tests.scheduler.provisioning.autoscaler_stand_in import TEMPLATES, Autoscaler, requests, stage
from tests.scheduler.test_eviction_planner import add_queue, of
from tests.scheduler.test_reservations import change_leaders
from tests.scheduler.test_shown_reasons import reasons
from tests.scheduler.world import World, in_world

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_OF = "autoscaling.x-k8s.io/provisioning-class-name"
MEMBERS = ("train-0", "train-1")


def quota_of(gpus: int) -> dict[str, Any]:
    """So many GPUs and none that are borrowed."""
    return {"resource": "gpu", "nominal": gpus, "borrowingLimit": 0}


def gang_waits(world: World, *, quota: int = 16, **provisioning: Any) -> None:
    """Two members of eight GPUs, in a queue that asks by requests; no node has room."""
    asks = {"provisioningClassName": CLASS, **provisioning}
    add_queue(world, "team", quotas=[quota_of(quota)], provisioning=asks)
    world.node("small", gpus=1)
    words = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
    for name in MEMBERS:
        world.pod(name, gpus=8, labels=of("team"), annotations=words)


def test_a_gang_gets_its_nodes_by_one_request_and_uses_them() -> None:
    async def story(world: World) -> None:
        autoscaler = Autoscaler(world, can_buy=2)
        world.also(autoscaler.run())
        gang_waits(world, parameters={"ValidUntilSeconds": "900"})
        await world.settle(8)
        (request,) = requests(world)
        assert request["spec"] == {
            "provisioningClassName": CLASS,
            "parameters": {"ValidUntilSeconds": "900"},
            "podSets": [{"podTemplateRef": {"name": f"{request['metadata']['name']}-0"}, "count": 2}],
        }
        # No autoscaler buys for the single pods beside it.
        assert reasons(world, MEMBERS) == ["WaitingForProvisioning"] * 2
        await world.settle(30)
        assert "has its nodes asked for" in world.why("train-0")
        await world.settle(60)
        assert sorted(map(world.node_of, MEMBERS)) == ["bought-1", "bought-2"]
        for name in MEMBERS:
            said = world.get(name)["metadata"]["annotations"]
            assert (said[CONSUMES], said[CLASS_OF]) == (request["metadata"]["name"], CLASS)
        await world.settle(20)
        assert requests(world) == world.objects(TEMPLATES) == []
        assert autoscaler.bought == 2

    in_world(story)


def test_a_template_has_what_pods_like_it_need_and_nothing_of_one_pod() -> None:
    async def story(world: World) -> None:
        gang_waits(world)
        await world.settle(8)
        (template,) = world.objects(TEMPLATES)
        found = template["template"]
        assert found["metadata"]["labels"] == world.get("train-0")["metadata"]["labels"]
        assert found["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
        assert "nodeName" not in found["spec"]
        owners = [one["uid"] for one in template["metadata"]["ownerReferences"]]
        assert owners == [world.get(name)["metadata"]["uid"] for name in MEMBERS]
        assert owners == [one["uid"] for one in requests(world)[0]["metadata"]["ownerReferences"]]

    in_world(story)


def test_a_request_that_fails_is_made_anew_after_pauses_as_often_as_the_queue_says() -> None:
    """Pauses of 60 s and 120 s behind failures that are seen within ten seconds each."""

    async def story(world: World) -> None:
        world.also(Autoscaler(world).run())
        gang_waits(world, retryStrategy={"backoffLimitCount": 2})
        await world.settle(40)
        assert attempts(world) == ["1"]
        assert "no group can grow by so many" in world.why("train-0")
        await world.settle(50)
        assert attempts(world) == ["2"]
        await world.settle(90)
        assert attempts(world) == ["2"]
        await world.settle(60)
        assert attempts(world) == ["3"]
        await world.settle(2000)
        assert attempts(world) == ["3"]
        assert "no more is made after 3 requests" in world.why("train-0")

    in_world(story)


def test_nodes_that_come_after_the_booking_are_asked_for_again() -> None:
    async def story(world: World) -> None:
        autoscaler = Autoscaler(world, can_buy=2, joins_after_s=5000)
        world.also(autoscaler.run())
        gang_waits(world)
        await world.settle(650)
        assert stage(requests(world)[0]) == "BookingExpired"
        autoscaler.can_buy, autoscaler.joins_after_s = 2, 20
        await world.settle(150)
        assert all(map(world.node_of, MEMBERS))

    in_world(story)


def test_work_that_quota_keeps_waiting_asks_for_nothing_and_takes_back_what_it_asked() -> None:
    async def story(world: World) -> None:
        gang_waits(world, quota=8)
        await world.settle(20)
        assert requests(world) == []
        queue = "/apis/gpufleet.io/v1alpha1/fleetqueues/team"
        assert world.request("PATCH", queue, {"spec": {"quotas": [quota_of(16)]}}) == 200
        await world.settle(20)
        assert len(requests(world)) == 1
        assert world.request("PATCH", queue, {"spec": {"quotas": [quota_of(8)]}}) == 200
        await world.settle(30)
        assert requests(world) == []

    in_world(story)


def test_the_request_of_a_gang_that_is_gone_is_deleted_also_by_the_next_leader() -> None:
    async def story(world: World) -> None:
        gang_waits(world)
        await world.settle(8)
        assert len(requests(world)) == 1
        await world.stop()
        for name in MEMBERS:
            world.delete(name)
        await change_leaders(world)
        await world.settle(60)
        assert requests(world) == world.objects(TEMPLATES) == []

    in_world(story)


def test_after_a_crash_at_any_write_the_next_leader_makes_the_same_request_once() -> None:
    """Before the template, between it and the request, and after both."""

    async def story(world: World) -> None:
        world.loses("POST", "podtemplates", times=1000)
        gang_waits(world)
        await world.settle(20)
        assert (len(world.objects(TEMPLATES)), len(requests(world))) == (0, 0)
        await world.stop()
        world.hindrances.clear()
        world.loses("POST", "provisioningrequests", times=1000)
        await change_leaders(world)
        assert (len(world.objects(TEMPLATES)), len(requests(world))) == (1, 0)
        await world.stop()
        world.hindrances.clear()
        for _ in range(2):
            await change_leaders(world)
            assert (len(world.objects(TEMPLATES)), len(requests(world))) == (1, 1)

    in_world(story)


def test_gangs_of_other_queues_single_pods_and_pods_with_a_request_of_their_own_ask_as_before() -> None:
    async def story(world: World) -> None:
        gang_waits(world, quota=64)
        for name in MEMBERS:
            world.delete(name)
        world.pod("alone", gpus=8, labels=of("team"))
        words = {"gpufleet.io/gang": "own", "gpufleet.io/gang-min-members": "1", CONSUMES: "mine"}
        world.pod("own", gpus=8, labels=of("team"), annotations=words)
        await world.settle(20)
        assert reasons(world, ["alone", "own"]) == ["Unschedulable"] * 2
        assert requests(world) == []

    in_world(story)


def attempts(world: World) -> list[str]:
    """Which attempts stand."""
    return [one["metadata"]["annotations"]["gpufleet.io/provisioning-attempt"] for one in requests(world)]


def test_where_no_such_requests_are_served_the_members_say_so() -> None:
    async def story(world: World) -> None:
        world.server.withdraw("autoscaling.x-k8s.io", "provisioningrequests")
        gang_waits(world)
        await world.settle(20)
        assert reasons(world, MEMBERS) == ["WaitingForProvisioning"] * 2
        assert "the API server serves none" in world.why("train-0")

    in_world(story)
