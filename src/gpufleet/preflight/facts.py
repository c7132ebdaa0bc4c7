"""What preflight judges: facts of one host, of what else works on it, and of the change that is wanted.

None is "not known", and never "none of it". The facts come from the API, from a node's agent or from a file;
no rule asks where from.
"""

from collections.abc import Mapping

import msgspec

from gpufleet.model.fleet_policy import Driver
from gpufleet.model.taint import Taint, Toleration

EVICTION_BY_CONTROLLER = "nvidia.com/gpu-driver-upgrade-enabled"
"""The annotation by which a driver manager leaves evictions to a controller."""

TOOLKIT_IMAGE_ANNOTATION = "gpufleet.io/toolkit-image"
"""The toolkit's image by digest that a rollout has put on a node and found to work."""


class Module(msgspec.Struct, frozen=True):
    """A loaded kernel module: its references, the modules that use it, and its state (Live, Unloading)."""

    references: int
    used_by: tuple[str, ...] = ()
    state: str = "Live"


class RuntimeConfig(msgspec.Struct, frozen=True):
    """The configuration of a node's container runtime.

    ``runtimes`` are the handlers that it has, ``drop_in_runtimes`` those of drop-in files, which replace the
    table of the main file. ``programs`` are the runtime's programs on the host; ``restarts`` counts since the
    last boot.
    """

    runtimes: tuple[str, ...] | None = None
    drop_in_runtimes: tuple[str, ...] | None = None
    cdi: bool | None = None
    programs: tuple[str, ...] | None = None
    restarts: int | None = None
    proxy: str | None = None


class HostFacts(msgspec.Struct, frozen=True):
    """A host: ``modules`` by name, ``free_mib`` of the disk with images, ``proxy`` "" for none.

    ``driver_package`` is a driver that the host's own packages installed, "" for none.
    """

    kernel: str | None = None
    os: str | None = None
    architecture: str | None = None
    secure_boot: bool | None = None
    modules: Mapping[str, Module] | None = None
    free_mib: int | None = None
    runtime: RuntimeConfig | None = None
    proxy: str | None = None
    driver_package: str | None = None
    reaches_packages: bool | None = None


class ImageFacts(msgspec.Struct, frozen=True):
    """The wanted image: its architectures, its systems, and for which kernels it has modules."""

    architectures: tuple[str, ...] | None = None
    systems: tuple[str, ...] | None = None
    kernels: tuple[str, ...] | None = None
    is_signed: bool | None = None
    size_mib: int | None = None


class DriverDaemonSet(msgspec.Struct, frozen=True):
    """A DaemonSet that another operator brings drivers with."""

    name: str
    misscheduled: int = 0
    tolerations: tuple[Toleration, ...] = ()


class DriverPod(msgspec.Struct, frozen=True):
    """A driver's pod on the node. ``waiting`` is why a container does not run: CrashLoopBackOff."""

    name: str
    is_init: bool = False
    waiting: str = ""
    kernel: str = ""


class Operator(msgspec.Struct, frozen=True):
    """Another operator of GPUs: whether it brings drivers, and whether a process of it leads."""

    name: str
    brings_drivers: bool | None = None
    leads: bool | None = None


class Definition(msgspec.Struct, frozen=True):
    """A definition of another operator's kind: whether it goes away, and fields that it does not have."""

    name: str
    is_terminating: bool = False
    missing_fields: tuple[str, ...] = ()
    is_missing: bool = False


class LeftObject(msgspec.Struct, frozen=True):
    """An object that is deleted and held by finalizers that nothing takes away."""

    name: str
    finalizers: tuple[str, ...]


class NodeState(msgspec.Struct, frozen=True):
    """The node as the API has it, with what works on it.

    ``device_plugins`` are plugins that offer GPUs to its kubelet, ``gpu_pods`` the pods that hold GPUs,
    ``claim_pods`` those that hold them by claims. ``label_writers`` has the managers of labels of driver
    managers. ``own_keys`` are keys of driver managers that a rollout of gpufleet wrote.
    """

    is_ready: bool | None = None
    is_cordoned: bool = False
    cordoned_by_us: bool = False
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    gpu_pods: tuple[str, ...] | None = None
    claim_pods: tuple[str, ...] | None = None
    driver_pods: tuple[DriverPod, ...] = ()
    device_plugins: tuple[str, ...] | None = None
    label_writers: Mapping[str, tuple[str, ...]] = {}
    own_keys: frozenset[str] = frozenset()


class ClusterState(msgspec.Struct, frozen=True):
    """What else in the cluster has to do with drivers."""

    operators: tuple[Operator, ...] = ()
    daemon_sets: tuple[DriverDaemonSet, ...] = ()
    definitions: tuple[Definition, ...] = ()
    left_objects: tuple[LeftObject, ...] = ()


class Case(msgspec.Struct, frozen=True):
    """All of it, for one node and one change."""

    wanted: Driver
    host: HostFacts = HostFacts()
    image: ImageFacts = ImageFacts()
    node: NodeState = NodeState()
    cluster: ClusterState = ClusterState()
