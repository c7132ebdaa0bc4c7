"""The engine's arrays recounted: every cell against the plain account, every cached score fresh."""

from collections.abc import Collection, Iterable

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.placing import SERVES_WHOLE
from gpufleet.engine.instruction import AnyInstruction, RequeueAfter
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.ranking import fresh_score, refresh
from gpufleet.engine.place.refusal.survey_cache import SurveyCache
from gpufleet.engine.place.relations.neighbours import NO_REASONS
from gpufleet.model.identifiers import NodeName
from tests.engine.plain_fleet import PlainNode

COLUMNS = {
    "cpu_milli": layout.RESOURCE_CPU_MILLI,
    "memory_bytes": layout.RESOURCE_MEMORY_BYTES,
    "pods": layout.RESOURCE_PODS,
    "ephemeral_storage_bytes": layout.RESOURCE_EPHEMERAL_STORAGE_BYTES,
}


def check_books(state: EngineState, plain: dict[NodeName, PlainNode]) -> None:
    """The engine's arrays are what a recount finds, and no cached score is stale."""
    assert set(state.fleet.row_by_name) == set(plain)
    for name, place in plain.items():
        check_node(state, state.fleet.row_by_name[name], place)
    check_rankings(state)
    check_surveys(state)


def check_node(state: EngineState, row: int, plain: PlainNode) -> None:
    """One node's cells are what the plain account counts."""
    tables = state.store.tables
    columns = COLUMNS | state.fleet.resource_columns
    free = plain.free_amounts()
    for name, column in columns.items():
        assert tables.resources_free[row, column] == free.get(name, 0), (plain.node.name, name)
    assert tables.nodes[layout.NODE_FREE_GPU_MILLI, row] == plain.idle_gpu_milli
    entirely = 0
    for one in plain.devices:
        device_row = state.fleet.device_row_by_id[one.device.id]
        cells = tables.devices[:, device_row]
        whole_free = one.device.healthy and not one.holders and bool(one.device.serves & SERVES_WHOLE)
        entirely += whole_free
        assert cells[layout.DEVICE_NODE] == row
        assert cells[layout.DEVICE_FREE_MILLI] == one.free_milli, one.device.id
        assert cells[layout.DEVICE_IDLE_MILLI] == one.idle_milli, one.device.id
        assert cells[layout.DEVICE_FREE_MIB] == one.free_mib, one.device.id
        assert cells[layout.DEVICE_USERS] == len(one.holders), one.device.id
        assert cells[layout.DEVICE_WHOLE_FREE] == whole_free, one.device.id
        stated = sum(held.memory_mib is not None for held in one.holders)
        assert cells[layout.DEVICE_MEMORY_SHARES] == stated, one.device.id
    assert tables.nodes[layout.NODE_FREE_WHOLE_GPUS, row] == entirely
    assert sum(tables.kinds[row]) == sum(plain.kinds().values())


def check_rankings(state: EngineState) -> None:
    """No cached score is stale, once brought up to date."""
    tables, rankings, policy = state.store.tables, state.shapes.rankings, state.policy.tables
    for slot in range(rankings.state.shape[0]):
        if rankings.state[slot, layout.RANKING_SHAPE] == layout.NOT_SET:
            continue
        refresh(tables, rankings, policy, slot)
        for row in range(state.fleet.row_count):
            fresh = fresh_score(tables, rankings, policy, slot, row)
            assert rankings.scores[slot, row] == fresh, (slot, row)
        blocks = rankings.scores[slot].reshape(-1, layout.RANKING_BLOCK).max(axis=1)
        assert np.array_equal(blocks, rankings.best[slot])


def check_surveys(state: EngineState) -> None:
    """What is kept of the reasons against a shape is what the nodes say now."""
    kept, anew = state.gangs.judging.surveys, SurveyCache(state.store, state.shapes)
    for shape_row in kept.kept():
        slot = state.shapes.slot(shape_row)
        assert np.array_equal(kept.reasons_by_row(slot, NO_REASONS), anew.reasons_by_row(slot, NO_REASONS))
        sets, nearest = kept.survey(slot, NO_REASONS)
        sets_anew, nearest_anew = anew.survey(slot, NO_REASONS)
        assert sets == sets_anew, shape_row
        assert nearest.tolist() == nearest_anew.tolist(), shape_row


def check_asks_to_be_woken(said: Iterable[AnyInstruction], ends_us: Collection[int], at_us: int) -> None:
    """The engine asks to be woken when the first pause ends."""
    wakes_us = [one.at_us for one in said if isinstance(one, RequeueAfter)]
    if ends_us:
        assert wakes_us, "pods pause, and the engine does not ask to be woken"
        assert at_us < wakes_us[0] <= min(ends_us)
