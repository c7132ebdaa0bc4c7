"""The one interface by which cards are cut: the driver's calls for MIG, each of which may be refused.

A vendor without MIG has none. Calls about one card are made one after the other.
"""

from typing import Protocol

from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import (
    Call,
    MakeComputeInstance,
    MakeGpuInstance,
    RemoveComputeInstance,
    RemoveGpuInstance,
    ResetCard,
    SetMode,
)
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance


class Partitioner(Protocol):
    """The calls. Each raises DriverError where the driver refuses it, and GpuLostError for a lost card."""

    def card_state(self, uuid: DeviceId) -> CardState:
        """The card as it is; in use are instances, and the card, that have processes."""

    def set_mode(self, uuid: DeviceId, *, enabled: bool) -> None:
        """Set the MIG mode; on some cards it is pending until a reset."""

    def reset(self, uuid: DeviceId) -> None:
        """Reset the card."""

    def make_gpu_instance(self, uuid: DeviceId, place: MigInstance) -> None:
        """Make a GPU instance at its place."""

    def make_compute_instance(self, uuid: DeviceId, gpu_instance: int) -> None:
        """Make a compute instance that has all of a GPU instance."""

    def remove_compute_instance(self, uuid: DeviceId, gpu_instance: int, number: int) -> None:
        """Remove a compute instance; one that is gone already is no failure."""

    def remove_gpu_instance(self, uuid: DeviceId, number: int) -> None:
        """Remove a GPU instance; one that is gone already is no failure."""


def make_call(partitioner: Partitioner, uuid: DeviceId, call: Call) -> None:
    """Ask the driver for what the call says. Raises DriverError where it refuses."""
    match call:
        case SetMode(enabled):
            partitioner.set_mode(uuid, enabled=enabled)
        case ResetCard():
            partitioner.reset(uuid)
        case MakeGpuInstance(place):
            partitioner.make_gpu_instance(uuid, place)
        case MakeComputeInstance(gpu_instance):
            partitioner.make_compute_instance(uuid, gpu_instance)
        case RemoveComputeInstance(gpu_instance, number):
            partitioner.remove_compute_instance(uuid, gpu_instance, number)
        case RemoveGpuInstance(number):
            partitioner.remove_gpu_instance(uuid, number)
