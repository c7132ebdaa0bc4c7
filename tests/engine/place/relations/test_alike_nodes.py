"""Nodes with alike devices are asked as one, and answer what each of them would say alone."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import (
    DeviceChoice,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
)
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.results import AllocatedDevice, Allocation, Refusal
from gpufleet.dra_allocation.slices import (
    Device,
    DeviceId,
    DeviceTaint,
    NodeFacts,
    NodeReach,
    PoolPart,
    ResourceSlice,
)
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.place.relations.device_catalogue import DeviceCatalogue, NodeDevices
from gpufleet.engine.place.relations.device_claims import DeviceClaims
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.labels import NodeTerm, Operator, Requirement
from gpufleet.model.node import Node
from tests.engine.fleet_builder import node

DRIVER = "gpu.nvidia.com"
NIC_DRIVER = "nic.example.com"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NODES = 12
IS_GPU = f'device.attributes["{DRIVER}"].?type.orValue("") == "gpu"'


def asked(name: str, count: int | None, *selectors: str, constraint: str = "") -> ResourceClaim:
    """A claim for GPUs."""
    request = DeviceRequest("gpus", (DeviceChoice("gpu", count=count, selectors=selectors),))
    constraints = (DeviceConstraint(constraint),) if constraint else ()
    return ResourceClaim("team", name, (request,), constraints)


def with_nic(name: str) -> ResourceClaim:
    """A claim for a GPU and a network device under one switch."""
    requests = tuple(DeviceRequest(one, (DeviceChoice(one),)) for one in ("gpu", "nic"))
    return ResourceClaim("team", name, requests, (DeviceConstraint(PCIE_ROOT),))


CLAIMS = (
    asked("one", 1),
    asked("two", 2),
    asked("two-under-one-switch", 2, constraint=PCIE_ROOT),
    asked("three-under-one-switch", 3, constraint=PCIE_ROOT),
    asked("all", None),
    asked("the-first", 1, f'device.attributes["{DRIVER}"].uuid == "GPU-n3-0"'),
    asked("on-no-single-node", 1, f'device.attributes["{DRIVER}"].?uuid.orValue("") == "GPU-far"'),
    asked("all-of-one-name", None, f'device.attributes["{DRIVER}"].uuid == "GPU-n3-0"'),
    with_nic("gpu-beside-nic"),
    asked("big", 1, f'device.attributes["{DRIVER}"].model == "B200"'),
)


class Case:
    """Nodes of a few kinds, of which some devices are held."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.fleet = Fleet(TableStore())
        self.claims = DeviceClaims(self.fleet)
        self.classes = {"gpu": DeviceClass("gpu", (IS_GPU,))}
        self.classes["nic"] = DeviceClass("nic", (f'device.driver == "{NIC_DRIVER}"',))
        for one in self.classes.values():
            self.claims.catalogue.set_class(one)
        kinds = [self._kind(chance) for _ in range(3)]
        self.slices = []
        self.allocations = []
        for number in range(NODES):
            name = f"n{number}"
            self.fleet.put(node(name, labels={"switch": chance.choice("ab")}))
            self.slices += list(self._slices(name, chance.choice(kinds), chance.choice((1, 1, 1, 2))))
            nic = Device("nic-0", {PCIE_ROOT: f"{name}{chance.choice('xyz')}"})
            part = PoolPart(name, 1, 1)
            self.slices.append(ResourceSlice(f"{name}-nic", NIC_DRIVER, part, NodeReach(name), (nic,)))
            if chance.random() < 0.3:
                held = DeviceId(DRIVER, name, f"gpu-{chance.randrange(3)}")
                self.allocations.append(Allocation((AllocatedDevice("r", held),)))
        if chance.random() < 0.5:
            reach = NodeReach(term=NodeTerm((Requirement("switch", Operator.IN, ("a",)),)))
            far = Device("gpu-9", {"type": "gpu", "model": "B200", "uuid": "GPU-far"})
            self.slices.append(ResourceSlice("far", DRIVER, PoolPart("far", 1, 1), reach, (far,)))
        for part_of in self.slices:
            self.claims.catalogue.set_slice(part_of)
        for number, held_by in enumerate(self.allocations):
            self.claims.set_claim(ResourceClaim("others", str(number), ()), held_by)

    @staticmethod
    def _kind(chance: random.Random) -> list[tuple[str, str, bool]]:
        """By device of a node: what it is, under which switch, and whether it is tainted."""
        return [
            (chance.choice(("gpu", "gpu", "nic")), chance.choice("xy"), chance.random() < 0.2)
            for _ in range(chance.randrange(2, 5))
        ]

    @staticmethod
    def _slices(name: str, kind: list[tuple[str, str, bool]], count: int) -> Iterator[ResourceSlice]:
        """The slice of a node, of a pool that has ``count``: of two, one is missing."""
        devices = tuple(
            Device(
                f"gpu-{number}",
                {"type": what, "model": "H100", "uuid": f"GPU-{name}-{number}", PCIE_ROOT: f"{name}{switch}"},
                taints=(DeviceTaint("sick"),) if is_sick else (),
            )
            for number, (what, switch, is_sick) in enumerate(kind)
        )
        yield ResourceSlice(name, DRIVER, PoolPart(name, 1, count), NodeReach(name), devices)

    def serving(self, claim: ResourceClaim) -> list[str]:
        """The nodes that are found to serve a claim."""
        self.claims.set_claim(claim, None)
        reasons = self.claims.reasons((claim.path,))
        return [one.name for one, why in zip(self.fleet.nodes, reasons, strict=True) if one and why == 0]

    def serving_one_by_one(self, claim: ResourceClaim) -> list[str]:
        """The nodes that serve a claim, each of them asked."""
        index, held = SliceIndex(self.slices), HeldDevices.of(self.allocations)
        found: list[str] = []
        for one in self.fleet.nodes:
            if one is None:
                continue
            pools = index.pools(NodeFacts(one.name, one.labels))
            said = Allocator(one.name, pools, self.classes).allocate([claim], held)
            if not isinstance(said, Refusal):
                found.append(one.name)
        return found


@pytest.mark.parametrize("seed", range(20))
def test_alike_nodes_answer_as_each_of_them_alone(seed: int) -> None:
    case = Case(seed)
    for claim in CLAIMS:
        assert case.serving(claim) == case.serving_one_by_one(claim), claim.name


def test_a_node_whose_devices_are_taken_is_asked_again() -> None:
    case = Case(0)
    claim = CLAIMS[0]
    before = case.serving(claim)
    taken = before[0]
    every = tuple(
        AllocatedDevice("r", DeviceId(DRIVER, taken, device.name))
        for one in case.slices
        if one.name == taken
        for device in one.devices
    )
    case.allocations.append(Allocation(every))
    case.claims.set_claim(ResourceClaim("others", "last", ()), case.allocations[-1])
    after = case.serving(claim)
    assert after == case.serving_one_by_one(claim)
    assert set(before) - set(after) <= {taken}


def test_one_of_many_alike_nodes_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_of: list[str] = []
    allocate = Allocator.allocate

    def counted(self: Allocator, *claims: object) -> object:
        asked_of.append("")
        return allocate(self, *claims)  # type: ignore[arg-type]

    case = Case(0)
    for one in case.slices:
        case.claims.catalogue.remove_slice(one.name)
    for number in range(NODES):
        uuids = (f"GPU-{number}-{place}" for place in range(2))
        devices = tuple(
            Device(f"gpu-{place}", {"type": "gpu", "uuid": uuid}) for place, uuid in enumerate(uuids)
        )
        pool, reach = PoolPart(f"n{number}", 1, 1), NodeReach(f"n{number}")
        case.claims.catalogue.set_slice(ResourceSlice(f"n{number}", DRIVER, pool, reach, devices))
    for number in range(len(case.allocations)):
        case.claims.remove_claim(f"others/{number}")
    monkeypatch.setattr(Allocator, "allocate", counted)
    assert len(case.serving(CLAIMS[1])) == NODES
    assert len(asked_of) == 1


@pytest.mark.parametrize(
    ("words", "asked_nodes"),
    [
        (f'device.attributes["{DRIVER}"].uuid == "GPU-n3-0"', ["n3"]),
        (f'device.attributes["{DRIVER}"].?uuid.orValue("") == "GPU-n3-0"', ["n3"]),
        (f'device.attributes["{DRIVER}"].uuid == "GPU-of-no-node"', []),
        (f'device.attributes["{DRIVER}"].uuid.startsWith("GPU-n3-0")', ["n2", "n3", "n4"]),
    ],
)
def test_of_a_device_that_a_claim_names_only_its_node_is_asked(
    words: str, asked_nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(TableStore())
    claims = DeviceClaims(fleet)
    for name in ("n2", "n3", "n4"):
        fleet.put(node(name))
        listed = (Device("gpu-0", {"type": "gpu", "uuid": f"GPU-{name}-0"}),)
        claims.catalogue.set_slice(ResourceSlice(name, DRIVER, PoolPart(name, 1, 1), NodeReach(name), listed))
    claims.catalogue.set_class(DeviceClass("gpu", (IS_GPU,)))
    claims.set_claim(asked("by-name", 1, words), None)
    of_node, seen = DeviceCatalogue.of, list[str]()

    def noted(catalogue: DeviceCatalogue, one: Node) -> NodeDevices:
        seen.append(one.name)
        return of_node(catalogue, one)

    monkeypatch.setattr(DeviceCatalogue, "of", noted)
    serving = [
        fleet.node_at(row).name for row in np.flatnonzero(claims.reasons(("team/by-name",)) == 0).tolist()
    ]
    assert (seen, serving) == (asked_nodes, [name for name in asked_nodes if name == "n3"])
    # The device moves with its card to another node.
    moved = (Device("gpu-0", {"type": "gpu", "uuid": "GPU-of-no-node"}),)
    claims.catalogue.set_slice(ResourceSlice("n4", DRIVER, PoolPart("n4", 1, 1), NodeReach("n4"), moved))
    serving = [
        fleet.node_at(row).name for row in np.flatnonzero(claims.reasons(("team/by-name",)) == 0).tolist()
    ]
    assert serving == (["n4"] if not asked_nodes else ["n3"])
