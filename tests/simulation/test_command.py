"""``gpufleet-sim`` as a person meets it."""

import pytest

from gpufleet.cli.main import run_program
from gpufleet.simulation.command import command
from gpufleet.simulation.faults.catalogue import CATALOGUE
from gpufleet.simulation.world import Scheduler
from tests.simulation.naive_binder import naive


def sim(scheduler: Scheduler, *arguments: str) -> int:
    """The exit code."""
    return run_program(command(scheduler), arguments, program="gpufleet-sim")


def test_all_faults_are_listed_with_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(naive(), "--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        row.name for row in CATALOGUE
    ]


def test_runs_that_hold_end_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(naive(), "--seed", "1..2", "--fault", "bind-unknown-lost") == 0
    assert "2 runs, 0 failed" in capsys.readouterr().out


def test_a_broken_promise_is_told_with_the_way_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(naive("binds-nothing"), "--seed", "4") == 1
    told = capsys.readouterr().out
    assert "I9 at" in told
    assert "again: gpufleet-sim --seed 4" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fault", "no-such"], ["--fault", "'no-such'", "--list"]),
        (["--fault", "two-leader"], ["'two-leader'", "did you mean two-leaders?"]),
        (["--seed", "x"], ["--seed", "'x'", "N..M"]),
        (["--seed", "5..1"], ["--seed", "'5..1'", "such as 7 or 1..100"]),
        (["--seed", "0..9999999"], ["--seed", "from 1 to 1,000,000 seeds"]),
    ],
)
def test_a_run_that_makes_no_sense_is_refused_with_the_field(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sim(naive(), *arguments) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
