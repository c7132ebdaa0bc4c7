"""Victims over the whole fleet: for gangs, and for pods whose place depends on other pods.

Candidates are released in the order of their cost until the workload fits, in steps that double and
then halve; what it does not use is put back at once, and of the rest the dearest is taken off again as
long as the workload still fits. What is left is minimal: without any one of them it would not fit.

Whether it is just to evict these is asked in the end. If it is not, they are looked for once more among
those that may justly go together, and taken off as long as that stays just.
"""

from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.candidates import Unit
from gpufleet.engine.preempt.proof import Placements, Proof

PROOFS_MAX = 512
"""How many proofs a search makes at most before it is cut short, and says so; once more among the just."""


class OverFleet:
    """A search for one workload. ``departing`` are rows of pods that end anyway."""

    def __init__(self, proof: Proof, state: EngineState, departing: list[int]) -> None:
        self.proof = proof
        self.state = state
        self.departing = departing
        self.cut = False

    def find(self, units: list[Unit]) -> tuple[list[Unit], Placements] | None:
        """A minimal set of these units, given the cheapest first, and where the workload goes."""
        allowed = self._within_budgets(units)
        fits = bool(allowed and self._proven(allowed))
        found = self._minimal(allowed) if fits else None
        if found is not None or not (fits or len(allowed) < len(units)):
            return found
        parts = filter(self._proven, self.proof.just_parts(units))
        return next(filter(None, (self._minimal(part, judged=True) for part in parts)), None)

    def _minimal(self, units: list[Unit], *, judged: bool = False) -> tuple[list[Unit], Placements] | None:
        """The same of units without all of which the workload fits.

        ``judged``: only what it is just to evict is preferred to more.
        """
        chosen = units[: self._enough(units)]
        chosen = self._only_used(chosen, self._proven(chosen), judged=judged)
        tries_max = PROOFS_MAX + (self.proof.tries if judged else 0)
        for unit in reversed(list(chosen)):
            if unit not in chosen:
                continue
            if self.proof.tries > tries_max:
                self.cut = True
                break
            fewer = [one for one in chosen if one is not unit]
            without = self._proven(fewer, judged=judged)
            if without:
                chosen = self._only_used(fewer, without, judged=judged)
        placements = self._proven(chosen, judged=True)
        return (chosen, placements) if placements else None

    def _within_budgets(self, units: list[Unit]) -> list[Unit]:
        """The cheapest of them that disruption budgets let go together."""
        pods, budgets = self.state.pods, self.state.budgets
        if not budgets.any_is_known:
            return units
        allowed: list[Unit] = []
        rows: dict[int, None] = {}
        for unit in units:
            more = rows | dict.fromkeys(unit.rows)
            if budgets.allow(map(pods.pod_at, more)):
                allowed.append(unit)
                rows = more
        return allowed

    def _enough(self, units: list[Unit]) -> int:
        """How many of the units must go so that the workload fits, the cheapest first."""
        enough = 1
        while enough < len(units) and not self._proven(units[:enough]):
            enough *= 2
        few, enough = enough // 2, min(enough, len(units))
        while enough - few > 1:
            middle = (few + enough) // 2
            if self._proven(units[:middle]):
                enough = middle
            else:
                few = middle
        return enough

    def _only_used(self, units: list[Unit], placements: Placements, *, judged: bool) -> list[Unit]:
        """Without the units that hold nothing on the nodes where the workload goes.

        Where more than room decides, no candidate can be told to be of no use.
        """
        if self.proof.is_tied:
            return units
        nodes = {one.node for one in placements}
        here = self.state.pods.node_row
        used = [unit for unit in units if any(here(row) in nodes for row in unit.rows)]
        return used if len(used) < len(units) and self._proven(used, judged=judged) else units

    def _proven(self, units: list[Unit], *, judged: bool = False) -> Placements:
        rows = dict.fromkeys(self.departing)
        for unit in units:
            rows.update(dict.fromkeys(unit.rows))
        return self.proof.fits_without(list(rows), judged=judged)
