"""The seam for preemption: a search of one's own that proves its victims on a trial."""

from collections.abc import Iterable, Sequence

from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import placement_of
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload
from gpufleet.model.identifiers import PodUid
from gpufleet.model.queue import Queue
from tests.engine.arrays.test_journal import snapshot
from tests.engine.fleet_builder import Story, evicted, node, nominated, placed, pod, shape, share


class LowestFirst:
    """Evicts running pods of lower priority, the lowest first, as few as will do."""

    runs = 0

    def find(self, asking: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan:
        """Releases one after the other until the refused pod fits."""
        refused = state.pods.pod_at(asking.row)
        pods = [state.pods.pod_at(row) for rows in state.pods.on_node.values() for row in rows]
        victims: list[PodUid] = []
        with state.trial() as trial:
            for victim in sorted(pods, key=lambda one: (one.priority, one.uid)):
                if victim.priority >= refused.priority:
                    break
                trial.release(victim.uid)
                victims.append(victim.uid)
                if trial.place_pod(refused.uid):
                    return EvictionPlan((placement_of(state, asking.row),), tuple(victims), tuple(victims))
        return NoEvictionPlan()

    def finds_none(self, _priority: int, _queue: Queue, _state: EngineState, *, lacks_quota: bool) -> bool:
        """Nothing is known before pods are looked at."""
        del lacks_quota
        return False

    def finds_none_in_fleet(self, _kinds: Iterable[tuple[Queue, int]], _state: EngineState) -> bool:
        """Nothing is known before pods are looked at."""
        return False

    def finds_none_beside(self, _rows: Sequence[int], _reserved: Sequence[int], _state: EngineState) -> bool:
        """Nothing is known before pods are looked at."""
        return False

    def has_rule_for(self, _asking: UnplacedWorkload, _state: EngineState) -> bool:
        """Every workload may."""
        return True

    def evictable(self, asking: UnplacedWorkload, state: EngineState) -> set[int]:
        """All pods of lower priority."""
        least = state.pods.pod_at(asking.row).priority
        rows = [row for rows in state.pods.on_node.values() for row in rows]
        return {row for row in rows if state.pods.pod_at(row).priority < least}


def test_victims_are_proven_and_the_pod_runs_when_they_are_gone() -> None:
    told = Story(victims=LowestFirst())
    told.nodes(node("n", 2))
    told.arrive(pod("low", shape(1), priority=1), pod("high", shape(1), priority=7))
    said = told.arrive(pod("urgent", shape(1), priority=5))
    assert evicted(said) == {"low": "urgent"}
    assert nominated(said) == {"urgent": ("n", ("low",))}
    assert placed(said) == []
    assert placed(told.depart("low")) == ["urgent"]


def test_nobody_is_evicted_where_it_would_not_help() -> None:
    told = Story(victims=LowestFirst())
    told.nodes(node("n", 2))
    told.arrive(pod("low", shape(1), priority=1), pod("equal", shape(1), priority=5))
    assert evicted(told.arrive(pod("pair", shape(2), priority=5))) == {}
    assert evicted(told.arrive(pod("four", shape(4), priority=9))) == {}


def test_a_search_leaves_no_trace_in_the_arrays() -> None:
    told = Story(victims=LowestFirst())
    told.nodes(node("n", 2), node("m", 2))
    told.arrive(*(pod(f"s{number}", share(500), priority=number) for number in range(8)))
    before = snapshot(told.engine.state.store.tables)
    told.arrive(pod("urgent", shape(2), priority=9))
    told.depart("urgent")
    after = snapshot(told.engine.state.store.tables)
    assert {key: after[key] for key in ("nodes", "devices", "kinds", "resources_free")} == {
        key: before[key] for key in ("nodes", "devices", "kinds", "resources_free")
    }


def test_a_trial_cannot_release_what_holds_nothing_nor_place_what_has_a_place() -> None:
    told = Story()
    told.nodes(node("n", 2), node("gone", 2))
    told.run_on(pod("lost", shape(1)), "gone", "gone/0")
    told.lose("gone")
    told.arrive(pod("runs", shape(1)))
    before = snapshot(told.engine.state.store.tables)
    with told.engine.state.trial() as trial:
        trial.release(PodUid("lost"))
        assert not trial.place_pod(PodUid("runs"))
        assert snapshot(told.engine.state.store.tables) == before
