"""A simulated machine, as a person writes it in YAML.

    driver: {version: "580.95.05", runtime: "13.0"}
    gpus:
      - model: H100-80GB
        count: 8
        numaNodes: 2
        links: direct
      - model: A100-40GB
        mig: [{profile: 1g.5gb, start: 0}, {profile: 3g.20gb, start: 4}]

``topology`` reads the description of another simulator into the same value; ``machine`` makes a
machine of it.
"""

from typing import Literal

import msgspec

from gpufleet.devices.device_errors import MachineError
from gpufleet.devices.documents import read_document
from gpufleet.model.gpu_catalogue import GpuModel, Vendor
from gpufleet.model.gpu_model import matching, nearest_name
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigInstance
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError

GPUS_MAX = 64
"""Four times the GPUs of the largest machines: a larger number is a mistake."""

DRIVERS = {Vendor.NVIDIA: ("580.95.05", "13.0"), Vendor.AMD: ("6.16.13", "7.2"), Vendor.INTEL: ("1.0", "")}
"""Driver and runtime version where the description names none."""


class DriverText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The driver; its versions as they would be shown."""

    version: str = ""
    runtime: str = ""


class InstanceText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A MIG instance that exists from the beginning."""

    profile: str
    start: int


class GpusText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """``count`` GPUs of one kind.

    ``memory_mib`` goes before the catalogue's. They lie evenly on ``numa_nodes``. ``links`` is how
    they reach one another. ``mig`` left out means not cut; an empty list, MIG switched on without
    instances. ``power_limit_w`` is what full use draws.
    """

    model: str
    count: int = 1
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")
    reserved_mib: int = msgspec.field(default=512, name="reservedMiB")
    numa_nodes: int = 1
    links: Literal["direct", "switch", "system"] = "direct"
    mig: tuple[InstanceText, ...] | None = None
    power_limit_w: int = 700


class MachineText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole machine."""

    gpus: tuple[GpusText, ...]
    driver: DriverText = DriverText()


class Group(msgspec.Struct, frozen=True):
    """GPUs of one kind, checked: their model is known and their MIG layout can exist.

    ``numa_nodes`` has the NUMA node of each. ``uuids`` are theirs if the description names them; else
    the machine makes some.
    """

    text: GpusText
    model: GpuModel
    memory_mib: int
    layout: Layout | None
    numa_nodes: tuple[int, ...]
    uuids: tuple[DeviceId, ...] = ()


class Description(msgspec.Struct, frozen=True):
    """A machine that can exist: GPUs of one vendor."""

    vendor: Vendor
    driver_version: str
    runtime_version: str
    groups: tuple[Group, ...]


def read_description(text: str | bytes, where: str = "") -> Description:
    """The machine of a YAML text. Raises MachineError naming the field."""
    return described(read_document(text, MachineText, where, MachineError), where)


def described(machine: MachineText, where: str = "") -> Description:
    """The machine, checked."""
    groups = tuple(_group(text, f"gpus[{at}]", where) for at, text in enumerate(machine.gpus))
    count = sum(group.text.count for group in groups)
    if count > GPUS_MAX:
        raise _too_many(count, where)
    vendors = sorted({group.model.vendor.value for group in groups})
    if len(vendors) > 1:
        expected = "GPUs of one vendor"
        raise MachineError(
            "several vendors", field="gpus", value=", ".join(vendors), expected=expected, where=where
        )
    vendor = groups[0].model.vendor if groups else Vendor.NVIDIA
    version, runtime = DRIVERS[vendor]
    driver = machine.driver
    return Description(vendor, driver.version or version, driver.runtime or runtime, groups)


def _too_many(count: int, where: str) -> MachineError:
    expected = f"at most {GPUS_MAX}"
    return MachineError("too many GPUs", field="gpus", value=count, expected=expected, where=where)


def _group(text: GpusText, field: str, where: str) -> Group:
    model = find_model(text.model, f"{field}.model", where)
    if text.count > GPUS_MAX:
        raise _too_many(text.count, where)
    if text.count < 0 or text.numa_nodes < 1:
        raise MachineError(
            "not a count", field=field, expected="count 0 or more, numaNodes 1 or more", where=where
        )
    memory_mib = text.memory_mib or model.memory_mib
    if memory_mib is None:
        raise MachineError(
            "its memory is not known", field=f"{field}.memoryMiB", expected="a size", where=where
        )
    if not 0 <= text.reserved_mib < memory_mib:
        expected = f"0 to less than {memory_mib}"
        raise MachineError(
            "not a part of its memory",
            field=f"{field}.reservedMiB",
            value=text.reserved_mib,
            expected=expected,
            where=where,
        )
    numa_nodes = tuple(number * text.numa_nodes // text.count for number in range(text.count))
    return Group(text, model, memory_mib, _layout(text, model, f"{field}.mig", where), numa_nodes)


def find_model(name: str, field: str, where: str) -> GpuModel:
    """The model of this name. Raises MachineError where there is none, or more than one."""
    found = [model for model in matching(name) if model.vendor in DRIVERS]
    if len(found) == 1:
        return found[0]
    if found:
        expected = "one of " + ", ".join(str(model.name) for model in found)
        raise MachineError("may mean several models", field=field, value=name, expected=expected, where=where)
    closest = nearest_name(name)
    expected = (
        f"a model of the catalogue; did you mean {closest}?" if closest else "a model such as H100-80GB"
    )
    raise MachineError("no such model of GPU", field=field, value=name, expected=expected, where=where)


def _layout(text: GpusText, model: GpuModel, field: str, where: str) -> Layout | None:
    if text.mig is None:
        return None
    board = BOARDS.get(model.name)
    if board is None:
        raise MachineError("this model cannot be cut", field=field, value=str(model.name), where=where)
    layout = tuple(sorted(MigInstance(one.start, one.profile) for one in text.mig))
    try:
        board.taken(layout)
    except InputError as error:
        raise MachineError(
            error.problem,
            field=f"{field}.{error.field}",
            value=error.value,
            expected=error.expected,
            where=where,
        ) from error
    return layout
