"""Each turn of refreshing is bounded, and every pod that waits has its turn before any has two."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.engine.instruction import GangUnschedulable, Verdict
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.scheduler import Engine
from gpufleet.kube import resources
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.refreshing import (
    ANSWERS_A_TURN,
    MEMBERS_AN_ANSWER,
    TURN_EVERY_S,
    WRITES_A_TURN,
    Refreshing,
)
from gpufleet.scheduler.reporting import Reporter
from gpufleet.scheduler.shown_reasons import ShownReason
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.cluster.changing_cluster import SCHEDULER, Books, ChangingCluster, StoppedClock
from tests.engine.effort import seeds

GANG_SIZE = 3 * MEMBERS_AN_ANSWER


class Asked(Engine):
    """An engine that says of no pod why it waits, and notes who was asked about."""

    def __init__(self) -> None:
        super().__init__(POLICIES["best-fit"])
        self.pods: list[PodUid] = []
        self.gangs: list[GangName] = []

    def explain(self, uid: PodUid) -> Verdict | None:
        """Nothing stands in the way."""
        self.pods.append(uid)
        return None

    def explain_gang(self, name: GangName) -> GangUnschedulable | None:
        """Nothing stands in the way."""
        self.gangs.append(name)
        return None


class Noted(Reporter):
    """A reporter for which all words are news."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def still_waits(
        self,
        pod: PodName,
        _reason: str,
        _message: str,
        _cause: str,
        *,
        never_fits: bool = False,  # noqa: ARG002
    ) -> bool:
        """News."""
        self.told.append(pod.name)
        return True

    def forget_others(self, waiting: Callable[[PodUid], bool]) -> None:
        """Nothing was said."""


def as_it_is(reason: str, _: Entry) -> ShownReason:
    """No reason is shown otherwise than the verdict has it."""
    return ShownReason(reason)


def crowd(chance: Random, *, malformed: int, alone: int, in_gang: bool) -> Books:
    """Pods that cannot be understood, pods of one shape each, and a large gang, mixed up."""
    kinds = ["malformed"] * malformed + ["alone"] * alone + ["gang"] * (GANG_SIZE if in_gang else 0)
    chance.shuffle(kinds)
    cluster = ChangingCluster()
    for number, kind in enumerate(kinds):
        gang = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": "2"} if kind == "gang" else {}
        metadata = {"name": f"{kind}-{number}", "namespace": "team", "uid": str(number), "annotations": gang}
        requests = {"cpu": f"{number + 1}m" if kind == "alone" else "1"}
        limits = {"nvidia.com/gpu": "many" if kind == "malformed" else "1"}
        containers = [{"name": "main", "resources": {"requests": requests, "limits": limits}}]
        spec = {"schedulerName": SCHEDULER, "containers": containers}
        cluster.put(resources.PODS, Pod, {"metadata": metadata, "spec": spec})
    books = Books(cluster)
    books.round(cluster.take())
    return books


@pytest.mark.parametrize("seed", seeds(12))
def test_every_turn_is_bounded_and_every_pod_has_its_turn_before_any_has_two(seed: int) -> None:
    chance = Random(seed)
    malformed, alone, in_gang = chance.randint(1, 200), chance.randint(0, 60), chance.random() < 0.5
    books = crowd(chance, malformed=malformed, alone=alone, in_gang=in_gang)
    engine, reporter = Asked(), Noted()
    refreshing = Refreshing(engine, books.pods, reporter, StoppedClock(), lambda: False, as_it_is)
    # A gang is asked about once a turn in which one of its members has its turn.
    a_gang = 1 + GANG_SIZE // MEMBERS_AN_ANSWER
    for _ in range(100):
        before = len(reporter.told), len(engine.pods), len(engine.gangs)
        refreshing.turn()
        gangs_asked = len(engine.gangs) - before[2]
        answers = len(engine.pods) - before[1] + a_gang * gangs_asked
        assert len(reporter.told) - before[0] <= WRITES_A_TURN
        assert answers < ANSWERS_A_TURN + a_gang
        assert len(engine.pods) - before[1] <= ANSWERS_A_TURN
        assert gangs_asked <= 1
        turns = Counter([*reporter.told, *engine.pods])
        if max(turns.values(), default=0) > 1:
            break
    assert len(turns) == malformed + alone
    assert in_gang == bool(engine.gangs)


def test_no_turn_is_taken_while_something_more_urgent_is_under_way() -> None:
    books = crowd(Random(0), malformed=3 * WRITES_A_TURN, alone=0, in_gang=False)
    reporter, binds = Noted(), [1]

    async def work(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        refreshing = Refreshing(Asked(), books.pods, reporter, clock, lambda: bool(binds), as_it_is)
        life = asyncio.create_task(refreshing.run())
        await clock.sleep(10 * TURN_EVERY_S)
        assert not reporter.told
        binds.clear()
        # The first turn only finds out who waits.
        await clock.sleep(3 * TURN_EVERY_S)
        assert len(reporter.told) == 2 * WRITES_A_TURN
        life.cancel()

    run(work, 0)
