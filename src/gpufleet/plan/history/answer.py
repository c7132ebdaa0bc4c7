"""The answer of `gpufleet plan --history` as a value; ``-o json`` writes it as it stands."""

import msgspec

from gpufleet.plan.answer import Purchase, SpotWork
from gpufleet.plan.history.service_level import ServiceLevel
from gpufleet.replay.results import Waits

SCHEMA = "gpufleet.io/plan-history/v1"
"""A change that breaks readers of the JSON gets another version."""


class LevelFound(msgspec.Struct, frozen=True, rename="camel"):
    """What a fleet does of a level: of ``tasks`` so many start ``in_time``.

    ``wait_s`` is how long the level's share of them waits at most; None where so many never start.
    """

    level: ServiceLevel
    tasks: int
    in_time: int
    wait_s: float | None
    holds: bool


class FleetFound(msgspec.Struct, frozen=True, rename="camel"):
    """A fleet and what the replay on it found.

    ``nodes`` are those that are bought; ``gpus`` counts those that are there too. ``cost_micro`` is what the
    bought ones cost for an hour. ``waits`` are by class of task, of all tasks with GPUs under "gpu", and
    ``wait_of_90_pct_s`` is what 90 % of all tasks of a class wait at most, None where so many never start.
    ``never_started`` counts tasks that were not withdrawn and never start.
    """

    nodes: tuple[Purchase, ...]
    gpus: int
    cost_micro: int
    levels: tuple[LevelFound, ...]
    waits: dict[str, Waits]
    wait_of_90_pct_s: dict[str, float | None]
    never_started: int

    @property
    def holds(self) -> bool:
        """Whether it holds all levels, and starts everything."""
        return not self.never_started and all(one.holds for one in self.levels)


class Series(msgspec.Struct, frozen=True, rename="camel"):
    """GPUs over time, each the mean over its interval: asked for by tasks that run or wait, and in use.

    ``time_s`` counts from the first task, or from the first of the month of a forecast.
    """

    time_s: list[float]
    asked_gpus: list[float]
    used_gpus: list[float]


class Helpless(msgspec.Struct, frozen=True, rename="camel"):
    """Tasks of one request that neither the fleet nor any type of the catalogue can hold."""

    tasks: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    why: str


class WithoutPool(msgspec.Struct, frozen=True, rename="camel"):
    """What the fleet that is there does without a pool, and what the pool's nodes cost for an hour.

    ``cost_micro`` is None where the catalogue has no price for one of them.
    """

    pools: tuple[str, ...]
    nodes: int
    gpus: int
    cost_micro: int | None
    fleet: FleetFound


class HistoryPlan(msgspec.Struct, frozen=True, rename="camel"):
    """The cheapest fleet that was found to hold the levels for the work of a history or a forecast.

    ``forecast`` is the sentence that says how a forecast was made, "" for the history itself. ``today`` is
    the fleet that is there, None without one, and ``without`` the same without a pool. ``best`` is what is
    bought beside it, None where no purchase was found that holds the levels. ``is_cheapest`` says that every
    fleet that costs less was ruled out. ``spot`` is what goes on spot capacity, where that can be bought.
    ``others`` are fleets beside it, the cheapest first. ``replays`` counts how often the engine played the
    work.
    """

    schema: str
    source: str
    forecast: str
    tasks: int
    levels: tuple[ServiceLevel, ...]
    catalogue: str
    currency: str
    today: FleetFound | None
    without: WithoutPool | None
    best: FleetFound | None
    is_cheapest: bool
    others: tuple[FleetFound, ...]
    spot: tuple[SpotWork, ...]
    nothing_helps: tuple[Helpless, ...]
    series: Series | None
    replays: int
    notes: tuple[str, ...]
