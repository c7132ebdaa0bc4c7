"""The cheapest fleet for a service level: stories worked out by hand, and the same by `gpufleet replay`."""

import json
from pathlib import Path

import msgspec
import pytest

from gpufleet.cli.main import main
from gpufleet.cli.plan_history_output import lines
from gpufleet.model.model_errors import InputError
from gpufleet.plan.history.report import write_plan_report
from gpufleet.replay.results import SweepResult
from tests.plan.history.histories import HOUR_S, bought, history, node_list, planned

H100 = "H100-80GB"


def three_in_a_row(folder: Path) -> Path:
    """Three tasks with one GPU each for an hour, all asked for at the beginning."""
    return history(folder, *(f"t{number},1000,1024,1,1000,{H100},0,{HOUR_S}" for number in range(3)))


@pytest.mark.parametrize(
    ("level", "nodes"),
    [
        # All at once need three GPUs: three nodes of one at 7 cost less than one of eight at 50.
        ("p100=0s", 3),
        # Two GPUs do the third task after an hour, one does it after two.
        ("p100=1h", 2),
        ("p100=2h", 1),
        # Of three tasks two are 66 %: these start within an hour on one GPU.
        ("p66=1h", 1),
        ("p66=0s", 2),
    ],
)
def test_a_longer_wait_buys_fewer_nodes(tmp_path: Path, level: str, nodes: int) -> None:
    plan = planned(three_in_a_row(tmp_path), level)
    assert bought(plan) == {"one": nodes}
    assert plan.answer.is_cheapest
    best = plan.answer.best
    assert best is not None
    assert (best.cost_micro, best.gpus, best.never_started) == (7_000_000 * nodes, nodes, 0)


def test_no_level_is_held_by_never_starting_the_largest_task(tmp_path: Path) -> None:
    """Of ten tasks nine are 90 %, and the tenth needs eight GPUs of one node: 50 for an hour, not 7."""
    rows = [f"t{number},1000,1024,1,1000,{H100},{number * HOUR_S},60" for number in range(9)]
    tasks = history(tmp_path, *rows, f"wide,1000,1024,8,1000,{H100},0,60")
    assert bought(planned(tasks, "p90=1m")) == {"eight": 1}


def test_work_without_a_model_gets_the_cheapest_type_and_named_work_its_own(tmp_path: Path) -> None:
    """Eight GPUs of any model cost 13 as eight L4s; one H100 costs 7 beside them."""
    rows = (f"any,1000,1024,8,1000,,0,{HOUR_S}", f"named,1000,1024,1,1000,{H100},0,{HOUR_S}")
    assert bought(planned(history(tmp_path, *rows), "p100=0s")) == {"small": 1, "one": 1}


def test_a_gang_is_bought_for_as_a_whole(tmp_path: Path) -> None:
    """Two members with five GPUs each do not share a node of eight."""
    rows = [f"m{number},1000,1024,5,1000,{H100},0,{HOUR_S},train" for number in range(2)]
    tasks = history(tmp_path, *rows, columns="gpu_spec,creation_time,duration_s,gang")
    assert bought(planned(tasks, "p100=1d")) == {"eight": 2}


def test_a_level_of_a_class_is_about_its_tasks_alone(tmp_path: Path) -> None:
    """The wide task may wait for the small ones, which have no level."""
    rows = [f"t{number},1000,1024,1,1000,{H100},0,{HOUR_S}" for number in range(8)]
    tasks = history(tmp_path, *rows, f"wide,1000,1024,8,1000,{H100},1,{HOUR_S}")
    plan = planned(tasks, "8:p100=1h")
    assert bought(plan) == {"eight": 1}
    assert [(one.tasks, one.in_time, one.wait_s) for one in plan.answer.best.levels] == [(1, 1, 3599.0)]  # type: ignore[union-attr]


def test_nodes_that_are_there_count_and_so_does_their_loss(tmp_path: Path) -> None:
    """Two GPUs of two pools hold an hour of wait; without one of them one node makes up for it."""
    there = node_list(
        tmp_path,
        f"a-0,16000,262144,1,{H100},karpenter.sh/nodepool=a;node.kubernetes.io/instance-type=one",
        f"b-0,16000,262144,1,{H100},karpenter.sh/nodepool=b",
    )
    tasks = three_in_a_row(tmp_path)
    with_both = planned(tasks, "p100=1h", nodes=there)
    assert (bought(with_both), with_both.answer.today.holds) == ({}, True)  # type: ignore[union-attr]
    plan = planned(tasks, "p100=1h", nodes=there, remove_pools=("a",))
    without = plan.answer.without
    assert without is not None
    assert (without.nodes, without.gpus, without.cost_micro) == (1, 1, 7_000_000)
    assert (without.fleet.holds, without.fleet.levels[0].wait_s) == (False, 7200.0)
    assert bought(plan) == {"one": 1}
    text = "\n".join(lines(plan.answer))
    assert "Without a, the fleet (1 GPU) misses the service level:" in text
    assert "The 1 node of a cost 7.00 USD per hour." in text
    unpriced = planned(tasks, nodes=there, remove_pools=("b",)).answer
    assert unpriced.without is not None
    assert unpriced.without.cost_micro is None
    assert (unpriced.best, unpriced.others) == (None, ())


def test_models_of_the_trace_and_of_the_catalogue_are_the_same(tmp_path: Path) -> None:
    """The trace calls it V100M16, and the catalogue V100-16GB."""
    there = node_list(tmp_path, "a-0,16000,262144,1,V100M16,")
    rows = [f"t{number},1000,1024,1,1000,V100M16,0,{HOUR_S}" for number in range(2)]
    types = "instance_type,gpus,gpu_model,cpus,memory_gib,price,currency\nv,1,V100-16GB,8,64,3,USD\n"
    assert bought(planned(history(tmp_path, *rows), "p100=0s", nodes=there, types=types)) == {"v": 1}


def test_what_no_type_can_hold_is_left_out_and_told(tmp_path: Path) -> None:
    rows = (f"t,1000,1024,1,1000,{H100},0,60", f"wide,1000,1024,16,1000,{H100},0,60")
    plan = planned(history(tmp_path, *rows), "p100=0s")
    assert bought(plan) == {"one": 1}
    assert [(one.tasks, one.gpus) for one in plan.answer.nothing_helps] == [(1, 16)]
    assert "1 task with 16 GPUs of H100-80GB: needs 16 whole GPUs" in "\n".join(lines(plan.answer))


def test_so_few_nodes_that_can_be_had_do_not_hold_the_level(tmp_path: Path) -> None:
    types = (
        "instance_type,gpus,gpu_model,cpus,memory_gib,price,currency,most\none,1,H100-80GB,16,256,7,USD,2\n"
    )
    plan = planned(three_in_a_row(tmp_path), "p100=0s", types=types)
    assert bought(plan) is None
    assert "No purchase of these types was found that holds the service level." in "\n".join(
        lines(plan.answer)
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [("p95", "not a service level"), ("p0=1h", "not a"), ("x:p95=1h", "not a class"), ("95=1h", "not a")],
)
def test_levels_that_are_none(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        planned(three_in_a_row(tmp_path), text)


def test_a_level_for_no_task_and_a_history_without_times(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a level for no task"):
        planned(three_in_a_row(tmp_path), "8:p95=1h")
    with pytest.raises(InputError, match="has no times"):
        planned(history(tmp_path, f"t,1000,1024,1,1000,{H100}", columns="gpu_spec"), "p95=1h")


def test_the_replay_of_what_the_report_holds_finds_the_same_waits(tmp_path: Path) -> None:
    """Nodes with taints and labels, gangs, shares and a withdrawn task go through the files as they are."""
    there = node_list(
        tmp_path, f"a-0,16000,262144,2,{H100},pool=x,gpu=true:NoSchedule", columns="labels,taints"
    )
    rows = (
        f"a,4000,1024,1,500,{H100},gpu=true:NoSchedule,pool=x,,,0,,,{HOUR_S}",
        f"b,4000,1024,1,1000,{H100},gpu,,,,0,,,{HOUR_S}",
        f"m0,4000,1024,1,1000,{H100},,,train,2,60,,,{HOUR_S}",
        f"m1,4000,1024,1,1000,{H100},,,train,2,60,,,{HOUR_S}",
        f"gone,4000,1024,1,1000,{H100},,,,,90,,120.5,",
        f"c,4000,1024,1,1000,{H100},,,,,{HOUR_S},,,{HOUR_S}",
    )
    columns = "gpu_spec,tolerations,node_selector,gang,gang_min_members,creation_time,scheduled_time"
    tasks = history(tmp_path, *rows, columns=f"{columns},deletion_time,duration_s")
    plan = planned(tasks, "p80=10m", nodes=there)
    out = tmp_path / "out"
    page = write_plan_report(plan, out).read_text(encoding="utf-8")
    assert "gpufleet plan" in page
    assert sorted(path.name for path in (out / "charts").iterdir()) == [
        "cost-against-wait.png",
        "gpus-over-time.png",
        "wait-by-fleet-size.png",
    ]
    arguments = ["--nodes", str(out / "nodes.csv"), "--pods", str(out / "tasks.csv"), "--policy", "gpufleet"]
    results = tmp_path / "results.json"
    assert main(["replay", "--mode", "timeline", *arguments, "--quiet", "--json", str(results)]) == 0
    run = msgspec.json.decode(results.read_bytes(), type=SweepResult).runs[0]
    best = plan.answer.best
    assert best is not None
    assert run.timeline is not None
    assert run.gpus_total == best.gpus
    for name in ("share", "1"):
        assert run.timeline.waits_by_class[name] == best.waits[name]


def test_the_command_says_what_belongs_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = str(three_in_a_row(tmp_path))
    types = tmp_path / "types.csv"
    types.write_text(
        "instance_type,gpus,gpu_model,cpus,memory_gib,price,currency\na,8,H100,9,9,5,USD\n".replace(
            "H100,", "H100-80GB,"
        )
    )
    asked = ["plan", "--history", tasks, "--catalogue", str(types), "--wait", "p100=0s"]
    assert main([*asked, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(one["instanceType"], one["count"]) for one in answer["best"]["nodes"]] == [("a", 1)]
    for bad, said in (
        (["plan", "--wait", "p95=1h"], "give --history FILE or --prometheus URL too"),
        ([*asked, "--by", "1h"], "--by is about a cluster"),
        (["plan", "--history", tasks], "needs --wait LEVEL, --nodes FILE, or both"),
        ([*asked, "--remove-pool", "a"], "--remove-pool needs --nodes FILE"),
        ([*asked, "--month", "2026-12"], "--month: needs --begin"),
        ([*asked, "--begin", "2026-12-01"], "--begin needs --month"),
    ):
        assert main(bad) == 2
        assert said in capsys.readouterr().err
