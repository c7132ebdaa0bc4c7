"""Who is on NVIDIA's cards."""

import pytest

from gpufleet.devices.device_errors import GpuLostError
from gpufleet.devices.nvidia.backend import NvidiaBackend
from gpufleet.devices.sample import ProcessUse
from tests.devices.nvidia.machine import Machine

NOW_US = 1_000_000_000
"""The time of day of the fixture's backend."""


def test_who_computes_and_who_draws(backend: NvidiaBackend, machine: Machine) -> None:
    busy = f"10:30:{NOW_US - 900_000} 10:40:{NOW_US - 100_000} 11:5:{NOW_US - 10_000_000}"
    uuid = machine.add(compute="10:500 11:100", graphics="11:100 12:50", process_busy=busy)
    assert backend.processes(uuid) == (
        ProcessUse(10, 500, 40),
        ProcessUse(11, 100, 0),
        ProcessUse(12, 50, 0),
    )


def test_nobody_is_an_answer_and_no_answer_is_not_nobody(backend: NvidiaBackend, machine: Machine) -> None:
    empty, silent = machine.add(), machine.add(compute=None, graphics=None)
    assert backend.processes(empty) == ()
    assert backend.processes(silent) is None


def test_what_is_not_told_of_a_process_is_absent(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(compute="10", graphics=None, process_busy=None)
    assert backend.processes(uuid) == (ProcessUse(10),)


def test_more_than_all_of_a_card_is_no_measurement(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(compute="10:1", process_busy=f"10:4294967295:{NOW_US}")
    assert backend.processes(uuid) == (ProcessUse(10, 1, None),)


def test_processes_of_a_cut_card_are_on_its_instances(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(mig_mode=1, compute="10:500 11:600")
    first = machine.instance(0, 0, compute="10:500")
    machine.instance(0, 1)
    third = machine.instance(0, 2, compute="11:600")
    assert backend.processes(uuid) == (
        ProcessUse(10, 500, None, first),
        ProcessUse(11, 600, None, third),
    )


def test_an_instance_that_does_not_tell_makes_the_whole_unknown(
    backend: NvidiaBackend, machine: Machine
) -> None:
    uuid = machine.add(mig_mode=1)
    machine.instance(0, 0, compute="10:500")
    machine.instance(0, 1, compute=None)
    assert backend.processes(uuid) is None


def test_nobody_is_on_a_lost_card_as_far_as_anyone_knows(backend: NvidiaBackend, machine: Machine) -> None:
    uuid = machine.add(lost=1)
    with pytest.raises(GpuLostError):
        backend.processes(uuid)
