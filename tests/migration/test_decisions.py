"""Imported queues in the engine: how much each may use is what the other system's documents say, by hand.

Nobody evicts here: what is asked is how far a queue gets.
"""

from pathlib import Path

import msgspec

from gpufleet.engine.instruction import Bind
from gpufleet.engine.preempt.victims import NoVictims
from gpufleet.kube.codec.fleet_queues import read_fleet_queue
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.migration.command import from_files
from gpufleet.migration.sources import read_documents
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import Story, node, pod, shape

CASES = Path(__file__).parent / "cases"
CORE = shape(cpu_milli=1000)
GPU = shape(1)


class Imported:
    """A large fleet with the queues of a case."""

    def __init__(self, case: str) -> None:
        self.story = Story(victims=NoVictims())
        self.story.nodes(node("n", 64, model="H100-80GB", cpu_milli=1_000_000, pods=1000))
        found = from_files(case.partition("-")[0], [str(CASES / f"{case}.yaml")]).manifests
        written = [msgspec.convert(one.body, FleetQueue) for one in read_documents(found.encode(), "")]
        self.story.queues(*(read_fleet_queue(one).queue for one in written))
        self.number = 0

    def starts(self, queue: str, count: int, needs: Shape) -> int:
        """How many of so many pods start."""
        names = [f"{queue}-{self.number + index}" for index in range(count)]
        self.number += count
        said = self.story.arrive(*(pod(name, needs, queue=queue) for name in names))
        return sum(isinstance(one, Bind) for one in said)


def test_a_borrowing_limit_of_kueue() -> None:
    # 9 of its own and 1 of its cohort's, which has 21 in all.
    fleet = Imported("kueue-old-names")
    assert fleet.starts("team-a", 30, CORE) == 10
    assert fleet.starts("team-b", 30, CORE) == 11


def test_what_a_cohort_of_kueue_has_idle_is_borrowed_without_a_limit() -> None:
    fleet = Imported("kueue-old-names")
    assert fleet.starts("team-b", 30, CORE) == 21
    assert fleet.starts("team-a", 30, CORE) == 0


def test_kueues_flavors_together() -> None:
    assert Imported("kueue-shared-quota").starts("team-cluster-queue", 30, CORE) == 18


def test_a_limit_of_kai_holds_above_its_quota() -> None:
    # A quota of 1.5 GPUs and a limit of 4, and a quota of 1.5 cores and a limit of 2.
    assert Imported("kai-departments").starts("research-team", 10, shape(1, cpu_milli=100)) == 4
    assert Imported("kai-departments").starts("research-team", 10, GPU) == 2


def test_elastic_quotas_share_the_sum_of_their_minimums() -> None:
    # 1 and 4 of the minimums; the maximum of one is 2, that of the other 6.
    fleet = Imported("elasticquota-two-teams")
    assert fleet.starts("team-b", 10, GPU) == 5
    assert fleet.starts("test", 10, GPU) == 0
    fleet = Imported("elasticquota-two-teams")
    assert fleet.starts("test", 10, GPU) == 2
    assert fleet.starts("team-b", 10, GPU) == 3


def test_a_guarantee_of_volcano_is_kept_free() -> None:
    # The root has 16 GPUs. Of team-a's 8 deserved ones 2 are guaranteed, so team-b leaves 2 free.
    fleet = Imported("volcano-capacity")
    assert fleet.starts("team-b", 64, GPU) == 14
