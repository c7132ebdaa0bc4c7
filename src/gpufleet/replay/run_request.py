"""What one run of a replay needs to know, as a value that travels to another process."""

import msgspec

from gpufleet.replay.fleet_prices import FleetPrices


class RunRequest(msgspec.Struct, frozen=True):
    """One run: files, policy, seed and protocol.

    ``preempt_by_priority`` lets tasks of lower priority be evicted on a timeline.
    ``arrivals_path`` fixes the order of arrivals and of ranks; ``pods_path`` then only tells the
    target workload. With ``submitted_order`` nothing is shuffled either, but clones are added as
    usual. ``picture`` asks for the state of every node at the end. ``log_path`` and
    ``placements_path`` name files to write. With ``prices`` a timeline tells what the fleet costs;
    ``ledger_path`` names a file for the cost ledger, in which second 0 of the trace is at ``begin_us``.
    """

    nodes_path: str
    pods_path: str
    policy: str
    seed: int
    mode: str = "saturate"
    load: float = 1.3
    preempt_by_priority: bool = True
    arrivals_path: str | None = None
    skip_bad_rows_pct: float = 0.0
    submitted_order: bool = False
    picture: bool = False
    log_path: str | None = None
    placements_path: str | None = None
    prices: FleetPrices | None = None
    ledger_path: str | None = None
    begin_us: int = 0

    @property
    def title(self) -> str:
        """The run in a word: "fgd, seed 42"."""
        return f"{self.policy}, seed {self.seed}"
