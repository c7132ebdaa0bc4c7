"""What does not change about NVIDIA's cards, as their library tells it."""

import pytest

from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.facts import Engines, Link, MigFacts
from gpufleet.devices.nvidia.backend import NvidiaBackend
from gpufleet.model.gpu_catalogue import Vendor
from tests.devices.nvidia.machine import Machine


def test_the_driver_has_its_versions(backend: NvidiaBackend) -> None:
    driver = backend.fleet().driver
    assert driver.vendor is Vendor.NVIDIA
    assert (driver.version, driver.runtime_version) == ("580.95.05", "13.0")
    assert driver.vendor_library_version == "13.580.95.05"


def test_a_card_has_all_its_facts(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    uuid = machine.add(fabric="3 0 7 000102030405060708090a0b0c0d0e0f")
    machine.numa_node(1, 1)
    gpu = backend.fleet().gpus[1]
    assert (gpu.uuid, gpu.vendor, gpu.index, gpu.minor) == (uuid, Vendor.NVIDIA, 1, 1)
    assert (gpu.product, gpu.serial) == ("NVIDIA H100 80GB HBM3", "1650001")
    assert (gpu.memory_mib, gpu.reserved_mib) == (81559, 551)
    assert (gpu.pci_bus_id, gpu.numa_node) == ("00000000:1C:00.0", 1)
    assert (gpu.compute_capability, gpu.multiprocessors) == ((9, 0), 132)
    assert (gpu.architecture, gpu.brand) == ("Hopper", "NVIDIA")
    assert gpu.clique == "00010203-0405-0607-0809-0a0b0c0d0e0f.7"
    assert (gpu.mig_enabled, gpu.mig) == (False, ())
    assert gpu.device_nodes == ("/dev/nvidia1",)


def test_what_a_card_does_not_tell_is_absent(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    machine.bare(0)
    gpu = backend.fleet().gpus[0]
    assert (gpu.product, gpu.mig, gpu.device_nodes) == ("", (), ())
    absent = ["minor", "memory_mib", "reserved_mib", "pci_bus_id", "serial", "numa_node", "clique"]
    absent += ["compute_capability", "multiprocessors", "architecture", "brand", "mig_enabled"]
    assert [getattr(gpu, name) for name in absent] == [None] * len(absent)


def test_multiprocessors_of_an_unknown_generation_are_not_guessed(
    backend: NvidiaBackend, machine: Machine
) -> None:
    machine.add(capability="99.0")
    assert backend.fleet().gpus[0].multiprocessors is None


@pytest.mark.parametrize(
    ("sysfs", "affinity", "node"),
    [(1, 0b1, 1), (-1, 0b1, None), (None, 0b100, 2), (None, 0b11, None), (None, None, None)],
)
def test_the_numa_node_is_the_processors(
    backend: NvidiaBackend, machine: Machine, sysfs: int | None, affinity: int | None, node: int | None
) -> None:
    machine.add(affinity=affinity)
    if sysfs is not None:
        machine.numa_node(0, sysfs)
    assert backend.fleet().gpus[0].numa_node == node


@pytest.mark.parametrize(
    "fabric",
    [
        "2 0 7 000102030405060708090a0b0c0d0e0f",  # still joining
        "3 999 7 000102030405060708090a0b0c0d0e0f",  # joined with an error
        "3 0 0 00000000000000000000000000000000",  # no cluster
    ],
)
def test_a_card_outside_of_a_fabric_has_no_clique(
    backend: NvidiaBackend, machine: Machine, fabric: str
) -> None:
    machine.add(fabric=fabric)
    assert backend.fleet().gpus[0].clique is None


@pytest.mark.parametrize(
    ("ancestor", "link"),
    [
        (0, Link.BOARD),
        (10, Link.SINGLE_SWITCH),
        (20, Link.MULTIPLE_SWITCHES),
        (30, Link.HOST_BRIDGE),
        (40, Link.NUMA_NODE),
        (50, Link.SYSTEM),
        (None, Link.UNKNOWN),
    ],
)
def test_cards_reach_each_other_over_what_they_share(
    backend: NvidiaBackend, machine: Machine, ancestor: int | None, link: Link
) -> None:
    one, other = machine.add(), machine.add()
    machine.pair(0, 1, ancestor=ancestor, p2p=5)
    fleet = backend.fleet()
    assert fleet.link(one, other) is fleet.link(other, one) is link


def test_nvlink_goes_before_the_board(backend: NvidiaBackend, machine: Machine) -> None:
    bridged, to_it, switched, to_switch = (machine.add() for _ in range(4))
    machine.card(0, {"link.0": "down", "link.1": machine.pci(1)})
    machine.pair(0, 1, ancestor=50)
    machine.pair(2, 3, ancestor=50, p2p=0)
    fleet = backend.fleet()
    assert fleet.link(bridged, to_it) is Link.DIRECT
    assert fleet.link(switched, to_switch) is Link.DIRECT
    assert (min(bridged, switched), max(bridged, switched)) not in fleet.links


def test_a_cut_card_lists_its_instances(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    machine.add(mig_mode=1)
    small = machine.instance(1, 2, start=6)
    large = machine.instance(1, 5, gi=2, ci=1, name="NVIDIA H100 MIG 1c.3g.40gb", multiprocessors=60)
    machine.file(
        "proc/driver/nvidia-caps/mig-minors",
        "config 1\nmonitor 2\ngpu1/gi9/access 30\ngpu1/gi9/ci0/access 31\ngpu0/gi2/access 12\n",
    )
    gpu = backend.fleet().gpus[1]
    assert gpu.mig_enabled is True
    nodes = ("/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31")
    assert gpu.mig == (
        MigFacts(small, "1g.10gb", 6, 9, 0, 9984, 16, nodes, Engines(1, 1, 0, 1, 0)),
        MigFacts(large, "1c.3g.40gb", 5, 2, 1, 9984, 60, (), Engines(1, 1, 0, 1, 0)),
    )


def test_where_an_instance_lies_may_not_be_told(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add(mig_mode=1, **{"fail.nvmlDeviceGetGpuInstanceById": 4})
    machine.instance(0, 0)
    assert backend.fleet().gpus[0].mig[0].start is None


def test_a_lost_card_is_not_listed_and_the_others_are(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add(lost=1)
    well = machine.add()
    assert [gpu.uuid for gpu in backend.fleet().gpus] == [well]


def test_a_call_that_fails_hides_only_its_own_fact(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add(**{"fail.nvmlDeviceGetSerial": 999})
    gpu = backend.fleet().gpus[0]
    assert (gpu.serial, gpu.memory_mib) == (None, 81559)


def test_a_driver_that_goes_away_lists_nothing_and_says_so(backend: NvidiaBackend, machine: Machine) -> None:
    machine.add()
    machine.tells(**{"fail.nvmlDeviceGetCount": 9})
    with pytest.raises(
        DriverError, match="the kernel's module is not loaded: load it with `modprobe nvidia`"
    ):
        backend.fleet()
