"""The program ``gpufleet-sim``: ``command`` around the live scheduler."""

from gpufleet.simulation.command import command
from gpufleet.simulation.live_scheduler import LIVE, LiveScheduler


def main() -> None:
    """Run the command line."""
    command(LiveScheduler(), LIVE)()


if __name__ == "__main__":
    main()
