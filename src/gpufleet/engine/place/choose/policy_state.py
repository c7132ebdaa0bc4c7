"""A policy in use: its arrays, kept in step with what it was told and what it learned.

``EngineState`` tells it what arrives and what changes; the arrays go to every scoring kernel.
"""

from collections.abc import Iterable

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.handle import Handle
from gpufleet.engine.arrays.layout import DEVICES_A_NODE_MAX
from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.learn.mix import Mix
from gpufleet.engine.learn.study import (
    FIRST_VALUATION_ARRIVALS,
    VALUATION_GAP_ARRIVALS,
    next_valuation_at,
    study,
)
from gpufleet.engine.learn.valuation_change import says_something_new, with_marks_of
from gpufleet.engine.place.score import policy_tables
from gpufleet.engine.place.score.fragmentation import grade_thresholds
from gpufleet.engine.place.score.policy_tables import PolicyTables, empty_policy_tables
from gpufleet.engine.place.score.worth import valuation_is_due_by_handle
from gpufleet.engine.place.score.worth_tables import (
    WORTH_COLUMNS,
    WORTH_FREE_HIGH,
    WORTH_FREE_LOW,
    WORTH_STALE,
    WorthTables,
    untaught,
)
from gpufleet.engine.policy import Policy
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.valuation import (
    CURVE_STEPS,
    FULL_SHARE,
    NEVER,
    ONE_GPU,
    ONE_PRICE,
    PRICE_MOST,
    SLOT_KINDS,
    SLOT_LEVELS,
    SPAN_MOST,
    Valuation,
)
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.shape import Shape


class PolicyState:
    """Holds the arrays of one policy for one fleet.

    ``defers``: the step that begins decides nothing, because the policy learns from its arrivals first.
    """

    def __init__(self, policy: Policy, seed: int, fleet: Fleet) -> None:
        self.policy = policy
        self.learns = policy.learns
        self.fleet = fleet
        self.mix = Mix()
        self.defers = False
        self._handle = Handle()
        self._valuation: Valuation | None = None
        self._take_tables(empty_policy_tables())
        self._next_valuation_at = next_valuation_at(0)
        self._quiet_until = self._next_valuation_at
        options = self.tables.options
        options[policy_tables.OPTION_NODE_CHOICE] = int(policy.node_choice)
        options[policy_tables.OPTION_SHARE_CHOICE] = int(policy.share_choice)
        options[policy_tables.OPTION_WHOLE_CHOICE] = int(policy.whole_choice)
        options[policy_tables.OPTION_SEED] = seed
        for function, weight in policy.weights.items():
            self.tables.weights[int(function)] = weight

    def _take_tables(self, tables: PolicyTables) -> None:
        """Use these from now on; ``handle`` is the same as a kernel's argument.

        An attribute and no property: it is asked for each pod that is placed.
        """
        self.tables = tables
        self.handle: Int64Array = self._handle.of(tables)

    def set_target(self, entries: tuple[tuple[Shape, int], ...]) -> None:
        """Measure fragmentation against these shapes, each with its count.

        Those that want the same part of a GPU stand side by side (``score.fragmentation``).
        """
        # Python's sort is stable, so equal parts keep the order of the policy and each run scores alike.
        entries = tuple(sorted(entries, key=lambda entry: entry[0].gpu.gpu_milli))
        codes = [[self.fleet.model_code(model) for model in shape.gpu.models] for shape, _ in entries]
        target = np.zeros((policy_tables.TARGET_COLUMNS, len(entries)), np.int64)
        # Some columns to spare: a new model then needs no new array, whose address kernels would have to be
        # given.
        models = np.zeros((len(entries), max(8, len(self.fleet.model_codes))), np.bool_)
        for entry, (shape, count) in enumerate(entries):
            target[policy_tables.TARGET_CPU_MILLI, entry] = shape.resources.cpu_milli
            target[policy_tables.TARGET_GPU_COUNT, entry] = shape.gpu.count
            target[policy_tables.TARGET_GPU_MILLI, entry] = shape.gpu.gpu_milli
            target[policy_tables.TARGET_WEIGHT, entry] = count
            target[policy_tables.TARGET_ANY_MODEL, entry] = int(not codes[entry])
            models[entry, codes[entry]] = True
        total = int(target[policy_tables.TARGET_WEIGHT].sum())
        grades = grade_thresholds(total)
        self._take_tables(self.tables._replace(target=target, target_models=models, grades=grades))

    def fleet_changed(self) -> None:
        """Nodes came, went or changed: every table with a row a node or a model keeps up."""
        worth = self.tables.worth
        node_rows = len(self.fleet.store.tables.changed_at)
        # Compared with the table of the fleet and not with the number of nodes: rows of removed nodes stay.
        if worth.of_node.shape[1] < node_rows:
            self._replace_worth(of_node=np.zeros((WORTH_COLUMNS, node_rows), np.int64))
        models = len(self.fleet.model_codes)
        if len(worth.price) < models:
            known = len(worth.price)
            price, free = self._by_model({}, ONE_PRICE), self._by_model({}, 0)
            low = self._by_model({}, layout.NOT_SET)
            # What was learned of known models stays; what is free of them is counted anew.
            price[:known], low[:known] = worth.price, worth.model_low
            self._replace_worth(price=price, model_low=low, model_free=free)
        if self.tables.target_models.shape[1] < models:
            # Twice as many, so that a fleet that grows model by model does not copy each time.
            grown = np.zeros((len(self.tables.target_models), 2 * models), np.bool_)
            grown[:, : self.tables.target_models.shape[1]] = self.tables.target_models
            self._take_tables(self.tables._replace(target_models=grown))

    def _replace_worth(self, **arrays: Int64Array) -> None:
        worth = self.tables.worth._replace(**arrays)
        # Worths of nodes were computed with the old arrays, so the next decision computes them anew.
        worth.state[WORTH_STALE] = 1
        self._take_tables(self.tables._replace(worth=worth))

    def arrived(self, shape: Shape) -> None:
        """A pod of this shape arrived."""
        if self.learns:
            self.mix.arrived(shape)

    def learns_first_from(self, arrivals: int) -> bool:
        """True if so many arrivals at once should be learned from before any of them is placed.

        They are more than all before them, so what is known says little of them.
        """
        return self.learns and arrivals >= max(FIRST_VALUATION_ARRIVALS, self.mix.arrivals)

    def defer_decisions(self) -> None:
        """This step decides nothing; a valuation is due after it, whatever came."""
        self.defers = True

    def valuation_is_due(self) -> bool:
        """True if enough arrived, or the fleet changed enough, since the last valuation."""
        arrivals = self.mix.arrivals
        if not self.learns or not arrivals:
            return False
        if arrivals >= self._next_valuation_at:
            return True
        # A fleet in which nodes come and go would otherwise be studied at each step.
        if arrivals < self._quiet_until:
            return False
        return valuation_is_due_by_handle(self.fleet.store.handle, self.handle)

    def study(self) -> Valuation | None:
        """A valuation from the mix so far and the fleet as it is."""
        return study(self.mix, self.fleet)

    def take_valuation(self, valuation: Valuation | None) -> bool:
        """Value nodes by this valuation from now on; None changes nothing. False if no score changes."""
        if valuation is not None:
            check(valuation)
        # Also where there is no valuation: else it would be asked for again at the next arrival.
        self._next_valuation_at = next_valuation_at(self.mix.arrivals)
        self._quiet_until = self.mix.arrivals + VALUATION_GAP_ARRIVALS
        if valuation is None:
            return False
        known, new = self._valuation, True
        if known is not None:
            new = says_something_new(known, valuation)
            # The marks say when scores change enough to study again; they follow the fleet though nothing new
            # was learned.
            valuation = valuation if new else with_marks_of(known, valuation)
        self._valuation = valuation
        # The largest table is used again: it has a row a node, and a valuation changes none of its sizes.
        worth = untaught()._replace(of_node=self.tables.worth.of_node)
        worth.value[:] = valuation.value_by_milli
        for row, curve in enumerate((valuation.cpu, valuation.memory)):
            worth.spans[row] = curve.span
            worth.curves[row] = curve.shares
        worth.state[WORTH_FREE_LOW] = valuation.free_low_milli
        worth.state[WORTH_FREE_HIGH] = valuation.free_high_milli
        write_slots(worth, valuation)
        worth = worth._replace(
            price=self._by_model(valuation.price_by_model, ONE_PRICE),
            model_low=self._by_model(valuation.model_low_milli, layout.NOT_SET),
            model_free=self._by_model({}, 0),
        )
        self._take_tables(self.tables._replace(worth=worth))
        return new

    def _by_model(self, amounts: dict[GpuModelName, int], otherwise: int) -> Int64Array:
        """Amounts as an array by model code."""
        # Some to spare for models that come later, as in ``set_target``.
        column = np.full(max(8, 2 * len(self.fleet.model_codes)), otherwise, np.int64)
        for model, amount in amounts.items():
            if model in self.fleet.model_codes:
                column[self.fleet.model_codes[model]] = amount
        return column


def write_slots(worth: WorthTables, valuation: Valuation) -> None:
    """The slots of a valuation as arrays: a bonus counts from the level on that it belongs to."""
    for kind, slot in enumerate(valuation.slots):
        worth.slot_gpus[kind] = slot.gpus
        for level, need in enumerate(slot.levels):
            worth.slot_needs[kind, level] = (need.cpu_milli, need.memory_mib)
            # Levels come from the lowest up, and each overwrites what the one before it wrote beyond.
            worth.slot_bonus[kind, level + 1 :] = need.bonus
            worth.slots_low[kind, level] = need.low


def check(valuation: Valuation) -> None:
    """Refuse a valuation whose tables have not the size that the kernels read, or whose numbers they
    could not multiply in 64 bits.
    """
    sizes = {
        "value_by_milli": (len(valuation.value_by_milli), WHOLE_GPU_MILLI + 1),
        "cpu.shares": (len(valuation.cpu.shares), CURVE_STEPS + 1),
        "memory.shares": (len(valuation.memory.shares), CURVE_STEPS + 1),
    }
    for field, (found, wanted) in sizes.items():
        if found != wanted:
            raise EventError("a table of the wrong length", field=field, value=found, expected=str(wanted))
    # A valuation comes as an event, perhaps from a saved log: kernels check no bounds of their own.
    levels = max((len(slot.levels) for slot in valuation.slots), default=0)
    if len(valuation.slots) > SLOT_KINDS or levels > SLOT_LEVELS:
        raise EventError(
            "too many kinds or levels of slots",
            field="slots",
            value=levels,
            expected=f"at most {SLOT_KINDS} kinds of {SLOT_LEVELS} levels",
        )
    slot_levels = [(slot, level) for slot in valuation.slots for level in slot.levels]
    amounts: list[tuple[str, Iterable[int], int, int]] = [
        ("value_by_milli", valuation.value_by_milli, 0, ONE_GPU),
        ("cpu.span", [valuation.cpu.span], 1, SPAN_MOST),
        ("cpu.shares", valuation.cpu.shares, 0, FULL_SHARE),
        ("memory.span", [valuation.memory.span], 1, SPAN_MOST),
        ("memory.shares", valuation.memory.shares, 0, FULL_SHARE),
        ("price_by_model", valuation.price_by_model.values(), 0, PRICE_MOST),
        ("slots.gpus", [slot.gpus for slot in valuation.slots], 1, DEVICES_A_NODE_MAX),
        ("slots.levels.cpu_milli", [level.cpu_milli for _, level in slot_levels], 0, NEVER),
        ("slots.levels.memory_mib", [level.memory_mib for _, level in slot_levels], 0, NEVER),
        ("slots.levels.bonus", [level.bonus for _, level in slot_levels], 0, DEVICES_A_NODE_MAX * ONE_GPU),
        ("slots.levels.low", [level.low for _, level in slot_levels], layout.NOT_SET, NEVER),
        ("model_low_milli", valuation.model_low_milli.values(), layout.NOT_SET, NEVER),
        ("free_low_milli", [valuation.free_low_milli], layout.NOT_SET, NEVER),
        ("free_high_milli", [valuation.free_high_milli], 0, NEVER),
    ]
    for field, numbers, least, most in amounts:
        for number in numbers:
            if not least <= number <= most:
                raise EventError("out of range", field=field, value=number, expected=f"{least} to {most}")
