"""Whatever a cluster is like, every pod gets an answer: no error of ours, and no pod waits unexplained."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from gpufleet.explain.answer import State
from tests.explain.causes.neighbours import required, term
from tests.explain.causes.test_causes import answer_in
from tests.scheduler.world import World, in_world

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
TAINT = [{"key": "pool", "value": "gpu", "effect": "NoSchedule"}]
SLOT = {"gpufleet.io/gpu-share": "1"}

NODES = some.lists(
    some.fixed_dictionaries(
        {"gpus": some.integers(0, 4), "devices": some.booleans(), "shares": some.booleans()},
        optional={
            "taints": some.just(TAINT),
            "unschedulable": some.just(True),
            "labels": some.sampled_from([{ZONE: "a"}, {ZONE: "b"}]),
        },
    ),
    max_size=4,
)

RELATIONS = some.sampled_from(
    [
        required(kind, term(label, key))
        for kind in ("podAffinity", "podAntiAffinity")
        for label in ("x", "y")
        for key in ("kubernetes.io/hostname", ZONE)
    ]
)
GANGS = some.builds(
    lambda name, count: {"gpufleet.io/gang": name, "gpufleet.io/gang-min-members": str(count)},
    some.sampled_from(["g", "h"]),
    some.integers(1, 3),
)
SHARES = some.builds(lambda part: {"gpufleet.io/gpu-fraction": part}, some.sampled_from(["0.4", "0.7", "2"]))
PODS = some.lists(
    some.fixed_dictionaries(
        {"gpus": some.integers(0, 5), "labels": some.sampled_from([{}, {"app": "x"}, {"app": "y"}])},
        optional={
            "annotations": some.one_of(GANGS, SHARES),
            "affinity": RELATIONS,
            "nodeSelector": some.sampled_from([{ZONE: "a"}, {ZONE: "c"}]),
            "resources": some.sampled_from([{"cpu": "40"}, {"cpu": "100"}, {"memory": "1Ti"}, SLOT]),
            "tolerations": some.just([{"key": "pool", "operator": "Exists"}]),
            "priority": some.integers(-1, 1),
            "schedulingGates": some.just([{"name": "example.com/gate"}]),
            "schedulerName": some.just("default-scheduler"),
            "nodeName": some.sampled_from(["n0", "n1"]),
        },
    ),
    min_size=1,
    max_size=8,
)


def pod(world: World, number: int, wanted: Object) -> None:
    """One of the pods; a gate and a node exclude one another in the API."""
    if "nodeName" in wanted:
        wanted = {key: value for key, value in wanted.items() if key != "schedulingGates"}
    world.pod(f"p{number}", **wanted)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes=NODES, pods=PODS, scheduled=some.booleans())
def test_every_pod_of_any_cluster_has_an_answer(
    nodes: list[Object], pods: list[Object], scheduled: bool
) -> None:
    async def story(world: World) -> None:
        if not scheduled:
            await world.stop()
        for number, wanted in enumerate(nodes):
            world.node(f"n{number}", **wanted)
        for number, wanted in enumerate(pods):
            pod(world, number, dict(wanted))
        if scheduled:
            await world.settle()
        for number in range(len(pods)):
            answer = await answer_in(world, f"p{number}")
            placed = answer.state in {State.RUNS, State.PLACED}
            assert placed == bool(world.node_of(f"p{number}"))
            assert sum(row.first for row in answer.reasons) <= answer.nodes
            if not placed:
                assert answer.cause not in {"", "unknown", "unseen"}
                assert answer.why
                assert answer.way_out
            if scheduled:
                # What the engine would place now, the scheduler has placed.
                assert answer.cause not in {"about-to-run", "no-leader", "behind-others"}

    in_world(story)
