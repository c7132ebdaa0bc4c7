"""The program ``gpufleet-sim``: ``simulation.command`` around the live scheduler."""

import sys

import click

from gpufleet.cli.main import run_program
from gpufleet.simulation.agreement import Agreement
from gpufleet.simulation.command import command as command_around
from gpufleet.simulation.live_scheduler import PLANS, LiveScheduler, plan_for

PROGRAM = "gpufleet-sim"


def command() -> click.Command:
    """The command line."""
    scheduler = LiveScheduler()
    return command_around(scheduler, plan_for, Agreement(scheduler), PLANS)


def main() -> int:
    """Run the command line; the exit code."""
    return run_program(command(), program=PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
