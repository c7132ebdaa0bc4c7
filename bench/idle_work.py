"""What parking gives back and what it ends wrongly, over labelled traces: the judgement and the step alone.

Every five minutes of a trace the step decides as the operator would, with a rule of one hour for notebooks
and of two hours for other work, and a warning of a quarter. Parked work comes back when it is needed again.
A park is false where the work was needed in the minute before. ``bench.idle_traces`` makes the traces and
says what they are. ``bench.operate`` publishes the figures.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.figures import Figure, figure
from bench.idle_traces import Trace, traces
from bench.progress import say
from gpufleet.model.gpu_project import MINUTE_US
from gpufleet.operator.parking.activity import (
    NO_SESSIONS,
    Activity,
    Judgement,
    MeasuredPod,
    Steps,
    judge,
)
from gpufleet.operator.parking.observation import RECENT_STEPS, STEP_LEAST_S, US_PER_S, steps_of
from gpufleet.operator.parking.parking_step import ParkingAction, SeenWorkload, WorkloadKey, parking_step
from gpufleet.operator.parking.rule import IdleRule
from gpufleet.operator.parking.stamp import ParkingStamp

COUNT, DAYS, SEED = 150, 5, 20
RULE_OF_NOTEBOOKS = IdleRule(60 * MINUTE_US, 15 * MINUTE_US)
RULE_OF_OTHERS = IdleRule(2 * 60 * MINUTE_US, 15 * MINUTE_US)
"""A program may wait for another one for longer than a person thinks, and a server for a request."""

ROUND_MINUTES = 5
"""The operator looks every minute. Each look goes over the whole quiet time, so fewer looks see as much."""

BEGIN_US = 1_800_000_000 * US_PER_S
FALSE_PARKS_MAX_PERCENT, GIVEN_BACK_MIN_PERCENT = 1.0, 80.0
"""The limits of the project: what is parked wrongly, and which part of idle GPU-hours comes back."""

NOTES = (
    (
        f"idle work: {COUNT} made workloads of {DAYS} days (seed {SEED}), a rule of 1 h for notebooks and of"
        " 2 h for other work, a warning of 15 min; labels come from how the work is made, not from what is"
        " measured"
    ),
)


@dataclass
class Tally:
    """Parks and GPU-minutes of several traces."""

    parks: int = 0
    false_parks: int = 0
    soon_back: int = 0
    idle: int = 0
    given_back: int = 0

    @property
    def false_percent(self) -> float:
        """False parks of all parks."""
        return 100 * self.false_parks / max(1, self.parks)

    @property
    def soon_back_percent(self) -> float:
        """Parks of work that is needed again within 15 minutes, of all parks."""
        return 100 * self.soon_back / max(1, self.parks)

    @property
    def given_back_percent(self) -> float:
        """The idle GPU-hours that came back."""
        return 100 * self.given_back / max(1, self.idle)


class Player:
    """One trace, played as the operator sees it; the work runs anew from each wake on."""

    def __init__(self, trace: Trace, tally: Tally) -> None:
        self._trace = trace
        self._tally = tally
        self._rule = RULE_OF_NOTEBOOKS if trace.is_notebook else RULE_OF_OTHERS
        self._started = 0
        self._stamp: ParkingStamp | None = None

    def play(self) -> None:
        """From the first minute to the last."""
        minute = ROUND_MINUTES
        self._tally.idle += self._trace.gpus * self._trace.needed.count(False)
        while minute < self._trace.minutes:
            if self._parks(minute):
                minute = self._given_back(minute)
            minute += ROUND_MINUTES

    def _parks(self, minute: int) -> bool:
        now_us = BEGIN_US + minute * MINUTE_US
        seen = SeenWorkload(
            WorkloadKey("Deployment", "team", self._trace.name),
            self._trace.name,
            self._rule,
            stamp=self._stamp,
            replicas=1,
            is_ready=True,
            gpus=self._trace.gpus,
            judgement=self._judged(minute, now_us),
        )
        for write in parking_step([seen], now_us).writes:
            if write.action is ParkingAction.PARK:
                self._stamp = None
                return True
            self._stamp = write.stamp
        return False

    def _judged(self, minute: int, now_us: int) -> Judgement:
        recent = self._seen_in(Steps(now_us // US_PER_S, STEP_LEAST_S, RECENT_STEPS), minute, now_us)
        if recent.activity in {Activity.WORKING, Activity.UNKNOWN}:
            return recent
        return self._seen_in(steps_of(self._rule.after_us, now_us), minute, now_us)

    def _seen_in(self, steps: Steps, minute: int, now_us: int) -> Judgement:
        first = minute - steps.count
        before: list[float | None] = [None] * max(0, -first)
        values = {signal: before + own[max(0, first) : minute] for signal, own in self._trace.values.items()}
        started_us = BEGIN_US + self._started * MINUTE_US
        pod = MeasuredPod(self._trace.name, started_us, values)
        return judge([pod], NO_SESSIONS, steps, self._rule.after_us, now_us)

    def _given_back(self, minute: int) -> int:
        """Count a park, and go to the minute at which the work is needed again."""
        needed = self._trace.needed
        self._tally.parks += 1
        # The minute that is over: what begins later no measurement can tell, and has a row of its own.
        self._tally.false_parks += needed[minute - 1]
        back = next((at for at in range(minute, len(needed)) if needed[at]), len(needed))
        self._tally.given_back += self._trace.gpus * (back - minute)
        self._tally.soon_back += minute < back <= minute + 15
        self._started = back
        return back


def played(count: int, days: int, seed: int) -> Tally:
    """What parking does over so many traces."""
    tally = Tally()
    for trace in traces(count, days, seed):
        Player(trace, tally).play()
    return tally


def figures() -> list[Figure]:
    """The rows of this part."""
    say(f"parking: {COUNT} traces")
    return list(_figures(played(COUNT, DAYS, SEED)))


def _figures(tally: Tally) -> Iterator[Figure]:
    yield figure("parks over labelled traces", tally.parks, "", "lower")
    yield figure("parks of work that is needed", tally.false_percent, "%", "lower", FALSE_PARKS_MAX_PERCENT)
    yield figure("idle GPU-hours given back", tally.given_back_percent, "%", "higher", GIVEN_BACK_MIN_PERCENT)
    yield figure("parks of work that is needed again within 15 min", tally.soon_back_percent, "%", "lower")
