"""What the constants of the default policy are worth: each moved by half, both ways.

A constant that had been fitted to a list would lose much when it moves. The runs are those of the
lists that ship, and for constants that only matter where tasks name models, of a look-alike that does
(``bench.lists``, which publishes these figures). A constant is moved in every module that imported it,
inside a process that does nothing else at that moment.

``EMPTY_GPU_COST`` is frozen into the compiled kernels. It only counts against the worths of a valuation,
so these are scaled the other way, and the amounts on the curves with them.

Not moved: tolerances, sizes of tables and resolutions of curves (they decide nothing), the ends of
scales that nothing here reaches, and what only matters when work leaves (``FREE_RISE``, ``STEP_LEAST``),
which it does not in these runs.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from statistics import fmean
from types import ModuleType
from typing import Any
from unittest import mock

import msgspec

from bench.figures import Figure, figure
from gpufleet.engine.learn import host_curve, mix, model_worth, valuation_change, whole_slots
from gpufleet.engine.learn import study as learn_study
from gpufleet.engine.learn.study import study
from gpufleet.engine.place.score import worth
from gpufleet.engine.place.score.worth import EMPTY_GPU_COST
from gpufleet.engine.valuation import HostCurve, Valuation
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import workers

FACTORS = (0.5, 1.5)
LOAD = "130"
LOST_POINTS_MOST = 0.2

CONSTANTS: dict[ModuleType, tuple[str, ...]] = {
    mix: ("HALF_LIFE_ARRIVALS",),
    host_curve: ("TASKS_A_NODE", "SPAN_MEANS_MAX", "NEED_LEAST"),
    whole_slots: (
        "SAFETY",
        "INSURED_SHARE",
        "INSURED_BONUS",
        "SLOT_FALL",
        "NEAR",
        "SCARCE_LEAST",
    ),
    learn_study: (
        "FIRST_VALUATION_ARRIVALS",
        "ARRIVALS_GROWTH",
        "ARRIVALS_STEP_MAX",
        "VALUATION_GAP_ARRIVALS",
        "FREE_FALL",
        "FREE_LEAST",
        "SIZES_MAX",
    ),
    valuation_change: ("VALUE_STEP", "SHARE_STEP", "SPAN_STEP_PCT", "BONUS_STEP"),
    worth: ("EMPTY_GPU_COST",),
}
ABOUT_MODELS: dict[ModuleType, tuple[str, ...]] = {
    whole_slots: ("SAFETY",),
    learn_study: ("MODEL_LEAST", "PRICE_MAX", "FREE_FALL", "ARRIVALS_GROWTH"),
    model_worth: ("MODELS_MAX",),
    valuation_change: ("PRICE_STEP",),
}
ABOVE_ONE = {"ARRIVALS_GROWTH"}
"""Growth by a factor: what is moved is the part above 1."""


class Move(msgspec.Struct, frozen=True):
    """One constant of a module, times a factor; None moves nothing."""

    module: str | None = None
    constant: str = ""
    factor: float = 1.0


def moved(constant: str, value: float, factor: float) -> float:
    """The constant's new value; whole numbers stay whole and positive."""
    if constant in ABOVE_ONE:
        return 1 + (value - 1) * factor
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


@contextmanager
def in_place(move: Move) -> Iterator[None]:
    """Let the engine use the moved constant."""
    if move.module is None:
        yield
    elif move.constant == "EMPTY_GPU_COST":
        with scaled_valuations(moved("", EMPTY_GPU_COST, move.factor) / EMPTY_GPU_COST):
            yield
    else:
        home = sys.modules[move.module]
        value = getattr(home, move.constant)
        users = [
            module
            for name, module in list(sys.modules.items())
            if name.startswith("gpufleet.engine.") and getattr(module, move.constant, None) == value
        ]
        try:
            for module in users:
                setattr(module, move.constant, moved(move.constant, value, move.factor))
            yield
        finally:
            for module in users:
                setattr(module, move.constant, value)


@contextmanager
def scaled_valuations(factor: float) -> Iterator[None]:
    """Let what is not in the valuation count ``factor`` times as much against what is."""

    def scaled_study(*arguments: Any) -> Valuation | None:
        valuation = study(*arguments)
        return None if valuation is None else scaled(valuation, 1 / factor)

    # worths above one GPU are refused in a log, where they could be anything
    with (
        mock.patch("gpufleet.engine.place.choose.policy_state.study", scaled_study),
        mock.patch("gpufleet.engine.place.choose.policy_state.check"),
    ):
        yield


def scaled(valuation: Valuation, factor: float) -> Valuation:
    """The same valuation with every worth times the factor."""
    slots = tuple(
        msgspec.structs.replace(
            kind,
            levels=tuple(
                msgspec.structs.replace(level, bonus=round(level.bonus * factor)) for level in kind.levels
            ),
        )
        for kind in valuation.slots
    )
    return msgspec.structs.replace(
        valuation,
        value_by_milli=tuple(round(value * factor) for value in valuation.value_by_milli),
        cpu=HostCurve(max(1, round(valuation.cpu.span / factor)), valuation.cpu.shares),
        memory=HostCurve(max(1, round(valuation.memory.span / factor)), valuation.memory.shares),
        slots=slots,
    )


def allocated_pct(move: Move, request: RunRequest) -> float:
    """The allocation at the end of a run with this constant moved."""
    with in_place(move):
        return run(request).alloc_pct[LOAD]


def moves(constants: dict[ModuleType, tuple[str, ...]]) -> list[Move]:
    """Every constant both ways."""
    return [
        Move(module.__name__, name, factor)
        for module, names in constants.items()
        for name in names
        for factor in FACTORS
    ]


def changes(
    pool: ProcessPoolExecutor, wanted: Sequence[Move], by_list: dict[str, list[RunRequest]]
) -> Iterator[Figure]:
    """What each move changes on each list, against no move."""
    requests = [(name, request) for name, runs in by_list.items() for request in runs]
    every = [Move(), *wanted]
    found = list(
        pool.map(
            allocated_pct,
            [move for move in every for _ in requests],
            [request for _ in every for _, request in requests],
        )
    )
    rows = [found[place : place + len(requests)] for place in range(0, len(found), len(requests))]
    means = [
        {
            name: fmean(pct for (of, _), pct in zip(requests, row, strict=True) if of == name)
            for name in by_list
        }
        for row in rows
    ]
    for move, mean in zip(wanted, means[1:], strict=True):
        change = {name: mean[name] - means[0][name] for name in by_list}
        shown = ", ".join(f"{name} {points:+.2f}" for name, points in change.items())
        title = f"{move.constant} x {move.factor}: worst of {shown}"
        yield figure(title, min(change.values()), "points", "higher", -LOST_POINTS_MOST)


def figures(
    shipped: dict[str, list[RunRequest]], naming: dict[str, list[RunRequest]], jobs: int
) -> list[Figure]:
    """Every constant on the lists that ship, and those about models where tasks name them."""
    with workers(jobs) as pool:
        measured = partial(changes, pool)
        return [*measured(moves(CONSTANTS), shipped), *measured(moves(ABOUT_MODELS), naming)]
