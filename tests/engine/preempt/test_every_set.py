"""Among few candidates every set is asked, the cheapest first, and only sets that hold what is short."""

from collections import Counter
from collections.abc import Sequence

import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.preempt.every_set import PROOFS_MAX, EverySet
from gpufleet.engine.preempt.proof import Placements, Proof
from gpufleet.model.identifiers import PodUid
from tests.engine.fleet_builder import Story, evicted, gang, node, pod, refused, shape
from tests.engine.preempt.test_reclaim import two_teams, work


class Watch:
    """Counts searches among all sets and their proofs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proofs: list[int] = []
        self.cut: list[bool] = []
        find, fits_without = EverySet.find, Proof.fits_without

        def found(every: EverySet) -> object:
            self.proofs.append(0)
            answer = find(every)
            self.cut.append(every.is_cut)
            return answer

        def counted(
            proof: Proof, rows: list[int], nodes: Int64Array = NO_NODES, *, judged: bool = True
        ) -> Placements:
            if len(self.proofs) > len(self.cut):
                self.proofs[-1] += 1
            return fits_without(proof, rows, nodes, judged=judged)

        monkeypatch.setattr(EverySet, "find", found)
        monkeypatch.setattr(Proof, "fits_without", counted)


def test_sets_that_hold_too_little_are_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod needs the quota of six GPUs, which six pods of one GPU have borrowed: of 63 sets only that of all
    six holds enough. So one proof is made.
    """
    told = two_teams(gpus=6, a=6, b=0)
    told.nodes(node("n1", 4))
    told.arrive(*work("b", 10))
    watch = Watch(monkeypatch)
    assert len(evicted(told.arrive(*work("a", 1, shape(6))))) == 6
    assert watch.proofs == [1]


def test_sets_that_hold_too_little_for_a_gang_are_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pods of four GPUs need all eight pods of one GPU."""
    told = two_teams(gpus=4, a=8, b=0)
    told.nodes(node("n1", 4))
    told.arrive(*work("b", 8))
    watch = Watch(monkeypatch)
    pods = [pod(f"g{number}", shape(4), queue="a", gang="g") for number in range(2)]
    assert len(evicted(told.happen(event.GangSet(gang("g", 2, queue="a")), *map(event.PodAdded, pods)))) == 8
    assert watch.proofs == [1]


def test_where_many_sets_are_unjust_the_search_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """a and b own more than there is: a is owed four GPUs, b has borrowed two. So each set of four pods of b
    or more holds enough, and none may go.
    """
    told = two_teams(gpus=10, a=4, b=8)
    told.arrive(*work("b", 10))
    watch = Watch(monkeypatch)
    said = told.arrive(*work("a", 1, shape(4)))
    assert evicted(said) == {}
    assert refused(said) == ["a0"]
    assert watch.cut == [True]
    assert watch.proofs == [1 + PROOFS_MAX]


def test_pods_that_leave_are_released_once_for_many_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty pods leave, and 257 sets of others are tried: once all of them together, and then one by one."""
    told = two_teams(gpus=10, a=4, b=8)
    told.arrive(*work("b", 10), *(pod(f"ends{number}", queue="b") for number in range(20)))
    told.told_to_end(*(f"ends{number}" for number in range(20)))
    watch, released = Watch(monkeypatch), Counter[int]()
    release_all = Trial.release_all

    def counted(trial: Trial, rows: Sequence[int], *, uncharged: bool = False) -> None:
        if len(watch.proofs) > len(watch.cut):
            released.update(rows)
        release_all(trial, rows, uncharged=uncharged)

    monkeypatch.setattr(Trial, "release_all", counted)
    assert refused(told.arrive(*work("a", 1, shape(4)))) == ["a0"]
    assert watch.proofs == [1 + PROOFS_MAX]
    row_by_uid = told.engine.state.pods.row_by_uid
    assert {released[row_by_uid[PodUid(f"ends{number}")]] for number in range(20)} == {1}


def test_two_small_pods_of_low_priority_go_rather_than_a_large_one_above_them() -> None:
    told = Story()
    told.queue("team")
    told.nodes(node("n0", 3))
    told.arrive(
        pod("large", shape(2), queue="team", priority=1),
        pod("small", shape(1), queue="team"),
    )
    told.nodes(node("n1", 2))
    told.arrive(pod("low-0", shape(1), queue="team"), pod("low-1", shape(1), queue="team"))
    said = told.arrive(pod("high", shape(2), queue="team", priority=2))
    assert set(evicted(said)) == {"low-0", "low-1"}
