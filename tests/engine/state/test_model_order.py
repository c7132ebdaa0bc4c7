"""Models in an order: the first that has room and quota now, one model for a whole gang, and reasons."""

import random
from collections import Counter

import pytest

from gpufleet.engine.explanations.sentences import explain, explain_gang
from gpufleet.model.host_port import HostPort
from gpufleet.model.identifiers import GangName, PodUid
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import Story, gang, members, node, placed, pod, problems, shape
from tests.engine.queueing.queue_builder import queue, quota
from tests.engine.relation_builder import ZONE, asking, prefers_zone

MODELS = ("A100", "H100", "L4", "T4")


def models_of(told: Story, *uids: str) -> list[str]:
    """The model that each pod got; nodes are named MODEL-NUMBER."""
    return [told.binds[uid][0].split("-")[0] for uid in uids]


@pytest.mark.parametrize("seed", range(6 * EFFORT))
def test_an_earlier_model_is_passed_over_only_when_all_of_it_is_taken(seed: int) -> None:
    chance = random.Random(seed)
    free = Counter(dict.fromkeys(MODELS, 0))
    told = Story(chance.choice(("best-fit", "fgd")))
    for number in range(8):
        model, gpus = chance.choice(MODELS), chance.randint(1, 3)
        free[model] += gpus
        told.nodes(node(f"{model}-{number}", gpus, model=model))
    where: dict[str, str] = {}
    for number in range(40):
        if where and chance.random() < 0.3:
            gone = chance.choice(sorted(where))
            free[where.pop(gone)] += 1
            told.depart(gone)
        order = tuple(chance.sample(MODELS, chance.randint(1, 3)))
        uid = f"p{number}"
        told.arrive(pod(uid, shape(1, in_order=order)))
        expected = next((model for model in order if free[model]), None)
        if expected is None:
            assert uid not in told.binds
            told.depart(uid)
            continue
        assert models_of(told, uid) == [expected]
        free[expected] -= 1
        where[uid] = expected


def test_pods_of_a_gang_are_divided_in_the_same_way() -> None:
    told = Story()
    told.nodes(node("T4-0", 8, model="T4"), node("H100-0", 2, model="H100"), node("A100-0", 1, model="A100"))
    told.gangs(gang("g", 5))
    told.arrive(*members("g", 5, shape(1, in_order=("H100", "A100", "T4"))))
    assert Counter(models_of(told, *(f"g-{number}" for number in range(5)))) == {
        "H100": 2,
        "A100": 1,
        "T4": 2,
    }


def test_neighbours_do_not_change_the_order() -> None:
    told = Story()
    told.nodes(node("T4-0", 4, model="T4"), node("H100-0", 4, model="H100"))
    listens = asking(gpus=1, ports=(HostPort(80),))
    needs = shape(1, in_order=("H100", "T4"), relations=listens.relations)
    told.arrive(pod("one", needs), pod("two", needs), pod("three", needs))
    assert models_of(told, "one", "two") == ["H100", "T4"]
    assert "three" not in told.binds


def test_preferred_nodes_decide_among_those_of_one_model() -> None:
    told = Story()
    told.nodes(
        node("T4-0", 4, model="T4", labels={ZONE: "x"}),
        node("H100-0", 4, model="H100", labels={ZONE: "y"}),
        node("H100-1", 4, model="H100", labels={ZONE: "x"}),
    )
    told.arrive(pod("p", shape(1, in_order=("H100", "T4"), affinity=prefers_zone("x"))))
    assert told.binds["p"][0] == "H100-1"


def test_room_that_comes_on_any_of_the_models_starts_who_waits() -> None:
    told = Story()
    told.nodes(node("H100-0", 1, model="H100"))
    told.arrive(pod("one", shape(1, in_order=("H100", "T4"))), pod("two", shape(1, in_order=("H100", "T4"))))
    assert placed(told.nodes(node("T4-0", 1, model="T4"))) == ["two"]


def test_a_model_whose_quota_is_used_up_is_passed_over() -> None:
    told = Story()
    told.queues(queue("team", quota("gpu/H100", 1000), quota("gpu/T4", 2000)))
    told.nodes(node("H100-0", 4, model="H100"), node("T4-0", 1, model="T4"))
    needs = shape(1, in_order=("H100", "T4"))
    told.arrive(*(pod(uid, needs, queue="team") for uid in ("one", "two", "three")))
    assert models_of(told, "one", "two") == ["H100", "T4"]
    verdict = told.engine.explain(PodUid("three"))
    assert verdict is not None
    first, second = verdict.models_tried
    assert first.models == ("H100",)
    assert first.quota is not None
    assert first.quota.resource == "gpu/H100"
    assert (second.models, second.reasons, second.quota) == (("T4",), {"gpu-busy": 1}, None)


def test_the_reason_names_each_model_that_was_tried() -> None:
    told = Story()
    told.nodes(node("H100-0", 1, model="H100"), node("T4-0", 0))
    needs = shape(1, in_order=("H100", "T4"))
    told.arrive(pod("one", needs), pod("two", needs))
    verdict = told.engine.explain(PodUid("two"))
    assert verdict is not None
    words = explain(verdict, needs)
    assert "1 whole GPU (H100, else T4)" in words
    assert "tried in order: H100 (1 node with too few free GPUs), T4 (no node has any)" in words


def one_model_gang(told: Story, least: int, count: int, *models: str) -> None:
    told.gangs(gang("g", least, one_of=models))
    told.arrive(*members("g", count, shape(1, in_order=models)))


def test_a_gang_on_one_model_takes_the_first_that_holds_its_minimum_and_grows_there_alone() -> None:
    told = Story()
    told.nodes(node("H100-0", 2, model="H100"), node("A100-0", 3, model="A100"), node("T4-0", 9, model="T4"))
    one_model_gang(told, 3, 5, "H100", "A100", "T4")
    assert models_of(told, "g-0", "g-1", "g-2") == ["A100"] * 3
    assert len(told.binds) == 3
    assert not placed(told.nodes(node("H100-1", 9, model="H100")))
    assert placed(told.nodes(node("A100-1", 1, model="A100"))) == ["g-3"]


def test_a_gang_on_one_model_that_fits_on_none_hears_how_many_each_would_hold() -> None:
    told = Story()
    told.nodes(node("H100-0", 2, model="H100"), node("A100-0", 1, model="A100"))
    one_model_gang(told, 3, 3, "H100", "A100", "T4")
    said = told.engine.explain_gang(GangName("g"))
    assert said is not None
    words = explain_gang(said, shape(1, in_order=("H100", "A100", "T4")))
    assert "2 would fit" in words
    assert "H100 (2 members would fit" in words
    assert "A100 (1 member would fit" in words
    assert "T4 (no node has any)" in words
    assert not told.binds


def test_members_without_gpus_go_anywhere() -> None:
    told = Story()
    told.nodes(node("cpu"), node("H100-0", 2, model="H100"))
    told.gangs(gang("g", 3, one_of=("H100",)))
    told.arrive(pod("launcher", shape(), gang="g"), *members("g", 2, shape(1, in_order=("H100",))))
    assert len(told.binds) == 3


def test_an_order_of_other_models_than_those_accepted_is_refused() -> None:
    told = Story()
    bad = pod("p", shape(1, models=("H100",), in_order=("T4",)))
    assert "an order of other models" in problems(told.arrive(bad))[0]
