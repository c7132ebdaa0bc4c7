"""The live scheduler's side of a comparison: its next decision, told in the words of ``explain``.

Everything here changes the scheduler, so it is to be called in a copy of the run (``forked_copy``).
"""

import datetime as dt

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.scheduler_lease import Leading
from gpufleet.explain.answering import Answering
from gpufleet.explain.engine_run import EngineRun
from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.lasting_conditions import START_OF_1970
from gpufleet.scheduler.rounds import Rounds
from gpufleet.simulation.writes_under_way import Listed, cluster_of


def let_decide(rounds: Rounds, listed: Listed, position: str) -> None:
    """Tell the live scheduler all that the API holds by now, and let it take its next decision.

    It is what the scheduler would do if its watches had just delivered everything: whether they are cut,
    late or silent makes no difference.
    """
    for watched, raws in listed.items():
        cluster_of(rounds).mirrors[watched.kind].catch_up(raws, position)
    rounds.turn()


class LeadersTime:
    """The leader's time, for the side that is compared with it.

    The leader writes until when a pod pauses by a clock that a fault may have set wrong. No object tells how
    wrong it is, so a reader on a right clock takes the pause for over, or for longer, by as much. What is
    compared is what both sides know, and not their clocks.
    """

    def __init__(self, clock: Clock, rounds: Rounds) -> None:
        self.clock = clock
        self.ahead = dt.timedelta(microseconds=rounds.time.now_us()) - (clock.now() - START_OF_1970)

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return self.clock.monotonic_s()

    def now(self) -> dt.datetime:
        """The wall time in UTC as the leader counts it."""
        return self.clock.now() + self.ahead

    async def sleep(self, duration_s: float) -> None:
        """Wait so many seconds."""
        await self.clock.sleep(duration_s)


def live_answering(rounds: Rounds, fresh: Facts, leading: Leading) -> Answering:
    """Answers from the trackers and the engine of the live scheduler, about what was just listed."""
    answering = Answering(LiveFacts(rounds, fresh), leading)
    answering.engine_run = LiveRun(rounds, fresh)
    return answering


class LiveFacts(Facts):
    """The trackers of the live scheduler, in the place of those that were just filled."""

    def __init__(self, rounds: Rounds, fresh: Facts) -> None:
        self.picture, self.settings = fresh.picture, fresh.settings
        self.clock, self.waves = fresh.clock, fresh.waves
        events = rounds.engine_events
        self.gangs, self.pods, self.nodes = events.gangs, events.pods, events.nodes


class LiveRun(EngineRun):
    """The engine of the live scheduler, in the place of one that was just told everything."""

    def __init__(self, rounds: Rounds, fresh: Facts) -> None:
        self.settings, self.waves = fresh.settings, fresh.waves
        self.engine, self.at_us = rounds.engine, rounds.engine.at_us
        self.evicted = []
        self.reserved = {place.uid: one for one in self.engine.reservations() for place in one.places}
