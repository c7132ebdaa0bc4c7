"""Whom to evict so that refused work can run: the seam for preemption and reclaim.

The cycle asks a ``VictimSearch`` about each workload that does not fit. The search may enter the
``trial.Trial`` it is given (``with trial:``) and try anything there; all of it is undone. The
engine's own default evicts nobody.
"""

from typing import Protocol

from gpufleet.engine.trial import Trial
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod


class VictimSearch(Protocol):
    """Finds running pods whose end would let a refused pod run."""

    def find(self, refused: Pod, trial: Trial) -> tuple[PodUid, ...]:
        """The pods to evict for ``refused``, none if it should wait instead."""
        ...


class NoVictims:
    """Nobody is ever evicted."""

    def find(self, refused: Pod, trial: Trial) -> tuple[PodUid, ...]:  # noqa: ARG002
        """No one."""
        return ()
