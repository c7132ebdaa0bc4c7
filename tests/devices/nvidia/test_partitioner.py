"""NVML's calls for MIG, against the fake library: it refuses what a driver refuses."""

import ctypes
from collections.abc import Iterator

import pytest

from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.nvidia.partitioner import NvidiaPartitioner
from gpufleet.devices.nvidia.refusals import NotGivenError
from gpufleet.devices.partitioner import make_call
from gpufleet.mig.card_state import CardState, GpuInstance
from gpufleet.mig.change import LayoutChange, Reached, layout_of, next_call
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from tests.devices.nvidia.machine import Machine
from tests.mig.mig_cards import H100, at

RESETS: list[DeviceId] = []


@pytest.fixture
def partitioner(library: ctypes.CDLL, machine: Machine) -> Iterator[NvidiaPartitioner]:
    """What cuts the cards; the library is let go after each call."""
    assert machine.state.exists()
    RESETS.clear()
    yield NvidiaPartitioner(RESETS.append)
    assert library.fakeInitialised() == 0


def change_to(
    partitioner: NvidiaPartitioner, card: DeviceId, before: Layout | None, wanted: Layout | None
) -> int:
    """Make the calls of a change, and say how many there were."""
    change = LayoutChange(card, before, wanted)
    for count in range(100):
        call = next_call(change, partitioner.card_state(card), H100)
        if isinstance(call, Reached):
            return count
        make_call(partitioner, card, call)  # type: ignore[arg-type]
    raise AssertionError("no end")


def test_a_card_is_cut_and_cut_anew_and_whole_again(machine: Machine, partitioner: NvidiaPartitioner) -> None:
    card = machine.add()
    assert partitioner.card_state(card) == CardState(mig_enabled=False, pending_mode=False)
    first, second = at("4g.40gb@0", "3g.40gb@4"), at("1g.20gb@0", "2g.20gb@2", "3g.40gb@4")
    assert change_to(partitioner, card, None, first) == 1 + 2 * 2
    assert layout_of(partitioner.card_state(card)) == first
    assert change_to(partitioner, card, first, second) == 2 + 2 * 2
    assert layout_of(partitioner.card_state(card)) == second
    assert change_to(partitioner, card, second, None) == 3 * 2 + 1
    assert partitioner.card_state(card) == CardState(mig_enabled=False, pending_mode=False)


def test_each_plain_profile_is_made_at_its_last_start(
    machine: Machine, partitioner: NvidiaPartitioner
) -> None:
    card = machine.add()
    before: Layout | None = None
    for profile in H100.plain_profiles:
        wanted = at(f"{profile.name}@{profile.starts[-1]}")
        change_to(partitioner, card, before, wanted)
        assert layout_of(partitioner.card_state(card)) == wanted
        before = wanted


def test_a_half_made_instance_is_seen(machine: Machine, partitioner: NvidiaPartitioner) -> None:
    card = machine.add(mig_mode=1)
    (place,) = at("3g.40gb@4")
    partitioner.make_gpu_instance(card, place)
    state = partitioner.card_state(card)
    assert state.gpu_instances == (GpuInstance(1, place),)
    assert layout_of(state) == ()


def test_what_has_processes_is_in_use(machine: Machine, partitioner: NvidiaPartitioner) -> None:
    whole = machine.add(compute="7:100")
    assert partitioner.card_state(whole).in_use
    cut = machine.add(mig_mode=1)
    change_to(partitioner, cut, (), at("1g.10gb@0", "1g.10gb@1"))
    text = machine.state.read_text(encoding="ascii")
    used = text.replace("gpu.1.mig.1.compute \n", "gpu.1.mig.1.compute 7:100\n")
    assert used != text
    machine.state.write_text(used, encoding="ascii")
    found = {one.place.start: one.in_use for one in partitioner.card_state(cut).gpu_instances}
    assert found == {0: False, 1: True}
    with pytest.raises(DriverError, match="in use by another client"):
        partitioner.remove_compute_instance(cut, 2, 0)


def test_processes_that_the_driver_does_not_tell_keep_a_card_as_it_is(
    machine: Machine, partitioner: NvidiaPartitioner
) -> None:
    card = machine.add(compute=None)
    with pytest.raises(NotGivenError, match="nvmlDeviceGetComputeRunningProcesses"):
        partitioner.card_state(card)


def test_the_driver_refuses_with_reasons(machine: Machine, partitioner: NvidiaPartitioner) -> None:
    card = machine.add(mig_mode=1)
    change_to(partitioner, card, (), at("3g.40gb@4"))
    with pytest.raises(DriverError, match="out of something"):
        partitioner.make_gpu_instance(card, at("2g.20gb@4")[0])
    with pytest.raises(DriverError, match=r"no 2g\.20gb begins at 6"):
        partitioner.make_gpu_instance(card, at("2g.20gb@6")[0])
    with pytest.raises(DriverError, match=r"no profile 5g\.50gb, but 1g\.10gb, "):
        partitioner.make_gpu_instance(card, at("5g.50gb@0")[0])
    with pytest.raises(DriverError, match="in use by another client"):
        partitioner.remove_gpu_instance(card, 1)
    with pytest.raises(DriverError, match="in use by another client"):
        partitioner.set_mode(card, enabled=False)
    with pytest.raises(DriverError, match="no GPU instance 5"):
        partitioner.make_compute_instance(card, 5)


def test_what_is_gone_already_is_removed(machine: Machine, partitioner: NvidiaPartitioner) -> None:
    card = machine.add(mig_mode=1)
    partitioner.remove_compute_instance(card, 1, 0)
    partitioner.remove_gpu_instance(card, 1)
    assert partitioner.card_state(card).gpu_instances == ()


def test_a_reset_goes_the_given_way(machine: Machine, partitioner: NvidiaPartitioner) -> None:
    card = machine.add()
    partitioner.reset(card)
    assert [card] == RESETS
