"""What counts as held on a card: what containers have, what was granted, and in doubt all of it."""

import pytest

from gpufleet.agent.mig.held_on_card import held_on_card
from gpufleet.agent.mig.layout_changer import HeldOnCard
from gpufleet.agent.state.node_state import Holders, NodePod
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.sharing.plan import Mig
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from tests.agent.node_values import a_gpu, a_grant, a_node, a_pod, by_uid, held
from tests.mig.mig_cards import at

RESOURCE = "nvidia.com/mig-1g.10gb"
FIRST, SECOND = MigFacts("MIG-1", "1g.10gb", 0, 1, 0), MigFacts("MIG-2", "1g.10gb", 1, 2, 0)
UNPLACED = MigFacts("MIG-3", "1g.10gb", None, 3, 0)
CARD, OTHER = a_gpu("GPU-0", Mig(()), mig=(FIRST, SECOND, UNPLACED)), a_gpu("GPU-1")
NODE = a_node(CARD, OTHER)
ALL = HeldOnCard(card=True)
GRANTED = GrantedDevice(DeviceId("GPU-0"), GrantKind.MIG, mig_profile="1g.10gb", mig_start=1)


@pytest.mark.parametrize(
    ("holders", "pods", "found"),
    [
        ((), (), HeldOnCard()),
        ((held("a", RESOURCE, "MIG-1"),), (), HeldOnCard(frozenset(at("1g.10gb@0")))),
        ((held("a", RESOURCE, "MIG-1::3"),), (), HeldOnCard(frozenset(at("1g.10gb@0")))),
        ((held("a", "nvidia.com/gpu", "GPU-1"),), (), HeldOnCard()),
        ((held("a", "nvidia.com/gpu", "GPU-0"),), (), ALL),
        ((held("a", RESOURCE, "MIG-3"),), (), ALL),
        ((held("a", RESOURCE, "MIG-of-no-card"),), (), ALL),
        ((held("a", RESOURCE),), (), ALL),
        ((), (a_pod("a", a_grant(GRANTED)),), HeldOnCard(frozenset(at("1g.10gb@1")))),
        ((), (a_pod("a", a_grant(GRANTED), finished=True),), HeldOnCard()),
        ((), (a_pod("a", a_grant(GrantedDevice(DeviceId("GPU-0")))),), ALL),
        ((), (a_pod("a", requests={"main": {RESOURCE: 1}}),), ALL),
        ((), (a_pod("a", requests={"main": {"cpu": 1}}),), HeldOnCard()),
    ],
)
def test_what_is_held(holders: Holders, pods: tuple[NodePod, ...], found: HeldOnCard) -> None:
    assert held_on_card(CARD, NODE, holders, by_uid(*pods)) == found
