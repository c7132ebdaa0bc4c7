"""One plan per GPU, whichever format it came from."""

from collections.abc import Iterable

import msgspec

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.documents import Notice
from gpufleet.devices.facts import GpuFacts
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.gpu_model import find
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry, MigInstance
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError

REPLICAS_MAX = 1000
"""Each replica of a GPU is a device of its own to the kubelet, so the number is bounded."""

MPS_CLIENTS_MAX = 48
"""What a server of MPS takes on GPUs from compute capability 7.5 on."""

MPS_CLIENTS_MAX_BEFORE_VOLTA = 16
"""What a server of MPS takes on older GPUs, as the device plugin counts them."""


class Exclusive(msgspec.Struct, frozen=True, tag="exclusive"):
    """A GPU has one holder."""


class TimeSlice(msgspec.Struct, frozen=True, tag="time-slice"):
    """``replicas`` holders take turns on a GPU; nothing keeps them within their part."""

    replicas: int


class Mps(msgspec.Struct, frozen=True, tag="mps"):
    """``clients`` processes share a GPU over an MPS server, each with limits of memory and of threads."""

    clients: int
    memory_mib: int | None
    threads_pct: int


class Mig(msgspec.Struct, frozen=True, tag="mig"):
    """Instances, each a device. ``layout`` None leaves them as they are.

    ``replicas`` has how many holders share each instance of a profile. ``as_gpus`` offers instances
    under the name of whole GPUs.
    """

    layout: Layout | None
    replicas: dict[str, int] = {}
    as_gpus: bool = False


class Fractions(msgspec.Struct, frozen=True, tag="fractions"):
    """As many shares as fit, each as large as its pod asks, and at most ``shares_max``."""

    shares_max: int


Mode = Exclusive | TimeSlice | Mps | Mig | Fractions


def replicas_of(mode: Mode, profile: str = "") -> int:
    """The number of replicas of a GPU, or of each of its instances of a profile; 1 if it is not shared."""
    match mode:
        case TimeSlice(count) | Mps(count):
            return count
        case Mig(_, replicas):
            return replicas.get(profile, 1)
        case _:
            return 1


class SharingPlan(msgspec.Struct, frozen=True):
    """How one GPU is offered.

    ``renamed`` appends ".shared" to its resource's name. With ``one_at_most`` a container may ask for
    one replica only.
    """

    uuid: DeviceId
    mode: Mode
    renamed: bool = False
    one_at_most: bool = False


class NodePlans(msgspec.Struct, frozen=True):
    """A plan for each GPU of a node, by index, and what of the configuration has no effect."""

    plans: tuple[SharingPlan, ...]
    notices: tuple[Notice, ...] = ()


class Spot(msgspec.Struct, frozen=True):
    """Where in which document something stands, for refusals."""

    where: str
    field: str

    def at(self, name: str) -> "Spot":
        """A field below this one."""
        return Spot(self.where, f"{self.field}.{name}" if self.field else name)

    def refuse(self, problem: str, value: object = None, expected: str = "") -> SharingError:
        """The refusal of what stands here."""
        return SharingError(problem, field=self.field, value=value, expected=expected, where=self.where)


def unshared(gpu: GpuFacts) -> Mode:
    """How a GPU is offered that no entry names: whole, or as the instances that it has."""
    return Mig(None) if gpu.mig_enabled else Exclusive()


def check_uncut(gpu: GpuFacts, spot: Spot) -> None:
    """Raises SharingError where a mode of whole GPUs is asked of a cut one."""
    if gpu.mig_enabled:
        raise spot.refuse("the card is cut into instances", gpu.uuid, "mode mig, or a card with MIG off")


def checked_time_slice(replicas: int, spot: Spot) -> TimeSlice:
    """Turns that can be taken. Raises SharingError."""
    if not 2 <= replicas <= REPLICAS_MAX:
        raise spot.refuse("not a number of replicas", replicas, f"2 to {REPLICAS_MAX}")
    return TimeSlice(replicas)


def checked_mps(
    gpu: GpuFacts, clients: int, memory_mib: int | None, threads_pct: int | None, spot: Spot
) -> Mps:
    """Clients that fit on a GPU; without limits of their own each gets an equal part of what there is for
    programs.
    """
    check_clients(gpu, clients, spot)
    usable_mib = None if gpu.memory_mib is None else gpu.memory_mib - (gpu.reserved_mib or 0)
    if memory_mib is not None and usable_mib is not None and clients * memory_mib > usable_mib:
        most_mib = usable_mib // clients
        raise spot.at("memory").refuse("more than the card has", memory_mib, f"at most {most_mib} MiB each")
    if threads_pct is not None and not 1 <= threads_pct <= 100:
        raise spot.at("threads").refuse("not a percentage of threads", threads_pct, "1 to 100")
    # Without a limit of its own a client could take all of the memory.
    equal_mib = None if usable_mib is None else usable_mib // clients
    return Mps(clients, equal_mib if memory_mib is None else memory_mib, threads_pct or 100 // clients)


def check_clients(gpu: GpuFacts, clients: int, spot: Spot) -> None:
    """Raises SharingError where a GPU cannot have so many clients of MPS."""
    if gpu.vendor is not Vendor.NVIDIA:
        raise spot.refuse("MPS is NVIDIA's", gpu.product, "another mode")
    check_uncut(gpu, spot)
    # NVIDIA's device plugin draws the line at 7.5, and so excludes Volta (7.0).
    recent = gpu.compute_capability is None or gpu.compute_capability >= (7, 5)
    most = MPS_CLIENTS_MAX if recent else MPS_CLIENTS_MAX_BEFORE_VOLTA
    if not 2 <= clients <= most:
        raise spot.at("clients").refuse("not a number of clients", clients, f"2 to {most} for {gpu.product}")


def checked_layout(gpu: GpuFacts, instances: Iterable[MigInstance], spot: Spot) -> Layout:
    """A layout that can exist on this GPU. Raises SharingError before anything is destroyed."""
    layout = tuple(sorted(instances))
    try:
        board(gpu, spot).taken(layout)
    # This one names its field already.
    except SharingError:
        raise
    except InputError as error:
        raise spot.at(error.field).refuse(error.problem, error.value, error.expected) from error
    return layout


def board(gpu: GpuFacts, spot: Spot) -> MigGeometry:
    """What a GPU can be cut into. Raises SharingError where it cannot be cut."""
    model = find(gpu.product)
    geometry = None if model is None else BOARDS.get(model.name)
    if geometry is None or gpu.mig_enabled is None:
        raise spot.refuse("this GPU cannot be cut", gpu.product, "a GPU with MIG")
    return geometry
