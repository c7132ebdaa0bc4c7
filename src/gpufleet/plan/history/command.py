"""A plan for a history from its words to its answer: no cluster is asked."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import msgspec

from gpufleet.kube.meanings.node_pools import pool_of
from gpufleet.ledger.node_versions import SPOT
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.node_pool import Amounts
from gpufleet.model.phrases import counted, listed
from gpufleet.plan.history.answer import SCHEMA, FleetFound, HistoryPlan, Series, WithoutPool
from gpufleet.plan.history.bought_fleet import Counts, bought
from gpufleet.plan.history.demand import Demand
from gpufleet.plan.history.fleet_search import FleetSearch, Say, busiest_fleet, with_count
from gpufleet.plan.history.fleet_trials import FleetTrials
from gpufleet.plan.history.forecast import DAY_US, Month, grown, of_month
from gpufleet.plan.history.helpless_tasks import helpless, helpless_shapes
from gpufleet.plan.history.service_level import ServiceLevel
from gpufleet.plan.history.sources import Source, fleet_of, history_of
from gpufleet.plan.history.spot_choice import CHECKPOINT, ON_DEMAND_FLOOR, SpotQuestion, split
from gpufleet.plan.instance_types import CATALOGUE, Catalogue, InstanceType
from gpufleet.plan.node_names import named
from gpufleet.plan.node_prices import price_of_labels
from gpufleet.plan.pools.pool_limits import bounded, exceeded
from gpufleet.progress.collection_pause import without_collections
from gpufleet.whatif.request import REMOVE_POOL

NO_BEGIN = "needs --begin TIME: a trace counts from its own start"
OTHER_SIZES_PCT = (50, 75, 125, 150)
"""Sizes of the best purchase, that show what a smaller or a larger one of the same mix does."""


class HistoryQuestion(msgspec.Struct, frozen=True):
    """What is asked. ``begin_us`` is when second 0 of a trace is; a month needs it.

    ``left`` is by how much the NodePools that buy may still grow, and ``notes`` is what there is to say of
    them.
    """

    history: Source
    catalogue: Catalogue
    levels: tuple[ServiceLevel, ...]
    nodes: Path | None = None
    remove_pools: tuple[str, ...] = ()
    growth: Fraction = Fraction(1)
    month: Month | None = None
    begin_us: int | None = None
    policy: str = "gpufleet"
    spot: SpotQuestion = SpotQuestion()
    left: Mapping[str, Amounts] = {}
    notes: tuple[str, ...] = ()


class Planned(msgspec.Struct, frozen=True):
    """The answer, and the fleet and the work as `gpufleet replay` plays them."""

    answer: HistoryPlan
    nodes: tuple[Node, ...]
    demand: Demand


def plan_of_history(question: HistoryQuestion, say: Say) -> Planned:
    """Which fleet holds the levels. Raises InputError and TraceError."""
    with without_collections():
        return _planned(question, say)


def _planned(question: HistoryQuestion, say: Say) -> Planned:
    there = fleet_of(question.nodes)
    gone = _of_pools(there, question.remove_pools)
    left = tuple(node for node in there if node not in gone)
    offered = bounded(_with_known_rates(question.catalogue.types), question.left)
    types = named(offered, (node.name for node in there))
    whole, forecast = _demand(question, there)
    _check_queues(question.spot, whole)
    demand, spot = split(whole, types, question.spot, has_nodes=bool(there))
    shapes = helpless_shapes(demand, [*left, *bought(types, (1,) * len(types))])
    without = demand.without(frozenset(shapes))
    levels = question.levels
    _check_levels(levels, without)
    trials = FleetTrials(without, left, types, levels, question.policy)
    search = FleetSearch(types, trials.holds, say, lambda counts: not exceeded(types, counts, question.left))
    nothing: Counts = (0,) * len(types)
    if levels:
        search.run(busiest_fleet(without, types))
    best, series, others = _measured(trials, search, say)
    today = None
    if there:
        fleet = FleetTrials(without, there, types, levels, question.policy)
        today, used = fleet.found(nothing)
        series = series or used
    answer = HistoryPlan(
        schema=SCHEMA,
        source=demand.source,
        forecast=forecast,
        tasks=len(demand.counting),
        levels=levels,
        catalogue=question.catalogue.source,
        currency=question.catalogue.currency,
        today=today,
        without=_without(question, gone, trials.found(nothing)[0]) if gone else None,
        best=best,
        is_cheapest=search.is_cheapest,
        others=others,
        spot=spot,
        nothing_helps=helpless(demand, shapes),
        series=series,
        replays=trials.replays,
        notes=_notes(question, demand),
    )
    nodes = trials.nodes(nothing if search.best is None else search.best)
    return Planned(answer, tuple(nodes), without)


def _with_known_rates(types: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
    """The types without spot capacity of which it is not known how often it is taken back. Raises InputError
    where nothing is left.
    """
    found = tuple(one for one in types if one.capacity_type != SPOT or one.interruptions_per_hour is not None)
    if not found:
        expected = "a column interruptions_per_hour, by which spot capacity is judged"
        raise InputError("has spot capacity alone, of no known rate", field=CATALOGUE, expected=expected)
    return found


def _check_queues(question: SpotQuestion, demand: Demand) -> None:
    """A queue that is misspelt would be passed over. Raises InputError."""
    known = {str(task.queue) for task in demand.tasks}
    for field, queues in ((CHECKPOINT, question.checkpoint_h), (ON_DEMAND_FLOOR, question.on_demand_pct)):
        for queue in queues:
            if queue not in known:
                expected = f"one of {listed(sorted(known))}"
                raise InputError("no task is in such a queue", field=field, value=queue, expected=expected)


def _demand(question: HistoryQuestion, there: Sequence[Node]) -> tuple[Demand, str]:
    found = history_of(question.history, question.catalogue.types, there)
    history = found.demand
    if question.month is not None:
        begin_us = question.begin_us if found.begin_us is None else found.begin_us
        if begin_us is None:
            raise InputError(NO_BEGIN, field="--month", expected="--begin TIME, such as 2026-10-31")
        return of_month(history, begin_us, question.month, question.growth)
    if question.growth == 1:
        return history, ""
    sentence = f"a forecast: {float(question.growth):g} times the work of the history, at its times"
    return grown(history, question.growth), f"{sentence}; no measurement"


def _check_levels(levels: Sequence[ServiceLevel], demand: Demand) -> None:
    """A level of no task would be held by any fleet. Raises InputError."""
    for level in levels:
        if not any(level.is_about(task.shape.gpu) for task in demand.counting):
            raise InputError(
                "a level for no task",
                field="--wait",
                value=level.words,
                expected="a class that a task of the history is of, and that some node can hold",
            )


def _measured(
    trials: FleetTrials, search: FleetSearch, say: Say
) -> tuple[FleetFound | None, Series | None, tuple[FleetFound, ...]]:
    """The best fleet, what it does over time, and smaller and larger ones of the same mix."""
    if search.best is None:
        return None, None, ()
    best, series = trials.found(search.best)
    mixes = {tuple(-(-count * size_pct // 100) for count in search.best) for size_pct in OTHER_SIZES_PCT}
    # That no node can be left out is seen in the answer.
    mixes |= {with_count(search.best, index, count - 1) for index, count in enumerate(search.best) if count}
    allowed = [mix for mix in mixes - {search.best} if _can_be_had(trials, mix) and search.can_be_had(mix)]
    others = []
    for mix in sorted(allowed, key=search.cost):
        others.append(trials.found(mix)[0])
        say(f"{len(others)} of {len(allowed)} other sizes replayed")
    return best, series, tuple(others)


def _can_be_had(trials: FleetTrials, counts: Counts) -> bool:
    return all(one.most is None or count <= one.most for one, count in zip(trials.types, counts, strict=True))


def _of_pools(nodes: Sequence[Node], pools: Sequence[str]) -> tuple[Node, ...]:
    """The nodes of these pools. Raises InputError for a pool without nodes."""
    found: list[Node] = []
    for pool in pools:
        label, equals, value = pool.partition("=")
        of_pool = [
            node
            for node in nodes
            if (node.labels.get(label) == value if equals else pool and pool_of(node.labels) == pool)
        ]
        if not of_pool:
            known = sorted({name for node in nodes if (name := pool_of(node.labels))})
            expected = f"one of {listed(known)}" if known else "LABEL=VALUE of nodes of --nodes"
            raise InputError("no node is in such a pool", field=REMOVE_POOL, value=pool, expected=expected)
        found += [node for node in of_pool if node not in found]
    return tuple(found)


def _without(question: HistoryQuestion, gone: Sequence[Node], fleet: FleetFound) -> WithoutPool:
    prices = [price_of_labels(node.labels, question.catalogue) for node in gone]
    known = [price for price in prices if price is not None]
    return WithoutPool(
        question.remove_pools,
        len(gone),
        sum(len(node.devices) for node in gone),
        sum(known) if len(known) == len(prices) else None,
        fleet,
    )


def _notes(question: HistoryQuestion, demand: Demand) -> tuple[str, ...]:
    notes = [*question.notes, *demand.notes]
    days = (max(task.created_at_us for task in demand.tasks) - demand.counts_from_us) / DAY_US
    if question.month is None and days < 1:
        notes.append("the history is shorter than a day, so busy hours may be missing in it")
    unknown = len(question.catalogue.types) - len(_with_known_rates(question.catalogue.types))
    if unknown:
        notes.append(f"{counted(unknown, 'spot type')} without interruptions_per_hour: left out")
    lasting = sum(task.duration_us is None and task.withdrawn_at_us is None for task in demand.tasks)
    if lasting:
        stay = "stays" if lasting == 1 else "stay"
        notes.append(f"{counted(lasting, 'task')} without a known end {stay} to the end")
    notes.append("queues and their quota are not replayed: priority and order of arrival decide")
    return tuple(notes)
