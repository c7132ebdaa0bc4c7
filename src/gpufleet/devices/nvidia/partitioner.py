"""Cuts NVIDIA's cards through NVML: the calls of ``devices.partitioner``.

Each call opens the library for itself, which costs little while the agent's backend has it open. NVML has no
call that resets a card, so the way to reset one is given.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.nvidia.instances import instances
from gpufleet.devices.nvidia.mig_calls import GpuInstanceHandle, GpuProfile, MigCalls
from gpufleet.devices.nvidia.nvml import Handle
from gpufleet.devices.nvidia.refusals import Answers
from gpufleet.mig.card_state import CardState, GpuInstance
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance


class NvidiaPartitioner:
    """The calls. ``reset_card`` resets a card, or raises DriverError."""

    def __init__(self, reset_card: Callable[[DeviceId], None]) -> None:
        self._reset_card = reset_card

    def card_state(self, uuid: DeviceId) -> CardState:
        """The card as it is. Raises DriverError, also where the driver does not tell its processes."""
        with _card(uuid) as (calls, card):
            enabled, pending = calls.mig_modes(card)
            if not enabled:
                return CardState(enabled, pending, in_use=_has_processes(calls, card))
            used = {
                one.gpu_instance
                for one in instances(calls, card, Answers())
                if _has_processes(calls, one.handle)
            }
            found = []
            for profile, instance in _gpu_instances(calls, card):
                placed = calls.placed(instance)
                place = MigInstance(placed.start, profile.name)
                numbers = tuple(sorted(calls.compute_instances(instance)))
                found.append(GpuInstance(placed.number, place, numbers, placed.number in used))
            return CardState(enabled, pending, tuple(sorted(found, key=lambda one: one.place)))

    def set_mode(self, uuid: DeviceId, *, enabled: bool) -> None:
        """Set the MIG mode; on Ampere it is pending until a reset. Raises DriverError."""
        with _card(uuid) as (calls, card):
            calls.set_mig_mode(card, enabled=enabled)

    def reset(self, uuid: DeviceId) -> None:
        """Reset the card. Raises DriverError."""
        self._reset_card(uuid)

    def make_gpu_instance(self, uuid: DeviceId, place: MigInstance) -> None:
        """Make a GPU instance at its place. Raises DriverError."""
        with _card(uuid) as (calls, card):
            known = {one.name: one for one in calls.gpu_profiles(card)}
            profile = known.get(place.profile)
            if profile is None:
                raise DriverError(f"the driver has no profile {place.profile}, but {', '.join(known)}")
            calls.make_gpu_instance(card, profile, place.start)

    def make_compute_instance(self, uuid: DeviceId, gpu_instance: int) -> None:
        """Make a compute instance that has all of a GPU instance. Raises DriverError."""
        with _card(uuid) as (calls, card):
            for profile, instance in _gpu_instances(calls, card):
                if calls.placed(instance).number == gpu_instance:
                    calls.make_compute_instance(instance, profile.slices)
                    return
            raise DriverError(f"there is no GPU instance {gpu_instance}")

    def remove_compute_instance(self, uuid: DeviceId, gpu_instance: int, number: int) -> None:
        """Remove a compute instance; one that is gone already is no failure. Raises DriverError."""
        with _card(uuid) as (calls, card):
            for _, instance in _gpu_instances(calls, card):
                if calls.placed(instance).number == gpu_instance:
                    found = calls.compute_instances(instance).get(number)
                    if found is not None:
                        calls.destroy_compute_instance(found)

    def remove_gpu_instance(self, uuid: DeviceId, number: int) -> None:
        """Remove a GPU instance; one that is gone already is no failure. Raises DriverError."""
        with _card(uuid) as (calls, card):
            for _, instance in _gpu_instances(calls, card):
                if calls.placed(instance).number == number:
                    calls.destroy_gpu_instance(instance)


@contextmanager
def _card(uuid: DeviceId) -> Iterator[tuple[MigCalls, Handle]]:
    calls = MigCalls()
    calls.initialise()
    try:
        yield calls, calls.by_uuid(uuid)
    finally:
        calls.shut_down()


def _gpu_instances(calls: MigCalls, card: Handle) -> Iterator[tuple[GpuProfile, GpuInstanceHandle]]:
    for profile in calls.gpu_profiles(card):
        for instance in calls.gpu_instances(card, profile):
            yield profile, instance


def _has_processes(calls: MigCalls, handle: Handle) -> bool:
    # A driver that does not tell raises: what cannot be known to be idle is not changed.
    return bool(calls.compute_processes(handle) or calls.graphics_processes(handle))
