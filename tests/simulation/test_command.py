"""``gpufleet-sim`` as a person meets it."""

from click.testing import CliRunner

from gpufleet.simulation.command import command
from gpufleet.simulation.faults.catalogue import CATALOGUE
from tests.simulation.naive_binder import naive


def test_all_faults_are_listed_with_what_they_do() -> None:
    result = CliRunner().invoke(command(naive()), ["--list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == [row.name for row in CATALOGUE]


def test_runs_that_hold_end_with_zero() -> None:
    result = CliRunner().invoke(command(naive()), ["--seed", "1..2", "--fault", "bind-unknown-lost"])
    assert result.exit_code == 0, result.output
    assert "2 runs, 0 failed" in result.output


def test_a_broken_promise_is_told_with_the_way_to_see_it_again() -> None:
    result = CliRunner().invoke(command(naive("binds-nothing")), ["--seed", "4"])
    assert result.exit_code == 1
    assert "I9 at" in result.output
    assert "again: gpufleet-sim --seed 4" in result.output


def test_a_run_that_makes_no_sense_is_refused_with_the_field() -> None:
    for arguments, field in (
        (["--fault", "no-such"], "--fault"),
        (["--seed", "x"], "--seed"),
        (["--seed", "5..1"], "--seed"),
    ):
        result = CliRunner().invoke(command(naive()), arguments)
        assert result.exit_code == 2
        assert field in result.output
