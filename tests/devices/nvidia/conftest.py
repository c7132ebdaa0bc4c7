"""The fake library, compiled once, and a machine and a backend for each test."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufleet.devices.nvidia.backend import NvidiaBackend
from tests.devices.nvidia.machine import STATE, Machine, build, load


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The fake, in this process."""
    return load(build(tmp_path_factory.mktemp("fake_nvml")))


@pytest.fixture
def machine(library: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine without cards."""
    machine = Machine(tmp_path)
    monkeypatch.setenv(STATE, str(machine.state))
    assert library.fakeInitialised() == 0
    return machine


@pytest.fixture
def clock_s() -> Callable[[], float]:
    """A clock that stands still."""
    return lambda: 5.0


@pytest.fixture
def backend(library: ctypes.CDLL, machine: Machine, clock_s: Callable[[], float]) -> Iterator[NvidiaBackend]:
    """A backend of this machine, opened; whatever it took from the library it has to give back."""
    backend = NvidiaBackend(machine.folder, clock_s=clock_s, wall_s=lambda: 1000.0)
    backend.open()
    yield backend
    backend.close()
    assert library.fakeInitialised() == 0
    assert library.fakeGpmBuffers() == 0
    assert library.fakeEventSets() == 0
