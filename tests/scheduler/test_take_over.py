"""One leader at a time; a new one starts from what the API server holds, and nothing is bound twice."""

from gpufleet.kube.lease import LAST_EPOCH, LeadershipLost
from gpufleet.scheduler.fence import FenceMissingError
from tests.scheduler.world import World, in_world


def lease(world: World) -> dict[str, object]:
    path = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases"
    found: dict[str, object] = world.objects(path)[0]["spec"]
    return found


def test_a_second_process_stands_by_while_the_first_leads() -> None:
    async def story(world: World) -> None:
        world.node("a")
        await world.settle()
        world.start()
        world.pod("p")
        await world.settle(60.0)
        assert lease(world)["holderIdentity"] == "scheduler-1"
        assert [code for _, code in world.bindings() if code == 201] == [201]

    in_world(story)


def test_a_signal_gives_the_lease_back_and_the_next_leads_at_once() -> None:
    async def story(world: World) -> None:
        world.node("a")
        await world.settle()
        await world.stop()
        assert lease(world)["holderIdentity"] == ""
        world.start()
        world.pod("p")
        await world.settle(10.0)
        assert world.node_of("p") == "a"
        assert world.grant_of("p")["epoch"] == 2

    in_world(story)


def test_a_restart_gives_no_device_away_that_is_held() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=4)
        for number in range(3):
            world.pod(f"p{number}")
        await world.settle()
        await world.stop()
        world.start()
        world.pod("late-1")
        world.pod("late-2")
        await world.settle(30.0)
        held = [device for name in ("p0", "p1", "p2", "late-1") for device in world.devices_of(name)]
        assert len(set(held)) == 4
        assert world.node_of("late-2") == ""

    in_world(story)


def test_without_the_fence_nothing_is_bound_and_the_reason_is_told() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.server.policies.fence = False
        world.node("a")
        world.pod("p")
        life = world.start()
        await world.clock.sleep(120.0)
        assert world.node_of("p") == ""
        assert isinstance(life.exception(), FenceMissingError)
        world.life = None

    in_world(story)


def test_who_cannot_renew_the_lease_stops() -> None:
    async def story(world: World) -> None:
        world.node("a")
        await world.settle()
        life = world.life
        assert life is not None
        path = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"
        stolen = {"spec": {"holderIdentity": "thief", "leaseTransitions": 9}}
        assert world.request("PATCH", path, stolen) == 200
        world.pod("p")
        await world.clock.sleep(30.0)
        assert isinstance(life.exception(), LeadershipLost)
        world.life = None

    in_world(story)


def test_a_lease_that_was_deleted_starts_above_every_epoch_in_use() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("p")
        await world.settle()
        await world.stop()
        world.start()
        world.pod("q")
        await world.settle()
        assert world.grant_of("q")["epoch"] == 2
        await world.stop()
        path = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"
        assert world.request("DELETE", path) == 200
        world.start()
        world.pod("r")
        await world.settle(60.0)
        assert world.grant_of("r")["epoch"] == 3

    in_world(story)


LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"


def test_a_lease_that_somebody_set_to_its_last_transition_is_overcome() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("p")
        await world.settle()
        await world.stop()
        assert world.request("PATCH", LEASE, {"spec": {"leaseTransitions": LAST_EPOCH}}) == 200
        world.start()
        world.pod("q")
        await world.settle(200.0)
        assert world.grant_of("p")["epoch"] < world.grant_of("q")["epoch"] < 10

    in_world(story)


def test_grants_of_the_last_epoch_stop_no_scheduler_and_give_nothing_away() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        await world.settle()
        await world.stop()
        assert world.request("PATCH", LEASE, {"spec": {"leaseTransitions": LAST_EPOCH - 1}}) == 200
        world.start()
        world.pod("p")
        await world.settle()
        assert world.grant_of("p")["epoch"] == LAST_EPOCH
        await world.stop()
        world.start()
        world.pod("q")
        world.pod("r")
        await world.settle(400.0)
        bound = [name for name in ("q", "r") if world.node_of(name)]
        assert len(bound) == 1
        assert {*world.devices_of("p"), *world.devices_of(bound[0])} == {"GPU-a-0", "GPU-a-1"}
        assert 0 < world.grant_of(bound[0])["epoch"] < 10

    in_world(story)


def test_a_new_leader_counts_a_pod_of_another_scheduler_beside_what_is_granted() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("granted")
        await world.settle()
        await world.stop()
        # It comes first in the list, and nobody knows which GPU it has.
        world.pod("another", schedulerName="other", nodeName="a")
        world.pod("waiting")
        world.start()
        await world.settle(40.0)
        assert world.node_of("waiting") == ""

    in_world(story)
