"""The live scheduler's side of a comparison: its next decision, told in the words of ``explain``.

Everything here changes the scheduler, so it is to be called in a copy of the run (``forked_copy``).
"""

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.lease_holder import Leading
from gpufleet.explain.answering import Answering
from gpufleet.explain.engine_run import EngineRun
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


def live_answering(rounds: Rounds, fresh: Facts, leading: Leading) -> Answering:
    """Answers from the books and the engine of the live scheduler, about what was just listed."""
    answering = Answering(LiveFacts(rounds, fresh), leading)
    answering.engine_run = LiveRun(rounds, fresh)
    return answering


class LiveFacts(Facts):
    """The books of the live scheduler, in the place of those that were just filled."""

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
