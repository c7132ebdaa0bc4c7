"""Causes of queues: closed and broken ones, each kind of limit, and whose turn it is."""

from typing import Any

from tests.explain.causes.book import cause
from tests.scheduler.test_facts_of_victims import add_class
from tests.scheduler.world import World

QUEUE = "gpufleet.io/queue"


def add_queue(world: World, name: str, *gpus: dict[str, Any], **spec: Any) -> None:
    """A queue; ``gpus`` are its amounts of GPUs."""
    quotas = [{"resource": "gpu", **amounts} for amounts in gpus]
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    world.add({**kind, "metadata": {"name": name}, "spec": {"quotas": quotas, **spec}})


def spend(world: World, queue: str, held_until: str = "2126-12-01T00:00:00Z") -> None:
    """What the ledger says of a budget that is spent."""
    budget = {
        "spent": "800.00 EUR until 2026-12-01",
        "cost": "812.34 EUR",
        "checkedAt": "2026-11-28T10:00:00Z",
        "heldUntil": held_until,
    }
    path = f"/apis/gpufleet.io/v1alpha1/fleetqueues/{queue}/status"
    assert world.request("PATCH", path, {"status": {"budget": budget}}) == 200


def in_queue(world: World, queue: str, name: str = "p", gpus: int = 1, **more: Any) -> None:
    """A pod that waits in a queue."""
    world.pod(name, gpus=gpus, labels={QUEUE: queue}, **more)


@cause(
    "queue-quota", why="queue team uses 3 GPUs of the 3 GPUs, and it needs 1 GPU", way="raise nominal of gpu"
)
def the_nominal_amount_is_in_use(world: World) -> None:
    world.node("a", gpus=4)
    add_queue(world, "team", {"nominal": 3})
    in_queue(world, "team", "runs", 3, nodeName="a")
    in_queue(world, "team")


@cause(
    "queue-quota",
    why="2 GPUs too much; in use by other (6 GPUs, 50% of it borrowed)",
    way="queue team has 3 GPUs of its own that others use: other borrow",
)
def others_have_borrowed_what_it_is_owed(world: World) -> None:
    world.node("a")
    add_queue(world, "root", {"nominal": 1})
    add_queue(world, "other", {"nominal": 3}, parent="root")
    add_queue(world, "team", {"nominal": 3}, parent="root", preemption={"reclaim": "Never"})
    in_queue(world, "other", "runs", 6, nodeName="a")
    in_queue(world, "team", gpus=3, priority=-5)


@cause("queue-quota", why="that it may have with what it may borrow", way="raise borrowingLimit of gpu")
def a_queue_may_borrow_no_more(world: World) -> None:
    world.node("a")
    add_queue(world, "root", {"nominal": 8})
    add_queue(world, "team", {"nominal": 1, "borrowingLimit": 1}, parent="root")
    in_queue(world, "team", gpus=3)


@cause("queue-quota", why="of its hard limit", way="raise hardLimit of gpu in the FleetQueue root")
def a_queue_above_has_a_hard_limit(world: World) -> None:
    world.node("a")
    add_queue(world, "root", {"nominal": 8, "hardLimit": 2})
    add_queue(world, "team", parent="root")
    in_queue(world, "team", "runs", 2, nodeName="a")
    in_queue(world, "team")


@cause("queue-quota", why="others keep what is idle", way="raise the lendingLimit")
def others_do_not_lend(world: World) -> None:
    world.node("a")
    add_queue(world, "root")
    add_queue(world, "miser", {"nominal": 4, "lendingLimit": 0}, parent="root")
    add_queue(world, "team", {"nominal": 1}, parent="root")
    in_queue(world, "team", gpus=2)


@cause(
    "queue-quota-protected",
    why="it is never evicted, so it may not borrow; such work uses 2 GPUs of the 2 GPUs that queue team owns",
    way="use a PriorityClass whose pods may be evicted: such work may borrow",
)
def what_is_never_evicted_has_all_that_its_queue_owns(world: World) -> None:
    world.node("a")
    add_queue(world, "root")
    add_queue(world, "team", {"nominal": 2}, parent="root")
    add_queue(world, "other", {"nominal": 4}, parent="root")
    add_class(world, "kept", preemptible="false")
    in_queue(world, "team", "runs", 2, nodeName="a", priorityClassName="kept")
    in_queue(world, "team", priorityClassName="kept")


@cause("queue-quota", why="besides, of the 2 GPUs", way="raise nominal")
def neither_quota_nor_room(world: World) -> None:
    world.node("a", gpus=2)
    add_queue(world, "team", {"nominal": 2})
    in_queue(world, "team", "runs", 2, nodeName="a")
    in_queue(world, "team")


@cause("queue-unknown", why="queue vison is not described", way="did you mean vision?")
def a_name_is_misspelt(world: World) -> None:
    world.node("a")
    add_queue(world, "vision", {"nominal": 3})
    in_queue(world, "vison")


@cause("queue-unknown", why="spec.quotas[0].resource", way="correct that field")
def the_queue_is_malformed(world: World) -> None:
    world.node("a")
    add_queue(world, "good")
    add_queue(world, "team", quotas=[{"resource": "gpu/A100", "nominal": 3}])
    in_queue(world, "team")


@cause("queue-inner", why="queue root has queues below it", way="one of the queues below it: a and b")
def work_is_named_to_a_queue_with_children(world: World) -> None:
    world.node("a")
    add_queue(world, "root")
    for name in "ab":
        add_queue(world, name, parent="root")
    in_queue(world, "root")


@cause("queue-closed", why="queue root is held", way="kubectl patch fq root")
def a_queue_above_is_held(world: World) -> None:
    world.node("a")
    add_queue(world, "root", state="Held")
    add_queue(world, "team", {"nominal": 3}, parent="root")
    in_queue(world, "team")


@cause(
    "queue-budget",
    why="the budget of queue root is spent (800.00 EUR until 2026-12-01), and nothing new starts in it",
    way="wait until the period of the budget is over",
)
def the_budget_above_is_spent(world: World) -> None:
    world.node("a")
    add_queue(world, "root")
    add_queue(world, "team", {"nominal": 3}, parent="root")
    spend(world, "root")
    in_queue(world, "team")


@cause("queue-broken", why="the parent of queue team is not described", way="another spec.parent")
def the_parent_is_missing(world: World) -> None:
    world.node("a")
    add_queue(world, "team", {"nominal": 3}, parent="gone")
    in_queue(world, "team")


@cause(
    "queue-not-admitted",
    why="namespace default may not use queue team: it admits namespace vision",
    way="name a queue that admits the namespace",
)
def the_queue_names_other_namespaces(world: World) -> None:
    world.node("a")
    add_queue(world, "team", {"nominal": 3}, namespaces=["vision"])
    in_queue(world, "team")


@cause("queue-not-admitted", why="queue root, above it, admits namespaces with labels", way="spec.namespaces")
def the_queue_above_selects_other_namespaces(world: World) -> None:
    world.node("a")
    add_queue(world, "root", namespaceSelector={"matchLabels": {"team": "vision"}})
    add_queue(world, "team", {"nominal": 3}, parent="root")
    in_queue(world, "team")


@cause("queue-outside", why="waits outside of every queue", way="describe the FleetQueue default")
def queues_name_their_namespaces_and_the_pod_names_no_queue(world: World) -> None:
    world.node("a")
    add_queue(world, "team", {"nominal": 3}, namespaces=["vision"])
    world.pod("p", gpus=1)
