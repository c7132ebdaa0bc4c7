"""Plans that the engine has judged: gangs whole, quota and places in sight, no node more than is needed."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import main
from gpufleet.cluster.settings import Settings
from gpufleet.plan.answer import Plan
from gpufleet.plan.command import Question, plan_of
from gpufleet.plan.instance_types import read_catalogue
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
    request = Request((), more.get("without", ()), (), files(*work) if work else (), "default")
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


def test_one_type_alone_is_told_beside_the_best_mix() -> None:
    plan = planned(a_fleet(), a_job("any", pods=9, gpus=1, queue=""))
    alone = {one.instance_type: (one.count, one.pods, one.cost_micro) for one in plan.one_type}
    assert alone == {
        "small": (2, 9, 26_000_000),
        "one": (9, 9, 63_000_000),
        "eight": (2, 9, 100_000_000),
    }


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

3 pods would wait. These nodes start all of them:
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
