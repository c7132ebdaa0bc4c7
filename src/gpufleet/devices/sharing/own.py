"""Our own format: for each pool of nodes, which GPUs are shared how.

    version: gpufleet.io/v1alpha1
    pools:
      training:
      - {gpus: [0, 1], exclusive: {}}
      - {gpus: {model: A100-40GB}, mig: {layout: [{profile: 3g.20gb, start: 0}]}}
      - gpus: [GPU-5b7c2f9e-9a51-5d3f-8a0c-0c5f6c3f7e10]
        mps: {clients: 4, memory: 8Gi, threads: 25}
      - {gpus: rest, timeSlice: {replicas: 4}}
      default:
      - {gpus: rest, fractions: {maxShares: 10}}

A GPU may be in one entry only; ``rest`` are those in no other. A GPU in none is offered as it is, whole or
cut. So are all GPUs of a node where neither its pool nor a pool ``default`` is named. An index past the
node's last GPU is refused; a model or a UUID that the node lacks is not, for a pool has many nodes.
"""

from typing import Literal

import msgspec

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.documents import Notice, read_document
from gpufleet.devices.facts import Fleet, GpuFacts
from gpufleet.devices.sharing.plan import (
    Exclusive,
    Fractions,
    Mig,
    Mode,
    NodePlans,
    SharingPlan,
    Spot,
    board,
    check_uncut,
    checked_layout,
    checked_mps,
    checked_time_slice,
    unshared,
)
from gpufleet.model.gpu_model import matching, nearest_name
from gpufleet.model.gpu_share import parse_memory_mib
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigInstance
from gpufleet.model.model_errors import InputError

# It tells a config of gpufleet's own from one of NVIDIA's plugin.
VERSION = "gpufleet.io/v1alpha1"
POOL_DEFAULT = "default"
SHARES_MAX = 100
"""Each share of a GPU is a device of its own to the kubelet, so the number is bounded."""


class ModelText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All GPUs of a model, by any of its names."""

    model: str


class ExclusiveText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mode ``exclusive``, which has no fields."""


class TimeSliceText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Turns; the two switches are those of NVIDIA's device plugin."""

    replicas: int
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False


class MpsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Clients, each with its memory ("8Gi", or MiB) and its percentage of threads."""

    clients: int
    memory: str | int | None = None
    threads: int | None = None
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = True


class InstanceText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An instance at its place."""

    profile: str
    start: int


class MigText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instances at their places, or how many of each profile, to be placed where they fit."""

    layout: tuple[InstanceText, ...] | None = None
    profiles: dict[str, int] | None = None


class FractionsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The mode ``fractions``: at most ``maxShares`` shares of one GPU."""

    max_shares: int = 10


class EntryText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Some GPUs and how they are shared: one of the modes."""

    gpus: Literal["rest"] | tuple[int | str, ...] | ModelText
    exclusive: ExclusiveText | None = None
    time_slice: TimeSliceText | None = None
    mps: MpsText | None = None
    mig: MigText | None = None
    fractions: FractionsText | None = None


class ConfigText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole document of our own format."""

    version: str
    pools: dict[str, tuple[EntryText, ...]]


MODES = ("exclusive", "timeSlice", "mps", "mig", "fractions")


def read_sharing(text: str | bytes, fleet: Fleet, pool: str, where: str = "") -> NodePlans:
    """The plans of a node of this pool. Raises SharingError naming the field."""
    config = read_document(text, ConfigText, where, SharingError)
    if config.version != VERSION:
        raise Spot(where, "version").refuse("unknown version", config.version, VERSION)
    name = pool if pool in config.pools else POOL_DEFAULT
    entries = config.pools.get(name)
    notices: list[Notice] = []
    if entries is None:
        notices.append(
            Notice("pools", f"neither {pool} nor {POOL_DEFAULT} is named, so every GPU is offered as it is")
        )
    chosen: dict[DeviceId, tuple[EntryText, Spot]] = {}
    rest: tuple[EntryText, Spot] | None = None
    for at, entry in enumerate(entries or ()):
        spot = Spot(where, f"pools.{name}[{at}]")
        if entry.gpus == "rest":
            if rest is not None:
                raise spot.at("gpus").refuse("rest is in two entries", expected=f"only in {rest[1].field}")
            rest = (entry, spot)
            continue
        for gpu in _selected(entry, fleet, spot.at("gpus"), notices):
            before = chosen.setdefault(gpu.uuid, (entry, spot))
            if before[1] != spot:
                raise spot.at("gpus").refuse(
                    "a GPU in two entries", f"{gpu.uuid} (index {gpu.index})", f"only in {before[1].field}"
                )
    plans = []
    for gpu in fleet.gpus:
        found = chosen.get(gpu.uuid, rest)
        plans.append(SharingPlan(gpu.uuid, unshared(gpu)) if found is None else _plan(gpu, *found))
    return NodePlans(tuple(plans), tuple(notices))


def _selected(entry: EntryText, fleet: Fleet, spot: Spot, notices: list[Notice]) -> list[GpuFacts]:
    if isinstance(entry.gpus, ModelText):
        wanted = matching(entry.gpus.model)
        if not wanted:
            meant = nearest_name(entry.gpus.model)
            expected = f"a model; did you mean {meant}?" if meant else "a model such as H100-80GB"
            raise spot.at("model").refuse("no such model of GPU", entry.gpus.model, expected)
        # A name may stand for several models, and so may what the driver calls the card.
        return [gpu for gpu in fleet.gpus if set(matching(gpu.product)) & set(wanted)]
    found: list[GpuFacts] = []
    for named in entry.gpus:
        gpu = _named(named, fleet, spot)
        if gpu is None:
            notices.append(Notice(f"{spot.field}: {named}", "this node has no such GPU"))
        elif gpu in found:
            raise spot.refuse("named twice", named, "each GPU once")
        else:
            found.append(gpu)
    return found


def _named(named: int | str, fleet: Fleet, spot: Spot) -> GpuFacts | None:
    """The GPU of an index, or of a UUID; the latter may be on another node of the pool."""
    if isinstance(named, str):
        # A GPU without a number of its own goes by its PCI address, which has colons.
        if not named.startswith("GPU-") and ":" not in named:
            raise spot.refuse("neither an index nor a UUID", named, "a number, or text as in GPU-...")
        return fleet.gpu(DeviceId(named))
    found = next((gpu for gpu in fleet.gpus if gpu.index == named), None)
    if found is None:
        last = len(fleet.gpus) - 1
        expected = f"0 to {last}" if fleet.gpus else "no index: this node has no GPU"
        raise spot.refuse("no GPU of this index", named, expected)
    return found


def _plan(gpu: GpuFacts, entry: EntryText, spot: Spot) -> SharingPlan:
    given = [name for name in MODES if getattr(entry, _attribute(name)) is not None]
    if len(given) != 1:
        expected = f"one of {', '.join(MODES)}"
        raise spot.refuse("not one mode", ", ".join(given) or "none", expected)
    mode = _mode(gpu, entry, spot.at(given[0]))
    text = entry.time_slice or entry.mps
    if text is None:
        return SharingPlan(gpu.uuid, mode)
    return SharingPlan(gpu.uuid, mode, text.rename_by_default, text.fail_requests_greater_than_one)


def _mode(gpu: GpuFacts, entry: EntryText, spot: Spot) -> Mode:
    # Before the check: of all modes this one alone is for a card that is cut.
    if entry.mig is not None:
        return Mig(_layout(gpu, entry.mig, spot))
    check_uncut(gpu, spot)
    if entry.time_slice is not None:
        return checked_time_slice(entry.time_slice.replicas, spot.at("replicas"))
    if entry.mps is not None:
        memory_mib = _memory_mib(entry.mps.memory, spot.at("memory"))
        return checked_mps(gpu, entry.mps.clients, memory_mib, entry.mps.threads, spot)
    if entry.fractions is not None:
        most = entry.fractions.max_shares
        if not 1 <= most <= SHARES_MAX:
            raise spot.at("maxShares").refuse("not a number of shares", most, f"1 to {SHARES_MAX}")
        if gpu.memory_mib is None:
            raise spot.refuse("the driver does not tell this GPU's memory", gpu.product, "another mode")
        return Fractions(most)
    return Exclusive()


def _layout(gpu: GpuFacts, text: MigText, spot: Spot) -> Layout:
    if (text.layout is None) == (text.profiles is None):
        raise spot.refuse("not one way to say it", expected="either layout or profiles")
    if text.layout is not None:
        instances = [MigInstance(one.start, one.profile) for one in text.layout]
        return checked_layout(gpu, instances, spot.at("layout"))
    return _placed(gpu, text.profiles or {}, spot.at("profiles"))


def _placed(gpu: GpuFacts, counts: dict[str, int], spot: Spot) -> Layout:
    """The first layout with these many instances of each profile."""
    geometry = board(gpu, spot)
    for name, count in counts.items():
        # By itself first: a profile that the card lacks is refused by its name, and not for want of room.
        checked_layout(gpu, [MigInstance(_start(gpu, name, spot), name)], spot)
        if count < 0:
            raise spot.at(name).refuse("not a number of instances", count, "0 or more")
    # Bounded, because the count is from a file: no card holds so many instances.
    wanted = sorted(name for name, count in counts.items() for _ in range(min(count, 8)))
    profiles = [one for one in geometry.profiles if one.name in counts]
    for layout in geometry.layouts(profiles):
        if sorted(one.profile for one in layout) == wanted:
            return checked_layout(gpu, layout, spot)
    raise spot.refuse("these instances do not fit on one card", counts, f"fewer of them on {gpu.product}")


def _start(gpu: GpuFacts, profile: str, spot: Spot) -> int:
    """Where a profile can stand; 0 for an unknown one, which is refused by its name."""
    found = [one for one in board(gpu, spot).profiles if one.name == profile]
    return found[0].starts[0] if found else 0


def _memory_mib(memory: str | int | None, spot: Spot) -> int | None:
    if memory is None:
        return None
    try:
        return parse_memory_mib(str(memory))
    except InputError as error:
        raise spot.refuse(error.problem, memory, error.expected) from error


def _attribute(name: str) -> str:
    return "time_slice" if name == "timeSlice" else name
