"""What a simulated machine can be told while it runs, as values that travel as JSON.

``carry_out`` applies an order to a machine. How it gets there is up to the program that runs the machine.
"""

from typing import assert_never

import msgspec

from gpufleet.devices.simulated.machine import Machine


class Order(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True):
    """Something to be done to the machine."""


class RaiseXid(Order, frozen=True, tag="xid"):
    """The driver reports this error of a GPU (index or UUID), or of one of its MIG instances."""

    gpu: str
    code: int
    instance: str | None = None


class Lose(Order, frozen=True, tag="lose"):
    """A GPU falls off the bus."""

    gpu: str


class Hang(Order, frozen=True, tag="hang"):
    """Every call about a GPU hangs until it is released or reset."""

    gpu: str


class Release(Order, frozen=True, tag="release"):
    """A GPU that hangs answers again."""

    gpu: str


class FailRemap(Order, frozen=True, tag="fail-remap"):
    """A broken row of a GPU's memory cannot be remapped."""

    gpu: str


class SetReading(Order, frozen=True, tag="reading"):
    """A GPU tells this value of a reading from now on (names and bounds in ``set_readings``)."""

    gpu: str
    reading: str
    value: int


class Reset(Order, frozen=True, tag="reset"):
    """A GPU is reset: nothing is against it any more."""

    gpu: str


class BreakDriver(Order, frozen=True, tag="break-driver"):
    """The library cannot be used, and says why."""

    problem: str


class UpdateDriver(Order, frozen=True, tag="update-driver"):
    """The library can be used; with a version, the driver is another one now."""

    version: str = ""


class Show(Order, frozen=True, tag="show"):
    """Do nothing: the answer tells how the GPUs are."""


AnyOrder = (
    RaiseXid | Lose | Hang | Release | FailRemap | SetReading | Reset | BreakDriver | UpdateDriver | Show
)


def carry_out(machine: Machine, order: AnyOrder) -> None:
    """Do it. Raises MachineError for a GPU or an instance that is not there."""
    match order:
        case RaiseXid(gpu, code, instance):
            machine.raise_xid(gpu, code, instance)
        case Lose(gpu):
            machine.lose(gpu)
        case Hang(gpu):
            machine.hang(gpu)
        case Release(gpu):
            machine.release(gpu)
        case FailRemap(gpu):
            machine.fail_remap(gpu)
        case SetReading(gpu, reading, value):
            machine.set_reading(gpu, reading, value)
        case Reset(gpu):
            machine.reset(gpu)
        case BreakDriver(problem):
            machine.break_driver(problem)
        case UpdateDriver(version):
            machine.update_driver(version or machine.driver_version)
        case Show():
            return
        case _:
            assert_never(order)


class GpuState(msgspec.Struct, frozen=True):
    """What has been done to one GPU."""

    index: int
    uuid: str
    model: str
    lost: bool
    hangs: bool
    recovery: str
    instances: tuple[str, ...]


class MachineState(msgspec.Struct, frozen=True):
    """What has been done to the machine."""

    driver: str
    driver_problem: str
    gpus: tuple[GpuState, ...]


def state(machine: Machine) -> MachineState:
    """How the machine is now."""
    gpus = tuple(
        GpuState(
            gpu.index,
            gpu.uuid,
            str(gpu.group.model.name),
            gpu.lost,
            not gpu.going.is_set(),
            gpu.recovery.value,
            tuple(one.uuid for one in gpu.instances or ()),
        )
        for gpu in machine.gpus.values()
    )
    return MachineState(machine.driver_version, machine.driver_problem, gpus)
