"""Keeps one program of a cluster running: starts it, and again when it ended, after ever longer pauses."""

import os
import sys
import time
from pathlib import Path

from gpufleet.localkube.processes import child, plan
from gpufleet.localkube.processes.child import Child
from gpufleet.localkube.processes.plan import Program

# A program that ends at once is started again after it, then ever later.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
"""The pause before a restart doubles up to this."""

STEADY_AFTER_S = 60.0
"""A program that ran so long starts again with the first pause."""


class SupervisedProgram:
    """One program: its child while it runs, and when it may be started again after it ended."""

    def __init__(self, program: Program, folder: Path, first_pause_s: float = FIRST_PAUSE_S) -> None:
        self.program = program
        self.folder = folder
        self.first_pause_s = first_pause_s
        self.child: Child | None = None
        self.restarts = 0
        self.started_s = 0.0
        self.pause_s = first_pause_s
        self.again_at_s = 0.0

    def start(self) -> None:
        """Start the program."""
        log = self.folder / plan.LOGS / f"{self.program.name}.log"
        environment = {**os.environ, **self.program.environment}
        self.started_s = time.monotonic()
        self.child = child.start(
            self.program.name,
            self.program.command,
            log,
            folder=self.folder,
            environment=environment,
            leashed=self.program.leashed,
        )

    def restart_if_ended(self) -> bool:
        """Start it again if it ended and its pause is over; whether anything changed."""
        if self.child is None or self.child.exit_code is None:
            return False
        now_s = time.monotonic()
        if self.again_at_s <= self.started_s:
            steady = now_s - self.started_s > STEADY_AFTER_S
            self.pause_s = self.first_pause_s if steady else min(2 * self.pause_s, LONGEST_PAUSE_S)
            self.again_at_s = now_s + self.pause_s
            print(f"{self.program.name} ended with {self.child.exit_code}", file=sys.stderr, flush=True)  # noqa: T201  its log
        if now_s < self.again_at_s:
            return False
        self.restarts += 1
        self.start()
        return True
