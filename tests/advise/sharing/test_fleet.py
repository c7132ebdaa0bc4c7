"""Fleets of measured cards: each GPU at its index, and what is not free takes nobody."""

from fractions import Fraction

from gpufleet.advise.sharing.fleet import fleet_of
from gpufleet.advise.sharing.manifest import agent_config, node_pools
from gpufleet.advise.sharing.pools import plan
from gpufleet.model.device import Serves
from gpufleet.usage.measured_cards import Card, Host
from gpufleet.usage.samples import SampleKind
from tests.advise.sharing.measured import A100, CARD_MIB, busy, workload


def test_each_gpu_stands_at_its_index() -> None:
    (node,) = fleet_of([Card("n", 3, A100), Card("n", 0, A100, is_free=False), Card("n", 1, "T4")], {})
    assert [device.id for device in node.devices] == ["n/0", "n/1", "n/2", "n/3"]
    # Of index 2 nothing was measured.
    assert [device.serves for device in node.devices] == [
        Serves.NOTHING,
        Serves.ANY,
        Serves.NOTHING,
        Serves.ANY,
    ]
    assert (node.devices[3].model, node.devices[1].model) == (A100, "T4")
    assert node.devices[3].memory_mib == CARD_MIB


def test_nodes_are_apart() -> None:
    nodes = fleet_of([Card("b", 0, A100), Card("a", 0, A100)], {"a": Host(4000, 10)})
    assert [(node.name, len(node.devices)) for node in nodes] == [("a", 1), ("b", 1)]
    assert [(node.allocatable.cpu_milli, node.allocatable.memory_bytes) for node in nodes] == [
        (4000, 10 * 2**20),
        (0, 0),
    ]


def test_the_configuration_names_the_card_and_not_its_turn() -> None:
    nodes = fleet_of([Card("n", 0, A100, is_free=False), Card("n", 1, A100), Card("n", 2, A100)], {})
    found = plan([workload("nb", busy(5), busy(5), kind=SampleKind.NOTEBOOK)], nodes, Fraction(1, 20))
    assert "- {gpus: [1], timeSlice: {replicas: 2," in agent_config(node_pools(found))
