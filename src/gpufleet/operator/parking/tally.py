"""What parking does and gives back, counted from one look to the next.

Everything is read from the stamps on workloads, so a park by a command or by an owner counts as one by the
operator does. A server of JupyterHub is gone when it is parked: its end is counted, and no time after it.
Counts begin with the process that leads.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.model.gpu_project import MINUTE_US
from gpufleet.operator.parking.activity import Activity
from gpufleet.operator.parking.observation import is_to_judge
from gpufleet.operator.parking.parking_step import SeenWorkload, WorkloadKey
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase, ParkingStamp

SOON_US = 15 * MINUTE_US
"""Idle work that is back so soon after it was parked was probably needed (``bench.idle_work``)."""


class ParkingFigures(msgspec.Struct, frozen=True):
    """The last look, and what was counted up to it.

    ``parked_gpus`` are given back now, and ``gpu_us`` is the time for which GPUs were. ``unmeasured`` is work
    with a rule of which nothing is known, ``refused`` work that its rule cannot park.
    """

    phases: Mapping[ParkingPhase, int]
    parked_gpus: int
    unmeasured: int
    refused: int
    parks: Mapping[ParkingCause, int]
    soon_back: int
    gpu_us: int


class ParkingTally:
    """The counts of one process. What is parked when it begins was counted by the one before."""

    def __init__(self) -> None:
        self._parked: dict[WorkloadKey, ParkingStamp] | None = None
        self._looked_us = 0
        self._parks: Counter[ParkingCause] = Counter()
        self._soon_back = 0
        self._gpu_us = 0

    def count(self, seen: Iterable[SeenWorkload], refused: int, now_us: int) -> ParkingFigures:
        """The figures after a look at all work."""
        now = {one.key: one for one in seen}
        parked = {key: one.stamp for key, one in now.items() if one.stamp and _is_parked(one.stamp)}
        if self._parked is not None:
            self._count_parks(self._parked, parked)
            self._count_backs(self._parked, now, now_us)
            self._gpu_us += sum(self._given_back(stamp, now_us) for stamp in parked.values())
        self._parked, self._looked_us = parked, now_us
        return ParkingFigures(
            Counter(one.stamp.phase for one in now.values() if one.stamp is not None),
            sum(stamp.gpus for stamp in parked.values()),
            sum(is_to_judge(one) and one.judgement.activity is Activity.UNKNOWN for one in now.values()),
            refused,
            Counter(self._parks),
            self._soon_back,
            self._gpu_us,
        )

    def server_ended(self) -> None:
        """An idle server of JupyterHub was evicted."""
        self._parks[ParkingCause.IDLE] += 1

    def _count_parks(
        self, before: Mapping[WorkloadKey, ParkingStamp], parked: Mapping[WorkloadKey, ParkingStamp]
    ) -> None:
        for key, stamp in parked.items():
            # Work that came back and was parked again between two looks was parked twice.
            if key not in before or before[key].since_us != stamp.since_us:
                self._parks[stamp.cause] += 1

    def _count_backs(
        self,
        before: Mapping[WorkloadKey, ParkingStamp],
        now: Mapping[WorkloadKey, SeenWorkload],
        now_us: int,
    ) -> None:
        """Work that is deleted does not come back; its GPUs are given back for good, and counted no more."""
        for key, stamp in before.items():
            one = now.get(key)
            if one is None or (one.stamp is not None and _is_parked(one.stamp)):
                continue
            back_us = now_us if one.stamp is None else one.stamp.since_us
            self._gpu_us += self._given_back(stamp, back_us)
            self._soon_back += stamp.cause is ParkingCause.IDLE and back_us - stamp.since_us <= SOON_US

    def _given_back(self, stamp: ParkingStamp, until_us: int) -> int:
        # The time up to the last look was counted then.
        return stamp.gpus * max(0, until_us - max(stamp.since_us, self._looked_us))


def _is_parked(stamp: ParkingStamp) -> bool:
    return stamp.phase is ParkingPhase.PARKED
