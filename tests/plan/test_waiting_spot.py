"""Spot capacity for work that waits: which work goes there, and how it is spread. Figures are by hand."""

from typing import Any

import msgspec
import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.model.model_errors import InputError
from gpufleet.plan import command
from gpufleet.plan.answer import Plan
from gpufleet.plan.command import Question, plan_of
from gpufleet.plan.history.spot_choice import SpotQuestion
from gpufleet.plan.instance_types import Catalogue, read_catalogue
from gpufleet.whatif.request import Request
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.plan.test_planning import on_h100
from tests.whatif.test_whatif import files

TYPES = """\
instance_type,gpus,gpu_model,cpus,memory_gib,price,currency,zone,capacity_type,interruptions_per_hour
eight,8,H100-80GB,192,2048,50,USD,a,on-demand,
eight,8,H100-80GB,192,2048,20,USD,a,spot,0.05
eight,8,H100-80GB,192,2048,21,USD,b,spot,0.05
"""
RUN_TIME = "gpufleet.io/run-time"


def a_job(name: str, run_time: str = "", **more: Any) -> dict[str, Any]:
    job = on_h100(name, pods=1, gpus=8, **more)
    if run_time:
        job["spec"]["template"]["metadata"]["annotations"][RUN_TIME] = run_time
    return job


def planned(
    *jobs: dict[str, Any], share_pct: int = 100, types: str | Catalogue = TYPES, **question: Any
) -> Plan:
    request = Request((), (), (), files(*jobs), "default", ())
    asked = Question(
        request,
        read_catalogue(types, "types.csv") if isinstance(types, str) else types,
        spot=SpotQuestion(**question),
        spot_share_pct=share_pct,
    )
    return plan_of(asked, Fleet().picture, Settings(identity="test"), AT, lambda _: None)


def bought(plan: Plan) -> list[tuple[str, str, int]]:
    return [(one.capacity_type, one.zone, one.count) for one in plan.nodes]


def test_work_with_an_end_goes_on_spot_where_its_loss_costs_less_and_a_service_does_not() -> None:
    """Two hours at 0.05 an hour are expected to take 1.05 times as long: 21 against 50."""
    plan = planned(a_job("train", "2h"), a_job("serve"))
    assert bought(plan) == [("on-demand", "a", 1), ("spot", "a", 1)]
    assert sorted((one.tasks, one.on_spot) for one in plan.spot) == [(2, 1)]


def test_long_work_without_checkpoints_stays_on_demand_and_with_them_it_does_not() -> None:
    """30 h: (e^1.5 - 1) / 1.5 = 2.32 times as long, 46 against 50 an hour; 40 h: 3.19 times, for 64."""
    assert bought(planned(a_job("train", "30h"))) == [("spot", "a", 1)]
    assert bought(planned(a_job("train", "40h"))) == [("on-demand", "a", 1)]
    assert bought(planned(a_job("train", "40h"), checkpoint_h={"default": 1.0})) == [("spot", "a", 1)]


def test_a_queue_keeps_its_share_on_demand() -> None:
    plan = planned(*(a_job(f"train-{one}", "2h") for one in range(4)), on_demand_pct={"default": 50})
    assert bought(plan) == [("on-demand", "a", 2), ("spot", "a", 2)]


def test_spot_capacity_is_spread_over_zones() -> None:
    jobs = [a_job(f"train-{one}", "2h") for one in range(4)]
    assert bought(planned(*jobs)) == [("spot", "a", 4)]
    assert bought(planned(*jobs, share_pct=50)) == [("spot", "a", 2), ("spot", "b", 2)]


def test_a_type_in_a_zone_counts_once_for_the_share_whichever_pools_buy_it() -> None:
    on_demand, in_a, in_b = read_catalogue(TYPES, "types.csv").types
    pools = [msgspec.structs.replace(in_a, pool=pool, most=2) for pool in ("first", "second")]
    jobs = [a_job(f"train-{one}", "2h") for one in range(4)]
    types = Catalogue((on_demand, *pools, in_b), "types.csv")
    assert bought(planned(*jobs, types=types)) == [("spot", "a", 2), ("spot", "a", 2)]
    assert bought(planned(*jobs, types=types, share_pct=50)) == [("spot", "a", 2), ("spot", "b", 2)]


def test_a_plan_that_passes_the_share_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [a_job(f"train-{one}", "2h") for one in range(4)]
    words = "more than 50 % of the GPUs on spot are of one type in one zone"
    assert not any(words in note for note in planned(*jobs, share_pct=50).notes)
    monkeypatch.setattr(command, "BOUNDED_MAX", 0)
    (note,) = [note for note in planned(*jobs, share_pct=50).notes if words in note]
    assert "--spot-share" in note


def test_work_falls_back_to_on_demand_where_there_is_no_more_spot() -> None:
    bounded = TYPES.replace("hour\n", "hour,most\n").replace("on-demand,\n", "on-demand,,\n")
    bounded = bounded.replace("0.05\n", "0.05,1\n")
    jobs = [a_job(f"train-{one}", "2h") for one in range(4)]
    plan = planned(*jobs, types=bounded)
    assert bought(plan) == [("on-demand", "a", 2), ("spot", "a", 1), ("spot", "b", 1)]
    assert plan.pods_helped == 4


def test_a_queue_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="there is no such queue"):
        planned(a_job("train", "2h"), checkpoint_h={"no-such": 1.0})
