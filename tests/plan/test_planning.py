"""Plans that the engine has judged: gangs whole, quota and places in sight, no node more than is needed."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import main
from gpufleet.cli.plan_output import lines
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.settings import Settings
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.plan import command
from gpufleet.plan.answer import Plan, Removed
from gpufleet.plan.command import Question, plan_of
from gpufleet.plan.instance_types import read_catalogue
from gpufleet.whatif.course import Course
from gpufleet.whatif.request import Request
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.whatif.test_whatif import a_job, files

TYPES = """\
instance_type,gpus,gpu_model,cpus,memory_gib,price,currency,most
one,1,H100-80GB,16,256,7,USD,
eight,8,H100-80GB,192,2048,50,USD,
small,8,L4,192,768,13,USD,
"""
CATALOGUE = read_catalogue(TYPES, "types.csv")
HOUR_S = 3600.0


def planned(fleet: Fleet, *work: dict[str, Any], by_s: float = 0.0, types: str = TYPES, **more: Any) -> Plan:
    submitted = files(*work) if work else ()
    request = Request((), more.get("without", ()), (), submitted, "default", more.get("pools", ()))
    question = Question(request, read_catalogue(types, "types.csv"), by_s)
    return plan_of(question, fleet.picture, Settings(identity="test"), AT, lambda _: None)


def bought(plan: Plan) -> dict[str, int]:
    return {one.instance_type: one.count for one in plan.nodes}


def a_fleet(*nodes: str) -> Fleet:
    """Nodes with four H100s each."""
    fleet = Fleet()
    for name in nodes:
        fleet.node(name)
    return fleet


def on_h100(name: str, *, pods: int, gpus: int, **more: Any) -> dict[str, Any]:
    """A job that only H100s will do for."""
    job = a_job(name, pods=pods, gpus=gpus, queue="", **more)
    job["spec"]["template"]["metadata"]["annotations"]["gpufleet.io/gpu-models"] = "H100-80GB"
    return job


def test_where_all_has_a_place_nothing_is_bought() -> None:
    plan = planned(a_fleet("gpu-1"), on_h100("train", pods=2, gpus=2))
    assert (plan.pods_late, plan.nodes, plan.cost_micro) == (0, (), 0)


def test_the_cheapest_types_are_bought_together() -> None:
    """Nine GPUs of any model by ones: eight L4s cost 13, and one more GPU costs 7."""
    plan = planned(a_fleet(), a_job("any", pods=9, gpus=1, queue=""))
    assert bought(plan) == {"small": 1, "one": 1}
    assert (plan.cost_micro, plan.pods_helped) == (20_000_000, 9)


def judgements(monkeypatch: pytest.MonkeyPatch, fleet: Fleet, *work: dict[str, Any]) -> tuple[Plan, int]:
    """A plan, and how often the engine was asked about the whole fleet."""
    asked: list[Course] = []

    class Counted(Course):
        def __init__(self, facts: Facts, now_us: int, horizon_us: int) -> None:
            super().__init__(facts, now_us, horizon_us)
            asked.append(self)

    monkeypatch.setattr(command, "Course", Counted)
    plan = planned(fleet, *work)
    return plan, sum(any(uid == PodUid("uid-of-runs") for uid in one.running) for one in asked)


def a_full_node() -> Fleet:
    fleet = a_fleet("gpu-1")
    fleet.pod("runs", gpus=4, node="gpu-1", job="runs")
    return fleet


def test_a_set_that_is_full_and_starts_everything_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the fleet as it is: 16 GPUs are asked for, and a node less has eight."""
    work = on_h100("train", pods=2, gpus=8, gang=True)
    plan, asked = judgements(monkeypatch, a_full_node(), work)
    assert (bought(plan), asked) == ({"eight": 2}, 2)


def test_where_enough_gpus_are_free_the_engine_says_whether_a_node_less_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight GPUs are free, four on each of two nodes, and the pod needs eight on one."""
    fleet = a_full_node()
    fleet.node("gpu-2")
    fleet.node("gpu-3")
    plan, asked = judgements(monkeypatch, fleet, on_h100("wide", pods=1, gpus=8))
    assert bought(plan) == {"eight": 1}
    assert asked > 2


def test_a_model_that_work_names_is_bought() -> None:
    assert bought(planned(a_fleet(), on_h100("train", pods=1, gpus=8))) == {"eight": 1}


def test_a_gang_is_bought_for_as_a_whole_and_room_that_is_there_counts() -> None:
    """Of three pods with four GPUs each one fits the node of today, and two share a new one."""
    plan = planned(a_fleet("gpu-1"), on_h100("train", pods=3, gpus=4, gang=True))
    assert bought(plan) == {"eight": 1}
    assert [(one.title, one.pods) for one in plan.starts] == [("gang default/train", 3)]


def test_work_beyond_its_quota_buys_nothing_and_the_reason_is_the_quota() -> None:
    fleet = a_fleet("gpu-1")
    fleet.queue("team", gpu=4)
    plan = planned(
        fleet, a_job("train", pods=1, gpus=8, queue="team"), a_job("mine", pods=2, gpus=4, queue="team")
    )
    assert plan.nodes == ()
    waits = {one.title: one.why for one in plan.nothing_helps}
    assert list(waits) == ["job default/mine", "job default/train"]
    assert all("quota" in why for why in waits.values())


def test_only_so_much_is_bought_as_quota_lets_start() -> None:
    fleet = a_fleet()
    fleet.queue("team", gpu=8)
    plan = planned(fleet, a_job("train", pods=3, gpus=8, queue="team"))
    assert bought(plan) == {"small": 1}
    assert (plan.pods_helped, plan.pods_late) == (1, 3)


def test_pods_that_keep_apart_get_a_node_each() -> None:
    term = {"labelSelector": {"matchLabels": {"job-name": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    plan = planned(a_fleet(), a_job("apart", pods=3, gpus=1, queue="", affinity=apart))
    assert bought(plan) == {"one": 3}


def test_a_type_that_work_selects_is_bought_though_it_is_dearer() -> None:
    chosen = {"node.kubernetes.io/instance-type": "eight"}
    plan = planned(a_fleet(), a_job("train", pods=1, gpus=1, queue="", nodeSelector=chosen))
    assert bought(plan) == {"eight": 1}


def test_what_no_type_can_hold_is_told_with_its_reason() -> None:
    plan = planned(a_fleet(), on_h100("wide", pods=1, gpus=16))
    assert (plan.nodes, plan.pods_helped) == ((), 0)
    assert "16 whole GPUs" in plan.nothing_helps[0].why


def test_a_scarce_type_is_bought_as_far_as_it_goes() -> None:
    types = TYPES.replace("13,USD,", "13,USD,1")
    plan = planned(a_fleet(), a_job("any", pods=2, gpus=8, queue=""), types=types)
    assert bought(plan) == {"small": 1, "eight": 1}


def test_work_that_may_wait_takes_the_place_of_what_ends_by_then() -> None:
    fleet = a_fleet("gpu-1")
    fleet.pod("ends", gpus=4, node="gpu-1", job="ends", activeDeadlineSeconds=7200)
    work = on_h100("later", pods=1, gpus=4)
    assert bought(planned(fleet, work)) == {"one": 4} or bought(planned(fleet, work)) == {"eight": 1}
    assert planned(fleet, work, by_s=3 * HOUR_S).nodes == ()


def test_a_node_that_goes_is_made_up_for() -> None:
    fleet = a_fleet("gpu-1")
    fleet.pod("train-0", gpus=4, node="gpu-1", job="train")
    plan = planned(fleet, without=("gpu-1",))
    assert (bought(plan), plan.pods_helped) == ({"small": 1}, 1)


def a_pool(fleet: Fleet, **labels: str) -> None:
    """Two nodes with eight H100s each in a pool; on one of them eight GPUs are at work."""
    for name in ("old-1", "old-2"):
        fleet.node(name, gpus=8, labels={"cloud.google.com/gke-nodepool": "old", **labels})
    fleet.pod("train-0", gpus=8, node="old-1", job="train")


def test_a_pool_that_goes_is_made_up_for_as_far_as_it_is_used() -> None:
    fleet = Fleet()
    a_pool(fleet, **{"node.kubernetes.io/instance-type": "eight"})
    plan = planned(fleet, pools=("old",))
    assert plan.changes == ("pool old is gone with 2 nodes, and 1 pod on it must go elsewhere",)
    assert (bought(plan), plan.cost_micro) == ({"small": 1}, 13_000_000)
    # Two nodes at 50 for an hour went, one at 13 came.
    assert plan.removed == Removed(nodes=2, cost_micro=100_000_000)
    text = "\n".join(lines(plan))
    assert (
        "The 2 nodes that went cost 100.00 USD per hour: the fleet costs 87.00 less with this plan." in text
    )


def test_a_pool_by_a_label_of_its_nodes_and_without_a_known_price() -> None:
    fleet = Fleet()
    a_pool(fleet)
    plan = planned(fleet, pools=("cloud.google.com/gke-nodepool=old",))
    assert plan.removed == Removed(nodes=2, without_price=2)
    assert "What the 2 nodes that went cost is not known: no price is in the table." in "\n".join(lines(plan))


@pytest.mark.parametrize("pool", ["odl", "", "cloud.google.com/gke-nodepool=new"])
def test_a_pool_without_nodes_is_bad_input(pool: str) -> None:
    fleet = Fleet()
    a_pool(fleet)
    with pytest.raises(InputError, match="--remove-pool: no node is in such a pool") as raised:
        planned(fleet, pools=(pool,))
    assert "old" in raised.value.expected


def test_one_type_alone_is_told_beside_the_best_mix() -> None:
    plan = planned(a_fleet(), a_job("any", pods=9, gpus=1, queue=""))
    alone = {one.instance_type: (one.count, one.pods, one.cost_micro) for one in plan.one_type}
    assert alone == {
        "small": (2, 9, 26_000_000),
        "one": (9, 9, 63_000_000),
        "eight": (2, 9, 100_000_000),
    }


def test_a_gang_of_several_shapes_gets_each_type_for_the_members_that_it_suits() -> None:
    """Two members need eight H100s each, and the third any GPU: 50 + 50 + 7, where three eights cost 150."""
    fleet = a_fleet()
    h100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    fleet.pod("head", gpus=1, job="train", gang=3)
    for name in ("worker-1", "worker-2"):
        fleet.pod(name, gpus=8, job="train", gang=3, nodeSelector=h100)
    plan = planned(fleet)
    assert bought(plan) == {"eight": 2, "one": 1}
    assert [one.gpus for one in plan.starts] == ["8 or 1"]
    assert [one.instance_type for one in plan.one_type] == ["eight"]


def test_a_gang_that_no_type_helps_alone_is_helped_by_two() -> None:
    fleet = a_fleet()
    for name, gpus, kind in (("head", 1, "one"), ("worker-1", 8, "eight"), ("worker-2", 8, "eight")):
        selector = {"node.kubernetes.io/instance-type": kind}
        fleet.pod(name, gpus=gpus, job="train", gang=3, nodeSelector=selector)
    assert bought(planned(fleet)) == {"eight": 2, "one": 1}


def test_work_that_needs_work_of_today_beside_it_is_bought_for_as_often_as_it_waits() -> None:
    """All are to share a zone with a pod that runs, so none starts on an empty fleet."""
    zone = {"topology.kubernetes.io/zone": "z"}
    near = {"labelSelector": {"matchLabels": {"gpufleet.io/queue": "data"}}, "topologyKey": next(iter(zone))}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    fleet = Fleet()
    fleet.node("gpu-1", labels=zone)
    fleet.queue("data", gpu=4)
    fleet.pod("data", gpus=4, node="gpu-1", queue="data")
    types = f"{TYPES.splitlines()[0]},zone\neight,8,H100-80GB,192,2048,50,USD,,z\n"
    plan = planned(fleet, a_job("near", pods=5, gpus=8, queue="", affinity=affinity), types=types)
    assert (bought(plan), plan.pods_helped) == ({"eight": 5}, 5)


def test_what_would_be_evicted_and_wait_is_helped_by_a_node_that_spares_it() -> None:
    fleet = a_fleet("gpu-1")
    fleet.pod("low", gpus=4, node="gpu-1", job="low", priority=0)
    fleet.pod("high", gpus=4, priority=1000)
    plan = planned(fleet)
    assert (bought(plan), plan.pods_late, plan.pods_helped) == ({"small": 1}, 1, 1)
    assert [one.title for one in plan.spared] == ["job default/low"]
    assert (plan.starts, plan.evicted, plan.nothing_helps) == ((), (), ())


def test_no_node_is_saved_at_the_cost_of_what_runs() -> None:
    """With one node more the gang would start too, in the place of what runs."""
    fleet = a_fleet("gpu-1")
    fleet.pod("low", gpus=4, node="gpu-1", job="low", priority=0)
    for number in range(3):
        fleet.pod(f"high-{number}", gpus=4, priority=1000, job="high", gang=3)
    plan = planned(fleet)
    assert (bought(plan), plan.evicted) == ({"small": 2}, ())


def test_work_that_gives_back_what_it_borrowed_is_told() -> None:
    fleet = a_fleet("gpu-1")
    fleet.queue("root", gpu=0)
    fleet.queue("owner", gpu=8, parent="root")
    fleet.queue("guest", gpu=0, parent="root")
    fleet.pod("lent", gpus=4, node="gpu-1", job="lent", queue="guest")
    plan = planned(fleet, a_job("own", pods=1, gpus=8, queue="owner"))
    assert bought(plan) == {"small": 1}
    assert [(one.title, one.for_whom) for one in plan.evicted] == [("job default/lent", "job default/own")]


def test_a_node_of_today_is_not_taken_for_a_new_one_by_its_name() -> None:
    fleet = a_fleet()
    fleet.node("new-eight-1", gpus=4)
    plan = planned(fleet, on_h100("train", pods=3, gpus=4, gang=True))
    assert [(one.instance_type, one.names) for one in plan.nodes] == [("eight", "new-eight-2")]
    assert "1 x eight and 1 node of today" in "\n".join(lines(plan))


def test_types_of_two_providers_are_told_apart() -> None:
    types = f"{TYPES.splitlines()[0]},provider\none,1,L4,8,64,1,USD,1,first\none,1,L4,8,64,2,USD,,second\n"
    plan = planned(a_fleet(), a_job("any", pods=3, gpus=1, queue=""), types=types)
    assert [(one.provider, one.count, one.names) for one in plan.nodes] == [
        ("first", 1, "new-one"),
        ("second", 2, "new-one-2"),
    ]
    assert [(one.provider, one.count) for one in plan.one_type] == [("second", 3)]


def test_work_that_ends_with_a_node_that_goes_is_told() -> None:
    fleet = a_fleet("gpu-1")
    fleet.pod("bare", gpus=1, node="gpu-1")
    assert [one.title for one in planned(fleet, without=("gpu-1",)).lost] == ["pod default/bare"]


def test_a_node_with_gpus_for_work_that_asks_for_none_is_told() -> None:
    fleet = Fleet()
    fleet.pod("cpu", gpus=0)
    assert planned(fleet).notes == ("1 pod on new nodes asks for no GPU: a node without GPUs may cost less",)


def test_prices_add_up_to_their_sum() -> None:
    """0.004 and 0.004 are 0.008: rounded to cents, nothing and nothing would be 0.01."""
    head = TYPES.splitlines()[0]
    types = f"{head}\none,1,H100-80GB,8,64,0.004,USD,1\ntwo,1,H100-80GB,8,64,0.004,USD,\n"
    text = list(lines(planned(a_fleet(), a_job("any", pods=2, gpus=1, queue=""), types=types)))
    table = [line.split()[-2:] for line in text if "H100-80GB" in line or " sum " in line]
    assert table == [["0.004", "2.92"], ["0.004", "2.92"], ["0.008", "5.84"]]


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """A question about a snapshot, with a table of types and a file of work."""
    fleet = a_fleet("gpu-1")
    snapshot = fleet.write(tmp_path / "fleet")
    (tmp_path / "types.csv").write_text(TYPES, encoding="utf-8")
    (tmp_path / "work.yaml").write_text(
        json.dumps(on_h100("train", pods=3, gpus=4, gang=True)), encoding="utf-8"
    )
    files_given = ["--catalogue", str(tmp_path / "types.csv"), "--submit", str(tmp_path / "work.yaml")]
    return ["plan", "--snapshot", str(snapshot), *files_given]


def test_the_command_says_what_to_buy(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked) == 0
    assert (
        capsys.readouterr().out
        == """\
If  work.yaml: 3 pods submitted

3 pods would wait. This node starts all of them:
  NODES  TYPE   GPUS           WHERE      USD PER HOUR  PER MONTH
      1  eight  8 x H100-80GB  on-demand         50.00  36,500.00
         sum                                     50.00  36,500.00
3 pods would start:
  gang default/train (3 pods, GPUs: 4 each)  now on 1 x eight and 1 node of today

Note: prices are from types.csv.
Nothing was bought, and nothing was changed in the cluster.
"""
    )


def test_json_has_the_whole_plan(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*asked, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "gpufleet.io/plan/v1"
    assert [(one["instanceType"], one["count"]) for one in found["nodes"]] == [("eight", 1)]
    assert found["costMicro"] == 50_000_000
