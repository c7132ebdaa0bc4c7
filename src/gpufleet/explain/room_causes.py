"""Causes that pass when something that runs ends: GPUs in use or in pieces, CPU, memory and the rest.

The ways out name the pods that would make room on the nearest node by their end, and the largest request that
would fit today.
"""

from collections.abc import Callable

from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.engine.tell.explanation import MISSING, cores, gibibytes
from gpufleet.explain.answer import Finding
from gpufleet.explain.case import Case, Explain
from gpufleet.explain.free_room import FreeRoom, gpus_of
from gpufleet.explain.locality_causes import free_but_apart
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.device import WHOLE_GPU_MILLI, Device
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import counted, end, listed
from gpufleet.model.resources import Resources
from gpufleet.model.shape import Within

Weigh = Callable[[Entry], int]


def in_use(case: Case) -> Finding:
    """Too few free GPUs on every node that would do."""
    if not case.shape.gpu.whole:
        return _shares_in_use(case)
    count = case.shape.gpu.count
    total = sum(room.free_gpus for room in case.near_rooms)
    best = max(case.near_rooms, key=lambda room: room.free_gpus)
    most = best.free_gpus
    nodes = counted(len(case.near), "node")
    smaller = (
        [f"ask for at most {counted(most, 'GPU')} in one pod (several pods can be a gang)"] if most else []
    )
    ways = (_when_gpus_are_free(case, best, count - most), *smaller)
    if total >= count:
        why = (
            f"{total} GPUs are free on the {nodes} that would do, but at most {most} on one; it needs {count}"
        )
        return Finding("gpu-fragmented", why, ways)
    of = sum(len(room.node.devices) for room in case.near_rooms)
    why = f"of the {of} GPUs of the {nodes} that would do {total} are free; it needs {count} on one node"
    return Finding("gpu-busy", why, ways)


def _when_gpus_are_free(case: Case, room: FreeRoom, missing: int) -> str:
    enough = _enough(room.gpu_holders(), gpus_of, missing)
    if not enough:
        return f"wait until {counted(missing, 'more GPU')} of {room.node.name} come free"
    names = listed(f"{entry.name} ({counted(gpus_of(entry), 'GPU')})" for entry in enough)
    foreign = [one for one in enough if one.object.spec.scheduler_name != case.facts.settings.scheduler_name]
    note = ", of another scheduler," if foreign else ""
    return f"it fits on {room.node.name} when {names}{note} {end(len(enough))}"


def _enough(holders: list[Entry], weight: Weigh, missing: int) -> list[Entry]:
    """The fewest pods that would free so much; none if all together do not."""
    alone = [entry for entry in holders if weight(entry) >= missing]
    if alone:
        return [min(alone, key=weight)]
    chosen: list[Entry] = []
    for entry in holders:
        chosen.append(entry)
        missing -= weight(entry)
        if missing <= 0:
            return chosen
    return []


def _shares_in_use(case: Case) -> Finding:
    gpu = case.shape.gpu
    room, device, most = _most_idle(case)
    left = f"the most that a GPU has left is {most / WHOLE_GPU_MILLI:g} ({device.id} on {room.node.name})"
    need = f"it needs {gpu.gpu_milli / WHOLE_GPU_MILLI:g} of {'one' if gpu.count == 1 else gpu.count}"
    users = [entry for entry in room.gpu_holders() if device.id in entry.devices]
    ends = (
        [f"it fits on {room.node.name} when {listed(str(one.name) for one in users[:1])} ends"]
        if users
        else []
    )
    smaller = [f"ask for at most {most / WHOLE_GPU_MILLI:g} of a GPU"] if most else []
    return Finding("gpu-busy", f"{left}; {need}", (*ends, *smaller))


def _most_idle(case: Case) -> tuple[FreeRoom, Device, int]:
    idle = [
        (room.idle_milli[device.id], room, device)
        for room in case.near_rooms
        for device in room.node.devices
        if device.healthy
    ]
    most, room, device = max(idle, key=lambda one: one[0])
    return room, device, max(0, most)


def in_pieces(case: Case) -> Finding:
    """Enough GPU in sum on a node, but not in one piece."""
    gpu = case.shape.gpu
    if gpu.within is not Within.NODE and max(room.free_gpus for room in case.near_rooms) >= gpu.count:
        return free_but_apart(case)
    if gpu.whole:
        why = f"GPUs are shared by others, so that no node has {counted(gpu.count, 'whole GPU')} left"
        best = max(case.near_rooms, key=lambda room: room.free_gpus)
        return Finding("gpu-fragmented", why, (_when_gpus_are_free(case, best, gpu.count - best.free_gpus),))
    found = _shares_in_use(case)
    return Finding("gpu-fragmented", f"there is enough in sum, but in pieces: {found.why}", found.way_out)


def gpu_memory(case: Case) -> Finding:
    """Too little memory on every GPU that would do."""
    wanted = case.shape.gpu.memory_mib or 0
    left = [
        (room.free_mib[device.id], device, room.node.name)
        for room in case.near_rooms
        for device in room.node.devices
        if device.healthy
    ]
    most, device, node = max(left, key=lambda one: one[0])
    largest = max(device.memory_mib or 0 for _, device, _ in left)
    if largest and wanted > largest:
        why = f"it needs {wanted} MiB of one GPU, and the largest have {largest} MiB"
        return Finding("gpu-memory", why, (f"ask for at most {largest} MiB of one GPU",))
    need = f"it needs {wanted} MiB" if wanted else "its share's memory does not fit"
    why = f"{need} of one GPU, and the most that one has left is {most} MiB ({device.id} on {node})"
    return Finding("gpu-memory", why, (f"ask for at most {most} MiB", "wait until a pod there ends"))


def cpu(case: Case) -> Finding:
    """Too little CPU."""
    return _host(case, "cpu", "cpu_milli", case.shape.resources.cpu_milli, cores)


def memory(case: Case) -> Finding:
    """Too little memory."""
    return _host(case, "memory", "memory_bytes", case.shape.resources.memory_bytes, _memory_words)


def storage(case: Case) -> Finding:
    """Too little local storage."""
    asked = case.shape.resources.ephemeral_storage_bytes
    return _host(case, "storage", "ephemeral_storage_bytes", asked, MISSING["ephemeral_storage_bytes"])


def pods(case: Case) -> Finding:
    """Nodes that run as many pods as they may."""
    most = max(room.node.allocatable.pods for room in case.near_rooms)
    why = f"the {counted(len(case.near), 'node')} that would do run as many pods as they may (at most {most})"
    return Finding("pods", why, ("wait until a pod there ends", "raise the kubelets' maxPods"))


def _memory_words(amount: int) -> str:
    return f"{gibibytes(amount)} of memory"


def _host(case: Case, cause: str, name: str, asked: int, words: Callable[[int], str]) -> Finding:
    largest = max(getattr(room.node.allocatable, name) for room in case.near_rooms)
    on = "with the GPUs for it " if case.shape.gpu.count else ""
    if asked > largest:
        why = f"it needs {words(asked)}, and the largest node {on}has {words(largest)} when it is empty"
        return Finding(cause, why, (f"ask for at most {words(largest)}",))
    best = max(case.near_rooms, key=lambda room: room.amount(name))
    left = max(0, best.amount(name))
    nodes = counted(len(case.near), "node")
    why = f"it needs {words(asked)}; of the {nodes} {on or 'that would do '}".rstrip()
    why += f" {best.node.name} has the most left, {words(left)}"
    missing = asked - left

    def weight(entry: Entry) -> int:
        return 0 if entry.meaning is None else int(getattr(entry.meaning.shape.resources, name))

    holders = sorted(best.holders, key=lambda entry: (-weight(entry), str(entry.name)))
    ends = [
        f"it fits on {best.node.name} when {listed(str(one.name) for one in enough)} {end(len(enough))}"
        for enough in [_enough(holders, weight, missing)]
        if enough
    ]
    smaller = [f"ask for at most {words(left)}"] if left else []
    return Finding(cause, why, (*smaller, *ends))


def other_resource(case: Case) -> Finding:
    """A resource by name, such as huge pages, network cards or MIG instances."""
    lacking = [
        (name, amount)
        for name, amount in case.shape.resources.other
        if all(room.amount(name) < amount for room in case.near_rooms)
    ] or list(case.shape.resources.other)
    name, asked = lacking[0]
    offered = {other: 0 for node in case.nodes for other, _ in node.allocatable.other}
    if name not in offered:
        return _unknown_resource(name, list(offered))
    best = max(case.near_rooms, key=lambda room: room.amount(name))
    largest = max(dict(room.node.allocatable.other).get(name, 0) for room in case.near_rooms)
    if largest < asked:
        most = f"the most that a node that would do offers is {largest}"
        why = f"it needs {asked} of {harmless(name)}, and {most}"
        ways = (f"ask for at most {largest} of {harmless(name)}",) if largest else _who_offers(case, name)
        return Finding("other-resource", why, ways)
    left = max(0, best.amount(name))
    why = f"it needs {asked} of {harmless(name)}, and {best.node.name} has the most left, {left}"

    def weight(entry: Entry) -> int:
        return 0 if entry.meaning is None else _amount(entry.meaning.shape.resources, name)

    holders = sorted(best.holders, key=lambda entry: (-weight(entry), str(entry.name)))
    enough = _enough(holders, weight, asked - left)
    ends = (
        f"it fits on {best.node.name} when {listed(str(one.name) for one in enough)} {end(len(enough))}"
        if enough
        else ""
    )
    return Finding("other-resource", why, (ends or f"wait until {harmless(name)} comes free",))


def _amount(resources: Resources, name: str) -> int:
    return dict(resources.other).get(name, 0)


def _who_offers(case: Case, name: str) -> tuple[str, ...]:
    offering = [node.name for node in case.nodes if dict(node.allocatable.other).get(name)]
    return (f"{harmless(name)} is offered by {listed(offering)}; let the pod run there",)


def _unknown_resource(name: str, offered: list[str]) -> Finding:
    why = f"no node offers {harmless(name)}"
    meant = nearest(name, [*offered, "nvidia.com/gpu", "amd.com/gpu"])
    ways = [f"did you mean {harmless(meant)}?"] if meant else []
    if name.startswith("nvidia.com/mig-"):
        ways.append("no GPU is split into MIG instances of this profile; ask for a whole GPU or a fraction")
    ways.append("if a device plugin shall offer it, see whether the plugin runs on the nodes")
    return Finding("unknown-resource", why, tuple(ways))


CAUSES: dict[str, Explain] = {
    "gpu-busy": in_use,
    "gpu-fragmented": in_pieces,
    "gpu-memory": gpu_memory,
    "cpu": cpu,
    "memory": memory,
    "pods": pods,
    "storage": storage,
    "other-resource": other_resource,
}
