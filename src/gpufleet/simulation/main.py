"""The program ``gpufleet-sim``: ``command`` around the live scheduler."""

from gpufleet.simulation.agreement import Agreement
from gpufleet.simulation.command import command
from gpufleet.simulation.live_scheduler import LiveScheduler, plan_for


def main() -> None:
    """Run the command line."""
    scheduler = LiveScheduler()
    command(scheduler, plan_for, Agreement(scheduler))()


if __name__ == "__main__":
    main()
