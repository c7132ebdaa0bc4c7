"""What fits, why not, and how many: three answers of the engine that must be one truth."""

import pytest

from gpufleet.engine.arrays import layout
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.engine.place.score import fit
from gpufleet.model.device import Serves
from gpufleet.model.identifiers import PodUid
from gpufleet.model.shape import Shape, Within
from tests.engine.crowded_fleet import CrowdedFleet
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, device, node, pod, shape, share
from tests.engine.relation_builder import app, asking, term, zoned

SEEDS = seeds(120)
ROOM_LIMIT = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_fits_and_reasons_against_agree_with_the_plain_account(seed: int) -> None:
    fleet = CrowdedFleet(seed)
    state = fleet.story.engine.state
    for name, plain in fleet.plain_nodes().items():
        row = state.fleet.row_by_name[name]
        for needs in fleet.shapes:
            wanted = fleet.shape_row(needs)
            answer = bool(fit.fits(state.store.tables, wanted, row))
            reasons = fit.reasons_against(state.store.tables, wanted, row)
            assert answer == plain.fits(needs) == (reasons == 0), (name, needs, TABLE.names_of(reasons))


@pytest.mark.parametrize("seed", SEEDS)
def test_room_is_what_can_be_placed_one_after_the_other(seed: int) -> None:
    fleet = CrowdedFleet(seed)
    state = fleet.story.engine.state
    for needs in fleet.shapes:
        for name, plain in fleet.plain_nodes().items():
            row = state.fleet.row_by_name[name]
            room = fit.room(state.store.tables, fleet.shape_row(needs), row, ROOM_LIMIT)
            placed = 0
            while placed < ROOM_LIMIT and plain.fits(needs):
                known = plain.device_by_id
                together = max(plain.fitting_together(needs), key=len)
                fullest = sorted(together, key=lambda one: known[one].free_milli)
                plain.take(needs, tuple(fullest[: needs.gpu.count]))
                placed += 1
            if needs.gpu.whole or needs.gpu.count <= 1:
                assert room == placed
            else:
                assert room >= placed


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (shape(1), {"no-gpu": 1, "gpu-sharing": 1, "gpu-sick": 1, "gpu-busy": 1}),
        (shape(3), {"no-gpu": 1, "gpu-count": 3}),
        (shape(1, models=("H100",)), {"no-gpu": 1, "gpu-model": 3}),
        (share(950), {"no-gpu": 1, "gpu-fragmented": 1, "gpu-sick": 1, "gpu-busy": 1}),
        (share(100, memory_mib=36_001), {"no-gpu": 1, "gpu-sick": 1, "gpu-memory": 2}),
        (shape(cpu_milli=64_001), {"cpu": 4}),
        (shape(1, other=(("example.com/nic", 1),), selector=(("zone", "a"),)), {"selector": 4}),
    ],
)
def test_each_node_is_counted_once_under_its_first_reason(needs: Shape, expected: dict[str, int]) -> None:
    told = Story()
    told.nodes(
        node("no gpu"),
        node("for shares", 2, serves=Serves.SHARE),
        node("sick", devices=tuple(device(f"sick/{index}", healthy=False) for index in range(2))),
        node("busy", 2),
    )
    for index in range(2):
        told.run_on(pod(f"s{index}", share(100)), "for shares", f"for shares/{index}")
        told.run_on(pod(f"b{index}", share(600)), "busy", f"busy/{index}")
    told.arrive(pod("refused", needs))
    assert told.explain("refused") == expected


def test_gpus_that_can_never_be_near_each_other_are_told_apart_from_those_that_are_not_now() -> None:
    told = Story()
    told.nodes(node("pairs", 4, link_group_size=2))
    for index in (0, 2):
        told.run_on(pod(f"on {index}", shape(1)), "pairs", f"pairs/{index}")
    told.arrive(
        pod("four", shape(4, within=Within.LINK_GROUP)), pod("pair", shape(2, within=Within.LINK_GROUP))
    )
    assert told.explain("four") == {"gpu-apart": 1}
    assert told.explain("pair") == {"gpu-fragmented": 1}
    told.depart("on 2")
    assert told.binds["pair"][1] == ("pairs/2", "pairs/3")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_verdict_counts_every_node_once_first_and_under_all_its_reasons(seed: int) -> None:
    fleet = CrowdedFleet(seed)
    state = fleet.story.engine.state
    plain = fleet.plain_nodes()
    for uid in fleet.in_state(layout.PodState.WAITING):
        verdict = fleet.story.engine.explain(uid)
        assert verdict is not None
        needs = state.pods.pod_at(state.pods.row_by_uid[uid]).shape
        assert not any(one.accepts(needs) and one.fits(needs) for one in plain.values())
        assert verdict.nodes == sum(verdict.first_reasons.values()) == len(plain)
        for name, count in verdict.first_reasons.items():
            assert count <= verdict.all_reasons[name]
        if verdict.nearest is not None:
            assert verdict.nearest.short
            assert not plain[verdict.nearest.node].fits(needs)


def test_each_node_tells_all_its_reasons_or_none_where_a_pod_would_fit() -> None:
    told = Story()
    told.nodes(node("small", 1, cpu_milli=500), node("other", 1, model="H100"), node("good", 1))
    told.arrive(pod("p", shape(1, models=("A100",))))
    assert told.engine.reasons_by_node(PodUid("p")) is None
    told.refuse("p")
    assert told.engine.reasons_by_node(PodUid("p")) == {
        "small": ("cpu",),
        "other": ("gpu-model",),
        "good": (),
    }
    told.arrive(pod("q", shape(2, cpu_milli=1000)))
    assert told.engine.reasons_by_node(PodUid("q")) == {
        "small": ("gpu-count", "cpu"),
        "other": ("gpu-count",),
        "good": ("gpu-count",),
    }


def test_the_reasons_of_neighbours_are_told_node_by_node() -> None:
    told = Story()
    told.nodes(*zoned("a", "a", "b"))
    told.run_on(pod("old", labels=app("x")), "n0")
    told.arrive(pod("p", asking(anti_affinity=(term("x"),), gpus=9)))
    assert told.engine.reasons_by_node(PodUid("p")) == {
        "n0": ("gpu-count", "pod-anti-affinity"),
        "n1": ("gpu-count", "pod-anti-affinity"),
        "n2": ("gpu-count",),
    }
