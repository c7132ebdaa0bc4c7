"""A fleet that is read once, and then told of new nodes, is the fleet that is read anew with them."""

import msgspec
import pytest

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import keys, resources
from gpufleet.plan.purchased_nodes import Adding, PurchasedNodes
from gpufleet.whatif.nodes import add_nodes
from gpufleet.whatif.request import AddNodes
from tests.cluster.snapshots.small_snapshots import AT, Fleet

SETTINGS = Settings(identity="test")
H100 = AddNodes("eight", 1, gpus=8, model="H100-80GB", name="eight", labels=(("rack", "new"),))
L4 = AddNodes("small", 1, gpus=4, model="L4", name="small", sharing="mixed")


def a_fleet() -> Fleet:
    fleet = Fleet()
    for number in range(3):
        fleet.node(f"n{number}", gpus=4)
        fleet.pod(f"runs-{number}", gpus=2, node=f"n{number}", job=f"runs-{number}")
    for member in range(2):
        fleet.pod(f"waits-{member}", gpus=8, job="waits", gang=2)
    return fleet


def read_once(fleet: Fleet) -> PurchasedNodes:
    types = [adding(one) for one in (H100, L4)]
    return PurchasedNodes(Facts(fleet.picture.copied(), SETTINGS, Moment(AT)), types)


def adding(wanted: AddNodes) -> Adding:
    def add(picture: Picture, count: int) -> None:
        add_nodes(picture, msgspec.structs.replace(wanted, count=count))

    return add


def read_anew(fleet: Fleet, eights: int, smalls: int) -> Facts:
    picture = fleet.picture.copied()
    for wanted, count in ((H100, eights), (L4, smalls)):
        if count:
            adding(wanted)(picture, count)
    return Facts(picture, SETTINGS, Moment(AT))


@pytest.mark.parametrize("counts", [[(0, 0), (3, 0), (1, 2)], [(2, 5), (0, 1), (4, 7), (0, 0)]])
def test_all_that_the_engine_hears_is_the_same(counts: list[tuple[int, int]]) -> None:
    fleet = a_fleet()
    once = read_once(fleet)
    for eights, smalls in counts:
        facts = once.facts_with((eights, smalls))
        assert facts is not None
        assert facts.waves == read_anew(fleet, eights, smalls).waves


def test_a_fleet_whose_topology_new_nodes_change_is_to_be_read_anew() -> None:
    fleet = a_fleet()
    fleet.pod("near", gpus=1, job="near", gang=1)
    near = fleet.picture.find(resources.PODS, "near", "default")
    assert near is not None
    near.metadata.annotations[keys.KUEUE_TOPOLOGY_REQUIRED] = "rack"
    assert read_once(fleet).facts_with((1, 0)) is None


def test_a_fleet_without_nodes_is_to_be_read_anew() -> None:
    assert read_once(Fleet()).facts_with((1, 0)) is None
    assert read_once(Fleet()).facts_with((0, 0)) is not None
