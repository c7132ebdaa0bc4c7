"""NVML with types: each call that the agent makes, as a method that returns a value or raises our error.

Below it is nvidia-ml-py, the maker's own binding, which finds and loads ``libnvidia-ml.so.1``. It has no
types and hands out structures of C; neither goes further up than this module. It is imported when a
library is opened, since it is large (6 MiB) and most nodes have no such GPU.

Handles are pointers into the library and good until it is closed. The handle of a MIG instance dies with
the instance, and its memory may then stand for another: look instances up each time.
"""

import _ctypes
import ctypes
from typing import Any, NewType

import msgspec

from gpufleet.devices.facts import Engines
from gpufleet.devices.nvidia.refusals import SUCCESS, NotGivenError, translated

Handle = NewType("Handle", object)
"""A GPU or a MIG instance."""

EventSet = NewType("EventSet", object)
GpmBuffer = NewType("GpmBuffer", object)

# The library counts bytes.
MIB = 1024 * 1024
NO_INSTANCE = 0xFFFFFFFF
"""The number of the instance in an event or a process that concerns no MIG instance."""

ALL_LINKS = 0xFFFFFFFF
"""The scope of a field that is summed over all NVLinks."""


class Memory(msgspec.Struct, frozen=True):
    """Device memory in bytes; ``total`` includes what the driver keeps (``reserved``)."""

    total: int
    reserved: int
    free: int
    used: int


class Utilization(msgspec.Struct, frozen=True):
    """Percent of the last sampling period."""

    gpu_pct: int
    memory_pct: int


class Field(msgspec.Struct, frozen=True):
    """A value by its number: one of nvml.h's NVML_FI_*, and which link or domain it is of."""

    number: int
    scope: int = 0


class Fabric(msgspec.Struct, frozen=True):
    """Where a GPU is in a fabric of NVLink switches. ``state`` 3: it has joined; ``status`` 0: well."""

    cluster: bytes
    clique: int
    state: int
    status: int


class Attributes(msgspec.Struct, frozen=True):
    """Size of a MIG instance, and its engines."""

    multiprocessors: int
    memory_mib: int
    engines: Engines


class InstanceInfo(msgspec.Struct, frozen=True):
    """Where on the GPU a GPU instance lies, in memory slices, and which profile it is of."""

    profile: int
    start: int


class Process(msgspec.Struct, frozen=True):
    """A process on a GPU or instance."""

    pid: int
    memory: int | None


class ProcessBusy(msgspec.Struct, frozen=True):
    """How much a process kept the GPU busy, at a time in microseconds."""

    pid: int
    at_us: int
    busy_pct: int


class Remapped(msgspec.Struct, frozen=True):
    """Rows of memory that were replaced."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class RawEvent(msgspec.Struct, frozen=True):
    """What the driver reported: ``address`` of the handle, 0 where it does not say which GPU."""

    address: int
    kind: int
    data: int
    gpu_instance: int
    compute_instance: int


def address(handle: Handle) -> int:
    """The address in a handle, which stays that of its GPU until the library is closed."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


class Nvml:
    """The library. Every method raises what ``refusals.translated`` makes of its code."""

    def __init__(self) -> None:
        # Here, so that a machine without NVIDIA's GPUs does not load it.
        import pynvml

        self._binding: Any = pynvml

    def _call(self, name: str, *arguments: object) -> Any:
        function = getattr(self._binding, name, None)
        if function is None:
            # NVML_ERROR_FUNCTION_NOT_FOUND: an older binding lacks what an older driver lacks.
            raise translated(13, name)
        try:
            return function(*arguments)
        except self._binding.NVMLError as error:
            raise translated(int(error.value), name) from None

    def initialise(self) -> None:
        """Load the library and attach to the driver; counted, as ``shut_down`` is."""
        self._call("nvmlInit")

    def shut_down(self) -> None:
        """Undo one ``initialise``."""
        self._call("nvmlShutdown")

    def forget(self) -> None:
        """Unload the library, so that the next ``initialise`` loads the one that is there then.

        A process that began before the driver was upgraded would otherwise keep the old library for
        ever. Only while no call is under way and none has been initialised. nvidia-ml-py offers no
        way to do so; these two names of its are what it keeps of a loaded library.
        """
        library = getattr(self._binding, "nvmlLib", None)
        if library is not None:
            self._binding.nvmlLib = None
            self._binding._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001
            _ctypes.dlclose(library._handle)  # noqa: SLF001

    def driver_version(self) -> str:
        """The version of the driver, such as 580.95.05."""
        return str(self._call("nvmlSystemGetDriverVersion"))

    def version(self) -> str:
        """The version of libnvidia-ml, such as 13.580.95.05."""
        return str(self._call("nvmlSystemGetNVMLVersion"))

    def cuda_version(self) -> int:
        """The newest CUDA that the driver runs: 1000 times the major, 10 times the minor version."""
        return int(self._call("nvmlSystemGetCudaDriverVersion_v2"))

    def count(self) -> int:
        """How many GPUs the driver lists, lost ones included."""
        return int(self._call("nvmlDeviceGetCount"))

    def by_index(self, index: int) -> Handle:
        """The GPU at a place of the driver's list."""
        return Handle(self._call("nvmlDeviceGetHandleByIndex", index))

    def by_uuid(self, uuid: str) -> Handle:
        """The GPU of a UUID."""
        return Handle(self._call("nvmlDeviceGetHandleByUUID", uuid))

    def uuid(self, handle: Handle) -> str:
        """The UUID of a GPU ("GPU-...") or an instance ("MIG-...")."""
        return str(self._call("nvmlDeviceGetUUID", handle))

    def mig_mode(self, handle: Handle) -> bool:
        """Whether the GPU can hold instances now."""
        current, _pending = self._call("nvmlDeviceGetMigMode", handle)
        return bool(current)

    def mig_places(self, handle: Handle) -> int:
        """How many instances the GPU could hold at most."""
        return int(self._call("nvmlDeviceGetMaxMigDeviceCount", handle))

    def mig_at(self, handle: Handle, place: int) -> Handle:
        """The instance at a place; places may be empty."""
        return Handle(self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, place))

    def gpu_instance(self, instance: Handle) -> int:
        """The number of its GPU instance."""
        return int(self._call("nvmlDeviceGetGpuInstanceId", instance))

    def compute_instance(self, instance: Handle) -> int:
        """The number of its compute instance within the GPU instance."""
        return int(self._call("nvmlDeviceGetComputeInstanceId", instance))

    def gpu_instance_info(self, handle: Handle, number: int) -> InstanceInfo:
        """Placement of a GPU instance of a GPU."""
        found = self._call("nvmlDeviceGetGpuInstanceById", handle, number)
        info = self._call("nvmlGpuInstanceGetInfo", found)
        return InstanceInfo(int(info.profileId), int(info.placement.start))

    def attributes(self, instance: Handle) -> Attributes:
        """Size of a MIG instance; the driver tells it of instances only."""
        found = self._call("nvmlDeviceGetAttributes_v2", instance)
        engines = Engines(
            copy=int(found.sharedCopyEngineCount),
            decoders=int(found.sharedDecoderCount),
            encoders=int(found.sharedEncoderCount),
            jpeg=int(found.sharedJpegCount),
            optical_flow=int(found.sharedOfaCount),
        )
        return Attributes(int(found.multiprocessorCount), int(found.memorySizeMB), engines)

    def name(self, handle: Handle) -> str:
        """The product; of an instance with its profile behind it ("NVIDIA A30 MIG 1g.6gb")."""
        return str(self._call("nvmlDeviceGetName", handle))

    def minor(self, handle: Handle) -> int:
        """The number of its device node."""
        return int(self._call("nvmlDeviceGetMinorNumber", handle))

    def serial(self, handle: Handle) -> str:
        """The board's serial number."""
        return str(self._call("nvmlDeviceGetSerial", handle))

    def pci_bus_id(self, handle: Handle) -> str:
        """The PCI address of a GPU, such as 00000000:1B:00.0."""
        return str(self._call("nvmlDeviceGetPciInfo", handle).busId)

    def capability(self, handle: Handle) -> tuple[int, int]:
        """CUDA's compute capability."""
        major, minor = self._call("nvmlDeviceGetCudaComputeCapability", handle)
        return int(major), int(minor)

    def cores(self, handle: Handle) -> int:
        """The number of CUDA cores of a GPU."""
        return int(self._call("nvmlDeviceGetNumGpuCores", handle))

    def architecture(self, handle: Handle) -> int:
        """NVML_DEVICE_ARCH_*."""
        return int(self._call("nvmlDeviceGetArchitecture", handle))

    def brand(self, handle: Handle) -> int:
        """NVML_BRAND_*."""
        return int(self._call("nvmlDeviceGetBrand", handle))

    def memory_affinity(self, handle: Handle, words: int = 4) -> int:
        """The NUMA nodes with the nearest memory, as bits, 64 nodes a word."""
        # NVML_AFFINITY_SCOPE_NODE.
        found = self._call("nvmlDeviceGetMemoryAffinity", handle, words, 0)
        return sum(int(word) << (64 * at) for at, word in enumerate(found))

    def fabric(self, handle: Handle) -> Fabric:
        """The fabric of NVLink switches that the GPU has joined."""
        # A struct is no call, so an older binding is found out by hand.
        if not hasattr(self._binding, "c_nvmlGpuFabricInfo_v2_t"):
            raise translated(13, "nvmlDeviceGetGpuFabricInfoV")
        info = self._binding.c_nvmlGpuFabricInfo_v2_t()
        self._call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
        return Fabric(bytes(info.clusterUuid), int(info.cliqueId), int(info.state), int(info.status))

    def nvlink_between(self, one: Handle, other: Handle) -> bool:
        """Whether they reach one another over NVLink, directly or through its switches."""
        return int(self._call("nvmlDeviceGetP2PStatus", one, other, 2)) == 0

    def nvlink_up(self, handle: Handle, link: int) -> bool:
        """Whether a link of a GPU is active."""
        return bool(self._call("nvmlDeviceGetNvLinkState", handle, link))

    def nvlink_far_end(self, handle: Handle, link: int) -> str:
        """The PCI address at the other end of a link."""
        return str(self._call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link).busId)

    def common_ancestor(self, one: Handle, other: Handle) -> int:
        """NVML_TOPOLOGY_*: the nearest point that the ways to both share."""
        return int(self._call("nvmlDeviceGetTopologyCommonAncestor", one, other))

    def memory(self, handle: Handle) -> Memory:
        """The memory of a GPU or an instance."""
        found = self._call("nvmlDeviceGetMemoryInfo", handle, self._binding.nvmlMemory_v2)
        return Memory(int(found.total), int(found.reserved), int(found.free), int(found.used))

    def utilization(self, handle: Handle) -> Utilization:
        """How busy a GPU is."""
        found = self._call("nvmlDeviceGetUtilizationRates", handle)
        return Utilization(int(found.gpu), int(found.memory))

    def encoder_pct(self, handle: Handle) -> int:
        """How busy the video encoders are."""
        return int(self._call("nvmlDeviceGetEncoderUtilization", handle)[0])

    def decoder_pct(self, handle: Handle) -> int:
        """How busy the video decoders are."""
        return int(self._call("nvmlDeviceGetDecoderUtilization", handle)[0])

    def power_mw(self, handle: Handle) -> int:
        """The power that a GPU draws."""
        return int(self._call("nvmlDeviceGetPowerUsage", handle))

    def energy_mj(self, handle: Handle) -> int:
        """The energy that a GPU has drawn since the driver was loaded."""
        return int(self._call("nvmlDeviceGetTotalEnergyConsumption", handle))

    def celsius(self, handle: Handle) -> int:
        """The chip's temperature. Newer drivers have another call for it, and will drop the old one."""
        try:
            # NVML_TEMPERATURE_GPU is the only sensor that NVML has.
            return int(self._call("nvmlDeviceGetTemperatureV", handle, 0))
        except NotGivenError:
            return int(self._call("nvmlDeviceGetTemperature", handle, 0))

    def clock_mhz(self, handle: Handle, domain: int) -> int:
        """The clock of the multiprocessors (1) or the memory (2)."""
        return int(self._call("nvmlDeviceGetClockInfo", handle, domain))

    def clock_events(self, handle: Handle) -> int:
        """Why the clocks are lowered, as bits (nvmlClocksEventReason*). Older drivers call it throttling."""
        try:
            return int(self._call("nvmlDeviceGetCurrentClocksEventReasons", handle))
        except NotGivenError:
            return int(self._call("nvmlDeviceGetCurrentClocksThrottleReasons", handle))

    def pcie_replays(self, handle: Handle) -> int:
        """How often PCI Express had to repeat itself."""
        return int(self._call("nvmlDeviceGetPcieReplayCounter", handle))

    def pcie_width(self, handle: Handle) -> int:
        """How many lanes of PCI Express are in use."""
        return int(self._call("nvmlDeviceGetCurrPcieLinkWidth", handle))

    def slowdown_celsius(self, handle: Handle) -> int:
        """The temperature from which on the hardware lowers the clocks."""
        # NVML_TEMPERATURE_THRESHOLD_SLOWDOWN.
        return int(self._call("nvmlDeviceGetTemperatureThreshold", handle, 1))

    def remapped(self, handle: Handle) -> Remapped:
        """Rows of memory that were replaced."""
        found = self._call("nvmlDeviceGetRemappedRows", handle)
        return Remapped(int(found[0]), int(found[1]), bool(found[2]), bool(found[3]))

    def uncorrected_errors(self, handle: Handle) -> int:
        """How many uncorrected errors of memory there were since the driver was loaded."""
        # NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC.
        return int(self._call("nvmlDeviceGetTotalEccErrors", handle, 1, 0))

    def licensed(self, handle: Handle) -> bool | None:
        """Whether a virtual GPU has its licence; None for what needs none."""
        found = self._call("nvmlDeviceGetGridLicensableFeatures_v4", handle)
        if not found.isGridLicenseSupported:
            return None
        features = found.gridLicensableFeatures[: found.licensableFeaturesCount]
        return any(feature.featureState for feature in features)

    def fields(self, handle: Handle, wanted: tuple[Field, ...]) -> dict[Field, float]:
        """The values of those wanted fields that the GPU gives."""
        asked = [(field.number, field.scope) for field in wanted]
        found = self._call("nvmlDeviceGetFieldValues", handle, asked)
        return {
            field: _value(one)
            for field, one in zip(wanted, found, strict=True)
            if int(one.nvmlReturn) == SUCCESS
        }

    def compute_processes(self, handle: Handle) -> list[Process]:
        """The processes that compute on a GPU."""
        return _processes(self._call("nvmlDeviceGetComputeRunningProcesses_v3", handle))

    def graphics_processes(self, handle: Handle) -> list[Process]:
        """The processes that draw on a GPU."""
        return _processes(self._call("nvmlDeviceGetGraphicsRunningProcesses_v3", handle))

    def process_busy(self, handle: Handle, after_us: int) -> list[ProcessBusy]:
        """The processes that kept the GPU busy after a time; empty if none did."""
        try:
            found = self._binding.nvmlDeviceGetProcessUtilization(handle, after_us)
        except self._binding.NVMLError as error:
            # The binding raises even success, where there is nothing to tell.
            if int(error.value) in (SUCCESS, 6):
                return []
            raise translated(int(error.value), "nvmlDeviceGetProcessUtilization") from None
        return [ProcessBusy(int(one.pid), int(one.timeStamp), int(one.smUtil)) for one in found]

    def gpm_supported(self, handle: Handle) -> bool:
        """Whether the GPU has the counters of NVML's GPM (Hopper and newer)."""
        return bool(self._call("nvmlGpmQueryDeviceSupport", handle).isSupportedDevice)

    def gpm_buffer(self) -> GpmBuffer:
        """Room for one reading of the counters; to be freed."""
        return GpmBuffer(self._call("nvmlGpmSampleAlloc"))

    def gpm_free(self, buffer: GpmBuffer) -> None:
        """Give the room back."""
        self._call("nvmlGpmSampleFree", buffer)

    def gpm_read(self, handle: Handle, buffer: GpmBuffer, gpu_instance: int | None = None) -> None:
        """Read the counters of a GPU, or of one GPU instance of it."""
        if gpu_instance is None:
            self._call("nvmlGpmSampleGet", handle, buffer)
        else:
            self._call("nvmlGpmMigSampleGet", handle, gpu_instance, buffer)

    def gpm_metrics(self, before: GpmBuffer, after: GpmBuffer, wanted: tuple[int, ...]) -> dict[int, float]:
        """The metrics (NVML_GPM_METRIC_*) that two readings give, of those that are wanted."""
        asked = self._binding.c_nvmlGpmMetricsGet_t()
        asked.version = self._binding.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(wanted)
        asked.sample1, asked.sample2 = before, after
        for at, metric in enumerate(wanted):
            asked.metrics[at].metricId = metric
        self._call("nvmlGpmMetricsGet", asked)
        answers = asked.metrics[: len(wanted)]
        return {int(one.metricId): float(one.value) for one in answers if int(one.nvmlReturn) == SUCCESS}

    def event_set(self) -> EventSet:
        """Where events of registered GPUs arrive; to be freed."""
        return EventSet(self._call("nvmlEventSetCreate"))

    def event_set_free(self, events: EventSet) -> None:
        """Free a set of events; only while no thread waits for it."""
        self._call("nvmlEventSetFree", events)

    def event_kinds(self, handle: Handle) -> int:
        """Which events the GPU can report, as bits (nvmlEventType*)."""
        return int(self._call("nvmlDeviceGetSupportedEventTypes", handle))

    def register(self, handle: Handle, kinds: int, events: EventSet) -> None:
        """Have these events of a GPU arrive."""
        self._call("nvmlDeviceRegisterEvents", handle, kinds, events)

    def wait_event(self, events: EventSet, limit_ms: int) -> RawEvent | None:
        """The next event; None if there was none within the limit."""
        try:
            found = self._binding.nvmlEventSetWait(events, limit_ms)
        except self._binding.NVMLError as error:
            if int(error.value) == self._binding.NVML_ERROR_TIMEOUT:
                return None
            raise translated(int(error.value), "nvmlEventSetWait") from None
        return RawEvent(
            ctypes.cast(found.device, ctypes.c_void_p).value or 0,
            int(found.eventType),
            int(found.eventData),
            int(found.gpuInstanceId),
            int(found.computeInstanceId),
        )


def _value(field: Any) -> float:
    """The member of the union that the field's type names (nvmlValueType_t)."""
    members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    found: float = getattr(field.value, members[int(field.valueType)])
    return found


def _processes(found: Any) -> list[Process]:
    return [
        Process(int(one.pid), None if one.usedGpuMemory is None else int(one.usedGpuMemory)) for one in found
    ]
