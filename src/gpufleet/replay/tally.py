"""Counts what comes of each arrival while a run goes on, and sums it up at the end.

Everything is kept a row an arrival, in exact integers; percentages are made once, in ``curve`` and
its neighbours. ``run`` puts the parts into a ``RunResult``.
"""

import bisect
from collections import Counter

import numpy as np
import numpy.typing as npt

from gpufleet.engine.instruction import Verdict
from gpufleet.model.shape import GpuRequest
from gpufleet.replay.results import (
    CLASS_LOAD_POINTS_PCT,
    LOAD_POINTS_PCT,
    TASK_CLASSES,
    ClassCount,
    Curve,
)
from gpufleet.replay.task_class import task_class

CAUSE_OF_SHORTAGE = {
    "gpus": "gpu",
    "gpu_shares": "gpu",
    "cpu_milli": "cpu",
    "memory_bytes": "memory",
    "ephemeral_storage_bytes": "storage",
}


ITS_GANG = "its gang"


def cause(verdict: Verdict) -> str:
    """The cause of a refusal in one or two words: what the nearest node lacks ("gpu", "cpu and gpu"), else
    the reason that most nodes give. A pod that would find a node alone waits for its gang.
    """
    if sum(verdict.first_reasons.values()) < verdict.nodes:
        return ITS_GANG
    if verdict.nearest is not None:
        return " and ".join(sorted({CAUSE_OF_SHORTAGE.get(name, name) for name in verdict.nearest.short}))
    if not verdict.first_reasons:
        return "no nodes"
    return max(verdict.first_reasons, key=lambda name: verdict.first_reasons[name])


class Tally:
    """One row an arrived task.

    ``until_pct`` is the load that arrivals were to end at. On a small fleet the last one falls well
    short of it, because the next would have passed it; the state at that load is then the last one.
    """

    def __init__(self, gpus: int, fragmentation_weight: int, until_pct: int = 0) -> None:
        self.gpus = gpus
        self._until_pct = until_pct
        self.fragmentation_weight = fragmentation_weight
        self.failures: Counter[str] = Counter()
        self._classes: list[str] = []
        self._accepted: list[bool] = []
        self._asked_milli: list[int] = []
        self._allocated_milli: list[int] = []
        self._fragmented: list[int] = []
        self._allocated = 0

    def count(self, gpu: GpuRequest, refused: str | None, fragmented: int) -> None:
        """A task arrived and was placed, or refused for that cause; ``fragmented`` is as of then."""
        if refused is None:
            self._allocated += gpu.total_milli
        else:
            self.failures[refused] += 1
        self._classes.append(task_class(gpu))
        self._accepted.append(refused is None)
        self._asked_milli.append(gpu.total_milli)
        self._allocated_milli.append(self._allocated)
        self._fragmented.append(fragmented)

    @property
    def arrived(self) -> int:
        """Tasks that arrived."""
        return len(self._classes)

    @property
    def placed(self) -> int:
        """Tasks that were placed."""
        return sum(self._accepted)

    def _load(self) -> npt.NDArray[np.float64]:
        """Arrived load in percent of all GPUs after each arrival."""
        return np.cumsum(self._asked_milli) / (10 * self.gpus)

    def reached_pct(self) -> int:
        """The load up to which the run says something."""
        if not any(self._asked_milli):
            return 0
        return max(self._until_pct, round(float(self._load()[-1])))

    def first_refusal_load(self) -> float | None:
        """Arrived load when the first task was refused."""
        if all(self._accepted):
            return None
        return round(float(self._load()[self._accepted.index(False)]), 3)

    def curve(self) -> Curve:
        """Means over the arrivals with loads that round to each whole percent."""
        points = np.rint(self._load()).astype(np.int64)
        loads, inverse = np.unique(points, return_inverse=True)
        times = np.bincount(inverse)
        allocated = np.bincount(inverse, weights=self._allocated_milli) / times / 1000
        fragmented = np.bincount(inverse, weights=np.array(self._fragmented, np.float64)) / times
        fragmented = fragmented / (1000 * self.fragmentation_weight)
        idle = self.gpus - allocated
        # A full fleet has nothing idle that could be fragmented.
        of_idle = np.divide(fragmented, idle, out=np.zeros_like(idle), where=idle > 0)
        return Curve(
            load_pct=loads.tolist(),
            alloc_pct=rounded_pct(allocated / self.gpus),
            frag_pct_of_cluster=rounded_pct(fragmented / self.gpus),
            frag_pct_of_idle=rounded_pct(of_idle),
        )

    def accepted_by_class(self) -> dict[str, dict[str, ClassCount]]:
        """Arrived and accepted tasks by class, up to each load that was reached."""
        points = np.rint(self._load()).astype(np.int64)
        reached = self.reached_pct()
        classes = np.array(self._classes)
        accepted = np.array(self._accepted)
        found: dict[str, dict[str, ClassCount]] = {}
        for name in TASK_CLASSES:
            found[name] = {}
            for load in CLASS_LOAD_POINTS_PCT:
                if reached < load:
                    continue
                chosen = (classes == name) & (points <= load)
                arrived, taken = int(chosen.sum()), int(accepted[chosen].sum())
                pct = round(100 * taken / arrived, 4) if arrived else None
                found[name][str(load)] = ClassCount(arrived, taken, pct)
        return found


def rounded_pct(shares: npt.NDArray[np.float64]) -> list[float]:
    """Shares as percent with four decimals."""
    return [round(100 * share, 4) for share in shares.tolist()]


def at_load_points(curve: Curve, values: list[float], reached_pct: int) -> dict[str, float]:
    """The values of a curve at the loads that are always reported, as far as they were reached.

    On a small fleet one task may ask for several percent; between points the last one holds.
    """
    found: dict[str, float] = {}
    for load in LOAD_POINTS_PCT:
        place = bisect.bisect_right(curve.load_pct, load)
        if load <= reached_pct and place:
            found[str(load)] = values[place - 1]
    return found
