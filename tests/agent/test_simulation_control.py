"""A simulated machine does what it is told through its door, and refuses what makes no sense."""

import asyncio
import json
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.agent.gpus.simulation_control import SOCKET, SimulationControl, short_path, tell
from gpufleet.devices.backend import Changed, XidEvent
from gpufleet.devices.device_errors import MachineError
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine
from gpufleet.devices.simulated.orders import (
    AnyOrder,
    BreakDriver,
    FailRemap,
    Hang,
    Lose,
    MachineState,
    RaiseXid,
    Release,
    Reset,
    Show,
    UpdateDriver,
)
from tests.agent.machine_room import EIGHT


@pytest.fixture
def machine() -> Machine:
    return Machine(read_description(EIGHT), lambda: 0.0, list)


def with_door(folder: Path, machine: Machine, story: Callable[[], None]) -> None:
    """Open the door and run the story in a thread, as another process would."""

    async def run() -> None:
        (folder / SOCKET).unlink(missing_ok=True)
        door = asyncio.create_task(SimulationControl(folder, machine).run())
        while not (folder / SOCKET).exists():  # noqa: ASYNC110  nothing tells of a socket but itself
            await asyncio.sleep(0.01)
        await asyncio.to_thread(story)
        door.cancel()
        await asyncio.wait([door])

    asyncio.run(run())


def told(folder: Path, machine: Machine, *orders: AnyOrder) -> MachineState:
    """How the machine is after these orders."""
    states: list[MachineState] = []
    with_door(folder, machine, lambda: states.extend(tell(folder, order) for order in orders))
    return states[-1]


def test_an_xid_comes_out_where_the_driver_reports(tmp_path: Path, machine: Machine) -> None:
    state = told(tmp_path, machine, RaiseXid("3", 79))
    assert [gpu.index for gpu in state.gpus if gpu.lost] == [3]
    uuid = machine.find("3").uuid
    assert machine.next_event(0) == XidEvent(79, uuid)


def test_a_gpu_is_lost_and_found_again(tmp_path: Path, machine: Machine) -> None:
    state = told(tmp_path, machine, Lose("0"), Hang("1"), FailRemap("2"), Reset("0"))
    assert [(gpu.lost, gpu.hangs, gpu.recovery) for gpu in state.gpus[:3]] == [
        (False, False, "none"),
        (False, True, "none"),
        (False, False, "reset"),
    ]
    assert not any(gpu.hangs for gpu in told(tmp_path, machine, Release("1")).gpus)


def test_a_driver_breaks_and_comes_back_as_another(tmp_path: Path, machine: Machine) -> None:
    assert told(tmp_path, machine, BreakDriver("no match")).driver_problem == "no match"
    state = told(tmp_path, machine, UpdateDriver("590.44.01"))
    assert (state.driver, state.driver_problem) == ("590.44.01", "")
    assert machine.next_event(0) == Changed()


def test_showing_changes_nothing(tmp_path: Path, machine: Machine) -> None:
    assert len(told(tmp_path, machine, Show()).gpus) == 8
    assert machine.next_event(0) is None


def test_an_order_about_a_gpu_that_is_not_there_is_refused(tmp_path: Path, machine: Machine) -> None:
    with pytest.raises(MachineError, match="an index from 0 to 7"):
        told(tmp_path, machine, Lose("8"))


@pytest.mark.parametrize(
    "line",
    [b"\n", b"reboot\n", b'{"do": "explode"}\n', b'{"do": "lose"}\n', b'{"do":"lose","gpu":"0","x":1}\n'],
)
def test_what_is_no_order_gets_an_answer_and_does_nothing(
    tmp_path: Path, machine: Machine, line: bytes
) -> None:
    def story() -> None:
        answer = json.loads(spoken(tmp_path, line))
        assert answer["problem"]
        assert answer["machine"] is None

    with_door(tmp_path, machine, story)
    assert machine.next_event(0) is None


def spoken(folder: Path, line: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.socket(socket.AF_UNIX) as connection, short_path(folder) as short:
        connection.connect(f"{short}/{SOCKET}")
        connection.sendall(line)
        return connection.makefile("rb").readline()


def test_nobody_else_may_open_the_door(tmp_path: Path, machine: Machine) -> None:
    def story() -> None:
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) & 0o077 == 0

    with_door(tmp_path, machine, story)


def test_a_folder_with_a_long_name_is_no_hindrance(tmp_path: Path, machine: Machine) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    assert len(told(folder, machine, Show()).gpus) == 8
