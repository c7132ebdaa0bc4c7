"""Judges a churn of shares by what each container printed of itself.

A container tells when it began and ended (seconds since the machine's boot, the same clock for all), its
environment and its device files. Its times lie within those of its life, so two that overlap here did
overlap. ``churn`` makes such containers and takes the moments; what is judged against what:

    each container      its pod's grant, which the scheduler wrote
    each moment         the kubelet's record and PodResources, and the CDI files that the agent wrote
    all of them         the room of each GPU
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from gpufleet.agent.device_plugin.share_files import ShareGiven
from gpufleet.agent.kubelet.kubelet_checkpoint import CheckpointEntry
from gpufleet.agent.state.node_state import Held
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.model.grant import GrantedDevice

WHOLE_MILLI = 1000
CONTAINER = "main"
CDI_PREFIX = "gpufleet.io/share="


class ContainerRecord(msgspec.Struct, frozen=True):
    """What one container said. ``end_s`` is None for one that was killed before it could tell."""

    begin_s: float
    end_s: float | None
    variables: dict[str, str]
    devices: tuple[str, ...]

    def values(self, variable: str) -> list[str]:
        """A variable with one value for each GPU."""
        return self.variables[variable].split(",")

    def runs(self, from_s: float, to_s: float) -> bool:
        """Whether it surely ran all of this time."""
        return self.begin_s <= from_s and self.end_s is not None and to_s <= self.end_s


class Moment(msgspec.Struct, frozen=True):
    """What kubelet and agent knew between two times. ``held`` is None where the kubelet did not answer.

    ``reported_milli`` is how much of each GPU is in hands by the node's report.
    """

    from_s: float
    to_s: float
    held: tuple[Held, ...] | None
    record: tuple[CheckpointEntry, ...]
    files: dict[str, ShareGiven]
    reported_milli: dict[str, int]


def read_told(text: str) -> ContainerRecord:
    """A container's words. Raises ValueError where it began twice, KeyError where it never did."""
    lines = [line.partition(" ")[::2] for line in text.splitlines()]
    if [word for word, _ in lines].count("begin") > 1:
        raise ValueError(f"a container began twice: {text}")
    said = dict(lines)
    variables = dict(rest.partition("=")[::2] for word, rest in lines if word == "env")
    end_s = float(said["end"]) if "end" in said else None
    return ContainerRecord(float(said["begin"]), end_s, variables, tuple(sorted(said["devices"].split())))


def against_its_grant(
    uid: str, told: ContainerRecord, grant: Sequence[GrantedDevice], files: Mapping[str, str]
) -> Iterator[str]:
    """What it sees that it was not granted, or not as it was. ``files`` are the device files by GPU."""
    seen = told.variables
    expected = {
        "GPUFLEET_POD_UID": uid,
        "GPUFLEET_CONTAINER": CONTAINER,
        "GPUFLEET_DEVICES": ",".join(one.id for one in grant),
        "GPUFLEET_GPU_MILLI": ",".join(str(one.gpu_milli) for one in grant),
        "GPUFLEET_MEMORY_MIB": ",".join(str(one.memory_mib) for one in grant),
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    for name, value in expected.items():
        if seen.get(name) != value:
            yield f"pod {uid} was granted {name}={value} and sees {seen.get(name)}"
    nodes = tuple(sorted(files[one.id] for one in grant))
    if told.devices != nodes:
        yield f"pod {uid} was granted {nodes} and sees {told.devices}"


def beyond_capacity(told: Mapping[str, ContainerRecord], room_mib: Mapping[str, int]) -> Iterator[str]:
    """Every moment at which the containers of a GPU have more than there is of it."""
    steps = [step for uid, one in told.items() for step in _steps(uid, one)]
    milli: dict[str, int] = defaultdict(int)
    memory_mib: dict[str, int] = defaultdict(int)
    for at_s, together in groupby(sorted(steps), key=lambda step: step[0]):
        for _, _, _, gpu, more_milli, more_mib in together:
            milli[gpu] += more_milli
            memory_mib[gpu] += more_mib
        for gpu, room in room_mib.items():
            if milli[gpu] > WHOLE_MILLI or memory_mib[gpu] > room:
                yield f"at {at_s:.2f} s {gpu} is given {milli[gpu]} milli and {memory_mib[gpu]} of {room} MiB"


Step = tuple[float, int, str, str, int, int]


def _steps(uid: str, told: ContainerRecord) -> Iterator[Step]:
    """Its begin and its end on each of its GPUs; at the same time ends come first."""
    if told.end_s is None:
        return
    parts = zip(
        told.values("GPUFLEET_DEVICES"),
        map(int, told.values("GPUFLEET_GPU_MILLI")),
        map(int, told.values("GPUFLEET_MEMORY_MIB")),
        strict=True,
    )
    for gpu, milli, memory_mib in parts:
        yield (told.begin_s, 1, uid, gpu, milli, memory_mib)
        yield (told.end_s, 0, uid, gpu, -milli, -memory_mib)


def against_moment(
    told: Mapping[str, ContainerRecord], names: Mapping[str, str], moment: Moment
) -> Iterator[str]:
    """Where kubelet and agent knew something else of the containers that ran in this moment.

    ``names`` are the pods' names by UID.
    """
    running = {uid: one for uid, one in told.items() if one.runs(moment.from_s, moment.to_s)}
    recorded = {one.pod_uid: one for one in moment.record if one.resource == GPU_SHARE}
    for gpu, milli in moment.reported_milli.items():
        if milli > WHOLE_MILLI:
            yield f"at {moment.from_s:.2f} s the node reports {milli} milli of {gpu} in hands"
    yield from _shared_slots(recorded[uid] for uid in running if uid in recorded)
    for uid, one in running.items():
        if uid not in recorded:
            yield f"at {moment.from_s:.2f} s the kubelet's record does not know pod {uid}, which runs"
            continue
        slots = recorded[uid].units
        if len(slots) != len(one.values("GPUFLEET_DEVICES")):
            yield f"pod {uid} has the slots {sorted(slots)} for {one.values('GPUFLEET_DEVICES')}"
        yield from _against_file(uid, one, recorded[uid].cdi_devices, moment)
        if moment.held is not None:
            listed = {frozenset(held.units) for held in moment.held if held.pod == names[uid]}
            if listed != {slots}:
                yield f"at {moment.from_s:.2f} s PodResources has {listed} for pod {uid}, the record {slots}"


def _shared_slots(entries: Iterable[CheckpointEntry]) -> Iterator[str]:
    """Slots that two of these hold."""
    owner: dict[str, str] = {}
    for entry in entries:
        for unit in entry.units:
            if owner.setdefault(unit, entry.pod_uid) != entry.pod_uid:
                yield f"the slot {unit} has two owners that run: {owner[unit]} and {entry.pod_uid}"


def _against_file(uid: str, told: ContainerRecord, names: Sequence[str], moment: Moment) -> Iterator[str]:
    """Whether the CDI file that its container was started with still says what it sees."""
    found = [moment.files.get(name.removeprefix(CDI_PREFIX)) for name in names]
    if len(found) != 1 or found[0] is None:
        yield f"at {moment.from_s:.2f} s there is no CDI file {names} of pod {uid}, which runs"
        return
    expected = found[0].variables()
    seen = {name: told.variables.get(name) for name in expected}
    if seen != expected:
        yield f"the CDI file of pod {uid} says {expected}, and it sees {seen}"
