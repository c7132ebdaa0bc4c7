"""What goes on spot capacity: expected lengths by arithmetic and by drawing lots, and the fleet for it."""

import math
from pathlib import Path
from random import Random

import pytest

from gpufleet.cli.plan_history_output import lines
from gpufleet.model.model_errors import InputError
from gpufleet.plan.history.spot_choice import expected_factor
from tests.plan.history.histories import HOUR_S, bought, history, planned

TYPES = """\
instance_type,gpus,gpu_model,cpus,memory_gib,price,currency,capacity_type,interruptions_per_hour
one,1,H100-80GB,16,256,10,USD,on-demand,
cheap,1,H100-80GB,16,256,4,USD,spot,0.1
"""
COLUMNS = "queue,gang,creation_time,duration_s"


def work(folder: Path, *rows: str) -> Path:
    return history(folder, *rows, columns=COLUMNS)


def a_task(name: str, hours: int, queue: str = "q", gang: str = "") -> str:
    return f"{name},1000,1024,1,1000,{queue},{gang},0,{hours * HOUR_S}"


@pytest.mark.parametrize(
    ("rate", "length_h", "checkpoint_h", "factor"),
    [
        (0.0, 10.0, None, 1.0),
        # (e - 1) / 1, and a piece of an hour each: (e^0.1 - 1) / 0.1.
        (0.1, 10.0, None, 1.718282),
        (0.1, 10.0, 1.0, 1.051709),
        # Work that is shorter than its checkpoints are apart never writes one.
        (0.1, 10.0, 20.0, 1.718282),
        (100.0, 10.0, None, math.inf),
    ],
)
def test_the_expected_length(rate: float, length_h: float, checkpoint_h: float | None, factor: float) -> None:
    assert expected_factor(rate, length_h, checkpoint_h) == pytest.approx(factor, abs=1e-6)


def drawn_length_h(random: Random, rate: float, length_h: float, checkpoint_h: float) -> float:
    """How long one run took, hour by hour of luck: what was not saved when a node went is done again."""
    took = done = 0.0
    while done < length_h:
        piece = min(checkpoint_h, length_h - done)
        until_interrupted = random.expovariate(rate)
        if until_interrupted >= piece:
            took, done = took + piece, done + piece
        else:
            took += until_interrupted
    return took


@pytest.mark.parametrize("checkpoint_h", [2.0, 8.0])
def test_the_expected_length_is_the_mean_of_many_draws(checkpoint_h: float) -> None:
    random = Random(7)
    mean = sum(drawn_length_h(random, 0.2, 8.0, checkpoint_h) for _ in range(20_000)) / 20_000
    assert expected_factor(0.2, 8.0, checkpoint_h) == pytest.approx(mean / 8.0, rel=0.03)


def test_short_work_goes_on_spot_and_long_work_that_never_saves_does_not(tmp_path: Path) -> None:
    """One hour costs 4 x 1.05 on spot; thirty cost 4 x (e^3 - 1) / 3 = 25.4 an hour, and 10 on demand."""
    tasks = work(tmp_path, a_task("short", 1), a_task("long", 30, "other"))
    plan = planned(tasks, "p100=0s", types=TYPES)
    assert {one.queue: (one.on_spot, one.types) for one in plan.answer.spot} == {
        "q": (1, ("cheap (spot)", "one")),
        "other": (0, ("one", "cheap (spot)")),
    }
    assert bought(plan) == {"cheap": 1, "one": 1}
    text = " ".join(" ".join(lines(plan.answer)).split())
    assert "q: 1 task with 1 GPU: all on spot; 42 % of the cost on demand, with 1.05 times the length" in text
    assert (
        "other: 1 task with 1 GPU: on demand; 254 % of the cost on demand, with 6.36 times the length" in text
    )


def test_work_that_saves_itself_goes_on_spot_and_takes_as_long_as_is_expected(tmp_path: Path) -> None:
    plan = planned(work(tmp_path, a_task("long", 30)), "p100=0s", types=TYPES, checkpoints=("q=1h",))
    assert bought(plan) == {"cheap": 1}
    (task,) = plan.demand.tasks
    assert task.duration_us == pytest.approx(30 * 1.051709 * HOUR_S * 1e6, rel=1e-6)


def test_a_gang_is_interrupted_as_often_as_all_its_nodes_and_goes_whole(tmp_path: Path) -> None:
    """Ten members have a rate of 1: two hours take (e^2 - 1) / 2 = 3.19 times as long, and 12.8 > 10."""
    rows = [a_task(f"m{number}", 2, gang="train") for number in range(10)]
    assert bought(planned(work(tmp_path, *rows), "p100=0s", types=TYPES)) == {"one": 10}
    assert bought(planned(work(tmp_path, *rows[:2]), "p100=0s", types=TYPES)) == {"cheap": 2}


def test_a_queue_keeps_its_share_on_demand(tmp_path: Path) -> None:
    """Of four equal tasks half stay; all of them with 100."""
    rows = [a_task(f"t{number}", 1) for number in range(4)]
    half = planned(work(tmp_path, *rows), "p100=0s", types=TYPES, on_demand=("q=50",))
    assert bought(half) == {"cheap": 2, "one": 2}
    none = planned(work(tmp_path, *rows), "p100=0s", types=TYPES, on_demand=("q=100",))
    assert bought(none) == {"one": 4}
    assert "its queue keeps it on demand" in none.answer.spot[0].why


def test_work_without_an_end_stays_on_demand_and_spot_of_no_known_rate_is_left_out(tmp_path: Path) -> None:
    serves = "serves,1000,1024,1,1000,q,,0,"
    plan = planned(work(tmp_path, serves), "p100=0s", types=TYPES)
    assert bought(plan) == {"one": 1}
    assert plan.answer.spot[0].why == "it has no known end"
    unknown = planned(work(tmp_path, a_task("t", 1)), "p100=0s", types=TYPES.replace("spot,0.1", "spot,"))
    assert bought(unknown) == {"one": 1}
    assert "1 spot type without interruptions_per_hour: left out" in unknown.answer.notes
    with pytest.raises(InputError, match="has spot capacity alone"):
        planned(
            work(tmp_path, a_task("t", 1)),
            "p100=0s",
            types="\n".join(
                line for line in TYPES.replace("spot,0.1", "spot,").splitlines() if "on-d" not in line
            ),
        )


@pytest.mark.parametrize("text", ["-1", "x", "61", "1e3"])
def test_rates_that_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="not a rate"):
        planned(work(tmp_path, a_task("t", 1)), "p100=0s", types=TYPES.replace("0.1", text))
