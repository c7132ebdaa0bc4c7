"""What a container gets for its units: CDI names, environment, mounts or device nodes, as the node is set up.

Unless the agent's own option says otherwise, devices are named to the container runtime (CDI), whose files
``static_devices`` writes: what they say cannot be changed by a pod. The other ways are those of NVIDIA's
device plugin, for runtimes without CDI. There a variable that a container sets itself would win, so
``grant_rule`` refuses such a container. GPUs of AMD and Intel know CDI and device nodes alone.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from gpufleet.agent.device_plugin.cdi import qualified
from gpufleet.agent.device_plugin.static_devices import KIND, DeviceFiles, needed_nodes
from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse, DeviceNode, HostMount
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.units.node_units import GpuUnit
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.kube import keys
from gpufleet.model.gpu_catalogue import Vendor

GIVEN = "GPUFLEET_DEVICES"
"""The ids of what a container was given, for people and programs; nothing follows from it."""

VISIBLE = keys.VISIBLE_DEVICES
AMD_VISIBLE = "AMD_VISIBLE_DEVICES"
IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"
# NVIDIA's runtime takes the names of files that are mounted here for devices.
VOLUME_MOUNTS = "/var/run/nvidia-container-devices"
# Devices of other drivers that a sharing config of NVIDIA's may add to each GPU.
GDRCOPY = "/dev/gdrdrv"
GDS = "/dev/nvidia-fs*"
MOFED = "/dev/infiniband/*"
IMEX = "/dev/nvidia-caps-imex-channels"
BY_CDI = DeliveryOptions(list_strategies=("cdi-cri",))

Addition = Callable[[Sequence[Gpu]], AllocateResponse]
"""What else a container needs for units of these GPUs, such as the pipe of an MPS server."""


def no_addition(_: Sequence[Gpu]) -> AllocateResponse:
    """No addition."""
    return AllocateResponse()


class Delivery:
    """Answers Allocate under one set of options."""

    def __init__(
        self, files: DeviceFiles, options: DeliveryOptions = BY_CDI, addition: Addition = no_addition
    ) -> None:
        self.files = files
        self._options = options
        self._addition = addition

    @property
    def packed(self) -> bool:
        """Whether replicas of a GPU that is in use go first."""
        return self._options.packed

    @property
    def uses_cdi(self) -> bool:
        """Whether CDI files are needed."""
        return not {"cdi-cri", "cdi-annotations"}.isdisjoint(self._options.list_strategies)

    def give(self, node: NodeGpus, units: Sequence[GpuUnit]) -> AllocateResponse:
        """What a container gets for these units."""
        gpus = [
            gpu for uuid in dict.fromkeys(unit.gpu for unit in units) if (gpu := node.gpu(uuid)) is not None
        ]
        strategies = self._options.list_strategies
        # Parts in this order: of one variable the last value counts.
        parts = [
            AllocateResponse(environment={GIVEN: ",".join(unit.id for unit in units)}),
            self._addition(gpus),
        ]
        if "cdi-cri" in strategies:
            parts.append(AllocateResponse(cdi_devices=_cdi_names(units)))
        if "cdi-annotations" in strategies:
            key = f"{self._options.cdi_annotation_prefix}gpufleet_{units[0].id.replace(':', '_')}"
            parts.append(AllocateResponse(annotations={key: ",".join(_cdi_names(units))}))
        nvidia = all(gpu.facts.vendor is Vendor.NVIDIA for gpu in gpus)
        if nvidia and "envvar" in strategies:
            parts.append(
                AllocateResponse(environment={VISIBLE: ",".join(self._names(node, units)), **self._extras()})
            )
        if nvidia and "volume-mounts" in strategies:
            parts.append(self._mounted(node, units))
        if nvidia and self.uses_cdi:
            parts.append(self._beside())
        if any(gpu.facts.vendor is Vendor.AMD for gpu in gpus):
            # AMD's runtime would add what an image names.
            parts.append(AllocateResponse(environment={AMD_VISIBLE: "void"}))
        if self._options.device_specs or (not nvidia and not self.uses_cdi):
            parts.append(self._nodes(node, units))
        return _joined(parts)

    def _names(self, node: NodeGpus, units: Iterable[GpuUnit]) -> list[str]:
        """The devices as the runtime knows them, each once: UUIDs, or indices ("2", "2:0")."""
        if not self._options.ids_by_index:
            return list(dict.fromkeys(unit.device for unit in units))
        return list(dict.fromkeys(_index(node, unit) for unit in units))

    def _mounted(self, node: NodeGpus, units: Iterable[GpuUnit]) -> AllocateResponse:
        """A list in the form of mounts, which needs more rights than a variable to be forged."""
        names = [*self._names(node, units), *(f"imex/{one}" for one in self._options.imex_channels)]
        mounts = tuple(HostMount(f"{VOLUME_MOUNTS}/{name}", "/dev/null") for name in names)
        # The variable holds the folder's name, so that the runtime reads the list from the mounts.
        return AllocateResponse({VISIBLE: VOLUME_MOUNTS}, mounts=mounts)

    def _extras(self) -> dict[str, str]:
        """Variables by which the runtime adds what is beside the GPUs."""
        options = self._options
        wanted = {"NVIDIA_GDRCOPY": options.gdrcopy, "NVIDIA_GDS": options.gds, "NVIDIA_MOFED": options.mofed}
        found = {name: "enabled" for name, is_wanted in wanted.items() if is_wanted}
        if options.imex_channels:
            found[IMEX_CHANNELS] = ",".join(map(str, options.imex_channels))
        return found

    def _beside(self) -> AllocateResponse:
        """The device nodes of what is beside the GPUs: under CDI the runtime listens to no variable."""
        options = self._options
        wanted = {GDRCOPY: options.gdrcopy, GDS: options.gds, MOFED: options.mofed}
        patterns = [pattern for pattern, is_wanted in wanted.items() if is_wanted]
        patterns += [f"{IMEX}/channel{number}" for number in options.imex_channels]
        paths = [path for pattern in patterns for path in self.files.matching(pattern)]
        found = ((path, self.files.on_host(path)) for path in paths)
        return AllocateResponse(
            device_nodes=tuple(DeviceNode(path, host) for path, host in found if host is not None)
        )

    def _nodes(self, node: NodeGpus, units: Iterable[GpuUnit]) -> AllocateResponse:
        paths: dict[str, None] = {}
        for unit in units:
            gpu = node.gpu(unit.gpu)
            if gpu is not None:
                paths.update(dict.fromkeys(needed_nodes(gpu.facts, unit.instance)))
        found = ((path, self.files.on_host(path)) for path in paths)
        return AllocateResponse(
            device_nodes=tuple(DeviceNode(path, host) for path, host in found if host is not None)
        )


def _cdi_names(units: Iterable[GpuUnit]) -> tuple[str, ...]:
    """Each GPU or instance once, however many replicas of it there are."""
    return tuple(qualified(KIND, device) for device in dict.fromkeys(unit.device for unit in units))


def _index(node: NodeGpus, unit: GpuUnit) -> str:
    """A GPU's index, with that of the instance among its GPU's."""
    gpu = node.gpu(unit.gpu)
    if gpu is None:
        return unit.device
    instances = [one.uuid for one in gpu.facts.mig]
    # Counted in the order in which the driver lists them.
    place = f":{instances.index(unit.instance)}" if unit.instance in instances else ""
    return f"{gpu.facts.index}{place}"


def _joined(parts: Iterable[AllocateResponse]) -> AllocateResponse:
    """All of it; of one name in the environment the last value."""
    whole = AllocateResponse()
    for part in parts:
        whole = msgspec.structs.replace(
            whole,
            environment=whole.environment | part.environment,
            device_nodes=(*whole.device_nodes, *part.device_nodes),
            mounts=(*whole.mounts, *part.mounts),
            cdi_devices=(*whole.cdi_devices, *part.cdi_devices),
            annotations=whole.annotations | part.annotations,
        )
    return whole
