"""Quota and placement are one decision: who starts, who waits, what wakes them, and what they are told."""

import msgspec
import numpy as np
import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays import layout
from gpufleet.engine.explanations.sentences import explain
from gpufleet.engine.instruction import (
    AnyInstruction,
    Evict,
    GangUnschedulable,
    QueueBar,
    QuotaLimit,
    QuotaShortage,
    Unschedulable,
    Verdict,
    WhyBarred,
)
from gpufleet.engine.preempt.victims import NoVictims
from gpufleet.model.identifiers import GangName, GpuModelName, PodUid, QueueName, QuotaResource
from gpufleet.model.queue import Queue, QueueState
from tests.engine.fleet_builder import Story, device, gang, members, node, placed, pod, refused, shape, share
from tests.engine.queueing.queue_builder import queue, quota, used

GPUS = 1000


def story(*queues: Queue, gpus: int = 16) -> Story:
    """An engine with one node of A100s and these queues, in which nobody is evicted."""
    told = Story(victims=NoVictims())
    told.nodes(node("n", gpus))
    told.queues(*queues)
    return told


def verdict(told: Story, uid: str) -> Verdict:
    """What a waiting pod is told."""
    found = told.engine.explain(PodUid(uid))
    assert found is not None
    return found


def short(
    name: str, resource: str, limit: QuotaLimit, used: int, asked: int, allowed: int, missing: int
) -> QuotaShortage:
    """A shortage with its numbers."""
    return QuotaShortage(QueueName(name), QuotaResource(resource), limit, used, asked, allowed, missing)


def bar(name: str, why: WhyBarred) -> QueueBar:
    """What bars a queue."""
    return QueueBar(QueueName(name), why)


def shared_tree(*, borrow: int | None = None, lend: int | None = None) -> tuple[Queue, ...]:
    """Two teams of 4 GPUs each under one root."""
    return (
        queue("root"),
        queue("a", quota("gpu", 4 * GPUS, borrow=borrow), parent="root"),
        queue("b", quota("gpu", 4 * GPUS, lend=lend), parent="root"),
    )


def test_a_pod_starts_only_within_the_quota_of_its_queue_and_is_told_the_numbers() -> None:
    told = story(queue("team", quota("gpu", 2 * GPUS)))
    said = told.arrive(*(pod(uid, shape(1), queue="team") for uid in ("one", "two", "three")))
    assert placed(said) == ["one", "two"]
    assert refused(said) == ["three"]
    told_three = next(one for one in said if isinstance(one, Unschedulable))
    assert told_three.verdict.quota == short("team", "gpu", QuotaLimit.NOMINAL, 2000, 1000, 2000, 1000)
    assert told_three.verdict.first_reasons == {}, "the node has room"


def test_quota_that_comes_free_goes_to_who_waits_for_it() -> None:
    told = story(queue("team", quota("gpu", 2 * GPUS)))
    told.arrive(*(pod(uid, shape(1), queue="team") for uid in ("one", "two", "three")))
    assert placed(told.depart("one")) == ["three"]


def test_more_quota_lets_more_start_and_less_evicts_nobody() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS)))
    told.arrive(*(pod(uid, shape(1), queue="team") for uid in ("one", "two", "three")))
    assert placed(told.queues(queue("team", quota("gpu", 2 * GPUS)))) == ["two"]
    told.queues(queue("team", quota("gpu", 1 * GPUS)))
    assert verdict(told, "three").quota == short("team", "gpu", QuotaLimit.NOMINAL, 2000, 1000, 1000, 2000)
    assert placed(told.depart("one")) == []
    assert placed(told.depart("two")) == ["three"]


def test_idle_quota_of_a_sibling_is_borrowed_up_to_the_limits() -> None:
    told = story(*shared_tree(borrow=2 * GPUS))
    told.arrive(*(pod(f"a{number}", shape(1), queue="a") for number in range(8)))
    assert len(told.binds) == 6
    assert verdict(told, "a7").quota == short("a", "gpu", QuotaLimit.BORROWING, 6000, 1000, 6000, 1000)
    told.arrive(*(pod(f"b{number}", shape(1), queue="b") for number in range(4)))
    assert len(told.binds) == 8, "b gets what the tree has left"
    assert verdict(told, "b3").quota == short("root", "gpu", QuotaLimit.NOMINAL, 8000, 1000, 8000, 1000)


def test_who_waits_while_others_keep_what_they_do_not_lend_is_told_so() -> None:
    told = story(*shared_tree(lend=1 * GPUS))
    told.arrive(*(pod(f"a{number}", shape(1), queue="a") for number in range(6)))
    assert len(told.binds) == 5
    assert verdict(told, "a5").quota == short("root", "gpu", QuotaLimit.LENDING, 5000, 1000, 5000, 1000)


def test_a_hard_limit_is_told_as_such() -> None:
    told = story(queue("root", hard := quota("gpu", 8 * GPUS, hard=3 * GPUS)), queue("a", parent="root"))
    assert hard.hard_limit == 3 * GPUS
    told.arrive(pod("a", shape(2), queue="a"), pod("b", shape(2), queue="a"))
    assert verdict(told, "b").quota == short("root", "gpu", QuotaLimit.HARD, 2000, 2000, 3000, 1000)


def test_who_waits_for_quota_is_not_looked_at_when_only_room_comes_free() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS)), gpus=2)
    told.arrive(pod("idle", shape(1)), pod("one", shape(1), queue="team"), pod("two", shape(1), queue="team"))
    waiting = told.engine.state.waiting
    key = next(key for key in waiting.lines if key.queue == "team")
    assert waiting.lines[key] in waiting.kept_out
    assert not waiting.waits_for_room(key)
    assert placed(told.depart("idle")) == []
    assert placed(told.depart("one")) == ["two"]


def test_who_has_quota_but_no_room_waits_for_room() -> None:
    told = story(queue("team", quota("gpu", 4 * GPUS)), gpus=1)
    told.arrive(pod("one", shape(1), queue="team"), pod("two", shape(1), queue="team"))
    assert verdict(told, "two").quota is None
    assert verdict(told, "two").first_reasons == {"gpu-busy": 1}
    assert placed(told.nodes(node("m", 1))) == ["two"]


def test_quota_and_nodes_are_both_told_quota_first() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS)), gpus=1)
    told.arrive(pod("one", shape(1), queue="team"), pod("two", shape(1), queue="team"))
    assert explain(verdict(told, "two"), shape(1)) == (
        "needs 1 whole GPU, 1 core of CPU, 1 GiB of memory; waits for quota: queue team uses 1 GPU of the "
        "1 GPU, and it needs 1 GPU; of 1 node 1 with too few free GPUs; nearest is n, which lacks 1 free GPU"
    )


def test_a_quota_of_cpu_and_memory_counts_what_is_asked_for() -> None:
    told = story(queue("team", quota("cpu", 2500), quota("memory", 2 << 30), quota("example.com/nic", 1)))
    told.nodes(node("m", other=(("example.com/nic", 4),)))
    told.arrive(pod("one", shape(other=(("example.com/nic", 1),)), queue="team"))
    assert used(told.engine.state, "team", "cpu") == (1000, 1000)
    assert used(told.engine.state, "team", "memory") == (1 << 30, 1 << 30)
    told.arrive(pod("two", shape(other=(("example.com/nic", 1),)), queue="team"))
    assert verdict(told, "two").quota == short("team", "example.com/nic", QuotaLimit.NOMINAL, 1, 1, 1, 1)
    told.arrive(pod("three", shape(cpu_milli=1501), queue="team"))
    assert verdict(told, "three").quota == short("team", "cpu", QuotaLimit.NOMINAL, 1000, 1501, 2500, 1)
    assert placed(told.arrive(pod("four", shape(cpu_milli=1500), queue="team"))) == ["four"]


def test_mig_slices_are_counted_by_the_profiles_asked_for() -> None:
    told = story(queue("team", quota("mig-slices", 6)))
    profiles = (("nvidia.com/mig-1c.2g.10gb", 1), ("nvidia.com/mig-3g.20gb", 2))
    told.nodes(node("m", other=(("nvidia.com/mig-1c.2g.10gb", 9), ("nvidia.com/mig-3g.20gb", 9))))
    # 1 + 2 x 3 = 7.
    told.arrive(pod("large", shape(other=profiles), queue="team"))
    assert verdict(told, "large").quota == short("team", "mig-slices", QuotaLimit.NOMINAL, 0, 7, 6, 1)
    assert placed(told.arrive(pod("small", shape(other=profiles[1:]), queue="team"))) == ["small"]


def test_work_goes_to_the_models_that_its_quota_still_allows() -> None:
    told = story(queue("team", quota("gpu/A100", 1 * GPUS)), gpus=4)
    told.nodes(node("t", 1, model="T4"))
    told.arrive(pod("one", shape(1, models=("A100",)), queue="team"))
    assert told.binds["one"][0] == "n"
    told.arrive(pod("two", shape(1), queue="team"))
    assert told.binds["two"][0] == "t"
    told.arrive(pod("three", shape(1), queue="team"))
    assert verdict(told, "three").quota == short(
        "team", "gpu/A100", QuotaLimit.NOMINAL, 1000, 1000, 1000, 1000
    )
    assert placed(told.depart("two")) == ["three"]
    told.arrive(pod("four", shape(1), queue="team"))
    assert placed(told.depart("one")) == ["four"]
    assert told.binds["four"][0] == "n"


def test_devices_of_different_models_on_one_node_are_told_apart() -> None:
    told = Story()
    told.nodes(node("n", devices=(device("n/0"), device("n/1", model="T4"))))
    told.queues(queue("team", quota("gpu/A100", 0)))
    told.arrive(pod("one", shape(1), queue="team"))
    assert told.binds["one"] == ("n", ("n/1",))
    told.arrive(pod("two", share(500), queue="team"))
    assert "two" not in told.binds


def test_nodes_whose_devices_have_too_much_memory_for_the_quota_are_left_out() -> None:
    told = Story()
    told.nodes(
        node("a", 2, gpu_memory_mib=80_000, labels={"kubernetes.io/hostname": "a"}),
        node("b", 2, gpu_memory_mib=40_000),
    )
    told.queues(queue("team", quota("gpu-memory", 130_000)))
    told.arrive(pod("one", shape(1, selector=(("kubernetes.io/hostname", "a"),)), queue="team"))
    assert placed(told.arrive(pod("two", shape(1), queue="team"))) == ["two"]
    assert told.binds["two"][0] == "b"
    assert used(told.engine.state, "team", "gpu-memory") == (120_000, 120_000)


def test_a_dear_model_costs_more_of_the_quota() -> None:
    told = Story()
    told.happen(event.PricesSet(((GpuModelName("H100"), 4000), (GpuModelName("T4"), 250))))
    told.nodes(node("h", 8, model="H100"), node("t", 8, model="T4"))
    told.queues(queue("team", quota("cost", 5000)))
    told.arrive(pod("h", shape(1, models=("H100",)), queue="team"))
    assert used(told.engine.state, "team", "cost") == (4000, 4000)
    told.arrive(pod("either", shape(2), queue="team"))
    assert told.binds["either"][0] == "t"
    assert used(told.engine.state, "team", "cost") == (4500, 4500)
    told.happen(event.PricesSet(((GpuModelName("T4"), 100),)))
    assert used(told.engine.state, "team", "cost") == (1200, 1200), "usage follows the prices"


def test_a_share_by_memory_is_charged_for_the_part_it_keeps_others_from() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS), quota("gpu-memory", 40_000)))
    told.arrive(pod("one", share(200, memory_mib=15_001), queue="team"))
    # 15,001 of 40,000 MiB are 375.03 thousandths.
    assert used(told.engine.state, "team", "gpu") == (376, 376)
    assert used(told.engine.state, "team", "gpu-memory") == (15_001, 15_001)
    told.arrive(pod("two", share(600), queue="team"))
    assert used(told.engine.state, "team", "gpu") == (976, 976)
    assert used(told.engine.state, "team", "gpu-memory") == (39_001, 39_001)


def test_a_gang_starts_within_its_quota_or_not_at_all() -> None:
    told = story(queue("team", quota("gpu", 5 * GPUS)))
    told.gangs(gang("g", 3, queue="team"))
    told.arrive(pod("one", shape(3), queue="team"))
    said = told.arrive(*members("g", 3, shape(1)))
    assert placed(said) == []
    refusal = next(one for one in said if isinstance(one, GangUnschedulable))
    assert refusal.placeable == 2
    assert refusal.verdict is not None
    assert refusal.verdict.quota == short("team", "gpu", QuotaLimit.NOMINAL, 5000, 1000, 5000, 1000)
    assert used(told.engine.state, "team", "gpu") == (3000, 3000), "what was tried is taken back"
    again = told.engine.explain_gang(GangName("g"))
    assert again == refusal
    assert placed(told.depart("one")) == ["g-0", "g-1", "g-2"]


def test_a_gang_spreads_over_the_models_that_its_quota_allows() -> None:
    told = story(queue("team", quota("gpu/A100", 1 * GPUS), quota("gpu/T4", 2 * GPUS)))
    told.nodes(node("t", 8, model="T4"))
    told.gangs(gang("g", 3, queue="team"))
    told.arrive(*members("g", 4, shape(1)))
    assert len(told.binds) == 3
    assert used(told.engine.state, "team", "gpu/A100") == (1000, 1000)
    assert used(told.engine.state, "team", "gpu/T4") == (2000, 2000)


def test_a_member_is_charged_to_the_queue_of_its_gang() -> None:
    told = story(queue("team", quota("gpu", 4 * GPUS)), queue("other", quota("gpu", 4 * GPUS)))
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(*members("g", 2, shape(1)))
    assert used(told.engine.state, "team", "gpu") == (2000, 2000)
    told.gangs(gang("g", 2, queue="other"))
    assert used(told.engine.state, "team", "gpu") == (0, 0)
    assert used(told.engine.state, "other", "gpu") == (2000, 2000)


def test_a_strict_queue_stops_behind_a_head_without_quota() -> None:
    told = story(queue("team", quota("gpu", 2 * GPUS), strict=True))
    told.arrive(pod("large", shape(3), queue="team"), pod("small", shape(1), queue="team"))
    assert told.binds == {}
    assert placed(told.queues(queue("team", quota("gpu", 2 * GPUS)))) == ["small"]


def test_work_for_an_unknown_queue_waits_until_somebody_describes_it() -> None:
    told = story(queue("team"))
    said = told.arrive(pod("lost", shape(1), queue="taem"))
    assert placed(said) == []
    assert verdict(told, "lost").bar == bar("taem", WhyBarred.UNKNOWN)
    assert placed(told.queues(queue("taem"))) == ["lost"]


def test_without_any_queue_every_name_will_do() -> None:
    told = story(queue("team"))
    told.arrive(pod("lost", shape(1), queue="taem"))
    assert placed(told.happen(event.QueueRemoved(QueueName("team")))) == ["lost"]


def test_work_without_a_queue_is_not_limited() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS)))
    assert placed(told.arrive(pod("free", shape(8)))) == ["free"]


def test_a_described_default_queue_is_one_like_others() -> None:
    told = story(queue("default", quota("gpu", 1 * GPUS)))
    assert placed(told.arrive(pod("one", shape(1)), pod("two", shape(1)))) == ["one"]


def test_work_for_a_queue_with_queues_below_it_waits() -> None:
    told = story(*shared_tree())
    told.arrive(pod("up", shape(1), queue="root"))
    assert verdict(told, "up").bar == bar("root", WhyBarred.INNER)
    told.happen(event.QueueRemoved(QueueName("a")))
    assert placed(told.happen(event.QueueRemoved(QueueName("b")))) == ["up"]


@pytest.mark.parametrize(
    ("state", "why"), [(QueueState.HELD, WhyBarred.HELD), (QueueState.STOPPED, WhyBarred.STOPPED)]
)
def test_nothing_starts_in_a_closed_queue_until_it_is_opened(state: QueueState, why: WhyBarred) -> None:
    told = story(queue("team", state=state))
    told.gangs(gang("g", 2, queue="team"))
    said = told.arrive(pod("one", shape(1), queue="team"), *members("g", 2, shape(1)))
    assert placed(said) == []
    assert verdict(told, "one").bar == bar("team", why)
    gang_told = told.engine.explain_gang(GangName("g"))
    assert gang_told is not None
    assert gang_told.verdict is not None
    assert gang_told.verdict.bar == bar("team", why)
    assert sorted(placed(told.queues(queue("team")))) == ["g-0", "g-1", "one"]


def test_where_a_budget_is_spent_nothing_new_starts_below_it_either_and_what_runs_goes_on() -> None:
    below = queue("team", parent="root")
    told = story(queue("root"), below)
    assert placed(told.arrive(pod("runs", shape(1), queue="team"))) == ["runs"]
    spent = told.queues(queue("root", spent_budget="800.00 EUR until 2026-12-01"))
    assert [one for one in spent if isinstance(one, Evict)] == []
    told.arrive(pod("new", shape(1), queue="team"))
    over = QueueBar(QueueName("root"), WhyBarred.OVER_BUDGET, budget="800.00 EUR until 2026-12-01")
    assert verdict(told, "new").bar == over
    assert placed(told.queues(queue("root"))) == ["new"]


@pytest.mark.parametrize(
    ("state", "why"), [(QueueState.HELD, WhyBarred.HELD), (QueueState.DRAINING, WhyBarred.OVER_BUDGET)]
)
def test_of_a_spent_budget_and_a_state_the_stricter_one_counts(state: QueueState, why: WhyBarred) -> None:
    told = story(queue("team", state=state, spent_budget="1.00 EUR until 2026-12-01"))
    told.arrive(pod("one", shape(1), queue="team"))
    found = verdict(told, "one").bar
    assert found is not None
    assert found.why is why


def test_a_draining_queue_finishes_what_it_has_and_takes_nothing_new_in() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS)))
    told.arrive(pod("runs", shape(1), queue="team"), pod("waits", shape(1), queue="team", created_at_us=5))
    told.queues(queue("team", quota("gpu", 1 * GPUS), state=QueueState.DRAINING))
    told.arrive(pod("late", shape(1), queue="team", created_at_us=1))
    assert verdict(told, "late").bar == bar("team", WhyBarred.DRAINING)
    assert verdict(told, "waits").bar is None
    assert placed(told.depart("runs")) == ["waits"]
    assert placed(told.depart("waits")) == []
    assert placed(told.queues(queue("team", quota("gpu", 1 * GPUS)))) == ["late"]


def test_a_gang_that_comes_to_a_draining_queue_waits() -> None:
    told = story(queue("team", state=QueueState.DRAINING))
    told.gangs(gang("g", 2, queue="team"))
    assert placed(told.arrive(*members("g", 2, shape(1)))) == []
    assert sorted(placed(told.queues(queue("team")))) == ["g-0", "g-1"]


def test_what_runs_elsewhere_counts_and_may_exceed_the_quota() -> None:
    told = story(queue("team", quota("gpu", 2 * GPUS)))
    told.run_on(pod("fact", shape(3), queue="team"), "n", "n/0", "n/1", "n/2")
    assert used(told.engine.state, "team", "gpu") == (3000, 3000)
    assert placed(told.arrive(pod("one", shape(1), queue="team"))) == []
    assert placed(told.arrive(pod("no gpu", shape(), queue="team"))) == ["no gpu"]
    assert placed(told.depart("fact")) == ["one"]


def test_a_running_pod_with_another_queue_is_charged_there() -> None:
    told = story(queue("a", quota("gpu", 2 * GPUS)), queue("b", quota("gpu", 2 * GPUS)))
    told.arrive(pod("one", shape(2), queue="a"), pod("two", shape(1), queue="a"))
    assert placed(told.arrive(pod("one", shape(2), queue="b"))) == ["two"]
    assert used(told.engine.state, "a", "gpu") == (1000, 1000)
    assert used(told.engine.state, "b", "gpu") == (2000, 2000)


def test_running_work_is_charged_to_the_queue_that_it_names_once_that_is_described() -> None:
    told = story(queue("a", quota("gpu", 2 * GPUS)))
    told.gangs(gang("g", 1, queue="a"))
    told.arrive(pod("one", shape(1), queue="a"), *members("g", 1, shape(1)))
    told.arrive(pod("one", shape(1), queue="later"))
    told.gangs(gang("g", 1, queue="later"))
    assert used(told.engine.state, "a", "gpu") == (2000, 2000)
    told.queues(queue("later", quota("gpu", 2 * GPUS)))
    assert used(told.engine.state, "a", "gpu") == (0, 0)
    assert used(told.engine.state, "later", "gpu") == (2000, 2000)


def test_a_lost_node_frees_quota_and_brings_its_usage_back() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS)), gpus=1)
    told.arrive(pod("one", shape(1), queue="team"), pod("two", shape(1), queue="team"))
    told.lose("n")
    assert used(told.engine.state, "team", "gpu") == (0, 0)
    told.nodes(node("n", 1))
    assert used(told.engine.state, "team", "gpu") == (1000, 1000)
    told.nodes(node("m", 1))
    assert "two" not in told.binds


def test_another_parent_takes_its_usage_along() -> None:
    told = story(*shared_tree(), queue("other", quota("gpu", 1 * GPUS)))
    told.arrive(pod("one", shape(3), queue="a"))
    told.queues(queue("a", quota("gpu", 4 * GPUS), parent="other"))
    assert used(told.engine.state, "root", "gpu") == (0, 0)
    assert used(told.engine.state, "other", "gpu") == (3000, 3000)


def test_a_trial_takes_charges_back() -> None:
    told = story(*shared_tree(lend=1 * GPUS))
    told.arrive(
        pod("one", shape(4), queue="b"), pod("two", shape(3), queue="a"), pod("big", shape(9), queue="a")
    )
    state = told.engine.state
    before = (state.store.tables.queue_counted.copy(), state.store.tables.queue_total.copy())
    with state.trial() as trial:
        trial.release(PodUid("one"))
        trial.release(PodUid("two"))
        assert used(state, "root", "gpu") == (0, 0)
        assert not trial.place_pod(PodUid("big")), "9 are more than the tree has"
        assert trial.place_pod(PodUid("two"))
    after = (state.store.tables.queue_counted, state.store.tables.queue_total)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_nothing_is_kept_or_charged_while_no_queue_is_described() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.arrive(pod("one", shape(1), queue="a"), pod("two", shape(1), queue="b"), pod("big", shape(4)))
    state = told.engine.state
    before = state.store.mark()
    assert state.queues.tree.row_by_name == {}
    assert state.store.writes_a_charge == 0
    assert state.store.tables.counters[layout.COUNTER_QUEUES] == 0
    with state.trial() as trial:
        trial.release(PodUid("one"))
        tables = set(state.store.tables.journal[before : state.store.mark(), 0].tolist())
    assert tables
    assert tables.isdisjoint({layout.TABLE_QUEUE_COUNTED, layout.TABLE_QUEUE_TOTAL})
    assert state.gate.complete(verdict(told, "big"), 2) == verdict(told, "big")


def test_what_is_told_survives_the_log() -> None:
    told = story(queue("team", quota("gpu", 1 * GPUS)))
    said = told.arrive(
        pod("one", shape(1), queue="team"), pod("two", shape(1), queue="team"), pod("lost", queue="taem")
    )
    said += told.happen(event.PricesSet(((GpuModelName("T4"), 250),)))
    coded = msgspec.json.encode(said)
    assert msgspec.json.decode(coded, type=list[AnyInstruction]) == said
    happened = event.QueueSet(queue("team", quota("gpu", 1, borrow=2, lend=1, hard=4)))
    assert msgspec.json.decode(msgspec.json.encode(happened), type=event.AnyEvent) == happened


def test_lines_that_come_and_go_leave_nothing_behind() -> None:
    told = story(queue("team", quota("gpu", 0)))
    for number in range(50):
        told.gangs(gang(f"g{number}", 1, queue="team"))
        told.arrive(*members(f"g{number}", 1, shape(1)), pod(f"p{number}", share(number + 1), queue="team"))
        assert len(told.engine.state.waiting.kept_out) == 2
        told.depart(f"g{number}-0", f"p{number}")
        told.happen(event.GangRemoved(GangName(f"g{number}")))
    assert len(told.engine.state.waiting.kept_out) == 0
    assert len(told.engine.state.waiting.kept_out._keys) == 2
