"""NVML's calls by which cards are cut, as methods that return a value or raise our error.

List calls fill arrays of C; their length comes from the profile. Handles of instances die with them, so they
are asked for anew each time.
"""

import ctypes
import re
from collections.abc import Iterator
from typing import Any, NewType

import msgspec

from gpufleet.devices.nvidia.nvml import Handle, Nvml
from gpufleet.devices.nvidia.refusals import NotGivenError

GpuInstanceHandle = NewType("GpuInstanceHandle", object)
ComputeInstanceHandle = NewType("ComputeInstanceHandle", object)

_PROFILE_NAME = re.compile(r"(?:MIG )?(\S+)")

GPU_PROFILES = 18
"""NVML_GPU_INSTANCE_PROFILE_COUNT of driver 580; numbers that a card does not have are not supported."""

COMPUTE_PROFILES = 9
"""NVML_COMPUTE_INSTANCE_PROFILE_COUNT of driver 580."""

SHARED_ENGINES = 0
"""NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED."""


class GpuProfile(msgspec.Struct, frozen=True):
    """A profile as the driver has it: its number for it, its name, and its compute slices."""

    number: int
    name: str
    slices: int
    instances_max: int


class PlacedInstance(msgspec.Struct, frozen=True):
    """A GPU instance that exists: its number, the profile's number, and where it begins."""

    number: int
    profile: int
    start: int


class MigCalls(Nvml):
    """The library with its calls for MIG."""

    def mig_modes(self, handle: Handle) -> tuple[bool, bool]:
        """The MIG mode now, and after the next reset."""
        current, pending = self._call("nvmlDeviceGetMigMode", handle)
        return bool(current), bool(pending)

    def set_mig_mode(self, handle: Handle, *, enabled: bool) -> None:
        """Set the MIG mode; where that takes a reset it is pending."""
        self._call("nvmlDeviceSetMigMode", handle, int(enabled))

    def gpu_profiles(self, handle: Handle) -> list[GpuProfile]:
        """The profiles of a card."""
        found = []
        for number in range(GPU_PROFILES):
            try:
                info = self._call("nvmlDeviceGetGpuInstanceProfileInfo", handle, number)
            except NotGivenError:
                # The driver refuses the numbers of profiles that this card does not have.
                continue
            named = _PROFILE_NAME.fullmatch(str(info.name))
            name = named[1] if named else ""
            found.append(GpuProfile(int(info.id), name, int(info.sliceCount), int(info.instanceCount)))
        return found

    def gpu_instances(self, handle: Handle, profile: GpuProfile) -> list[GpuInstanceHandle]:
        """The GPU instances of a profile."""
        array, count = self._array("c_nvmlGpuInstance_t", profile.instances_max)
        self._call("nvmlDeviceGetGpuInstances", handle, profile.number, array, ctypes.byref(count))
        return [GpuInstanceHandle(array[at]) for at in range(count.value)]

    def placed(self, instance: GpuInstanceHandle) -> PlacedInstance:
        """Number and place of a GPU instance."""
        info = self._call("nvmlGpuInstanceGetInfo", instance)
        return PlacedInstance(int(info.id), int(info.profileId), int(info.placement.start))

    def make_gpu_instance(self, handle: Handle, profile: GpuProfile, start: int) -> None:
        """Make a GPU instance at a start that the driver offers. Raises NotGivenError for any other."""
        array, count = self._array("c_nvmlGpuInstancePlacement_t", profile.instances_max)
        name = "nvmlDeviceGetGpuInstancePossiblePlacements"
        self._call(name, handle, profile.number, array, ctypes.byref(count))
        place = next((array[at] for at in range(count.value) if array[at].start == start), None)
        if place is None:
            raise NotGivenError(f"no {profile.name} begins at {start} ({name})")
        create = "nvmlDeviceCreateGpuInstanceWithPlacement"
        self._call(create, handle, profile.number, ctypes.byref(place))

    def destroy_gpu_instance(self, instance: GpuInstanceHandle) -> None:
        """Destroy a GPU instance; it may have no compute instance."""
        self._call("nvmlGpuInstanceDestroy", instance)

    def compute_instances(self, instance: GpuInstanceHandle) -> dict[int, ComputeInstanceHandle]:
        """The compute instances of a GPU instance by number."""
        found = {}
        for info in self._compute_profiles(instance):
            array, count = self._array("c_nvmlComputeInstance_t", int(info.instanceCount))
            name = "nvmlGpuInstanceGetComputeInstances"
            self._call(name, instance, int(info.id), array, ctypes.byref(count))
            for at in range(count.value):
                number = int(self._call("nvmlComputeInstanceGetInfo", array[at]).id)
                found[number] = ComputeInstanceHandle(array[at])
        return found

    def make_compute_instance(self, instance: GpuInstanceHandle, slices: int) -> None:
        """Make a compute instance with so many slices. Raises NotGivenError where there is none of them."""
        for info in self._compute_profiles(instance):
            if int(info.sliceCount) == slices:
                self._call("nvmlGpuInstanceCreateComputeInstance", instance, int(info.id))
                return
        raise NotGivenError(f"no compute instance has {slices} slices (nvmlGpuInstanceCreateComputeInstance)")

    def destroy_compute_instance(self, instance: ComputeInstanceHandle) -> None:
        """Destroy a compute instance that no process uses."""
        self._call("nvmlComputeInstanceDestroy", instance)

    def _compute_profiles(self, instance: GpuInstanceHandle) -> Iterator[Any]:
        for number in range(COMPUTE_PROFILES):
            try:
                yield self._call(
                    "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, SHARED_ENGINES
                )
            except NotGivenError:
                continue

    def _array(self, kind: str, length: int) -> tuple[Any, ctypes.c_uint]:
        """Room for a list of that length, and its length."""
        return (getattr(self._binding, kind) * max(length, 1))(), ctypes.c_uint(length)
