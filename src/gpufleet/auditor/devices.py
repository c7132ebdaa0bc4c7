"""I1: at no write is more of a device granted or held than there is of it.

A pod has what its node reports that it holds, and as long as nothing is reported what it was granted. A
report that vanishes makes nothing free: what it said last counts until the pod has ended or the node reports
anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpufleet.auditor import grants, pods
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.grants import MIG, WHOLE_MILLI, Part
from gpufleet.auditor.reading import number, rows
from gpufleet.auditor.record import NODE_DEVICES, PODS, Document, Write
from gpufleet.auditor.rules import Rules
from gpufleet.auditor.world import World

SLICES = 7
"""MIG cuts a card into at most seven compute slices."""

Taken = tuple[Part, ...]


class Devices:
    """Which pod has which part of which device, as the writes go by."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._granted: dict[str, Taken] = {}
        self._reported: dict[str, dict[str, Taken]] = {}
        self._facts: dict[str, Taken] = {}
        self._holding: dict[str, Taken] = {}
        self._holders: dict[str, dict[str, Taken]] = defaultdict(dict)

    def follow(self, write: Write, world: World) -> Iterator[Finding]:
        """What broke with this write."""
        if write.kind == NODE_DEVICES and write.value is not None:
            yield from self._each_report(write.value, world)
            touched = self._report(pods.name(write.value), write.value)
        elif write.kind == PODS:
            touched = self._pod(write)
            yield from self._beyond_the_node(write, world)
        else:
            return
        grown: dict[str, None] = {}
        for uid in touched:
            grown |= self._settle(uid)
        for device in grown:
            yield from self._judged(device, world)

    def _pod(self, write: Write) -> list[str]:
        uid = pods.uid(write.latest)
        self._granted.pop(uid, None)
        if write.value is not None and pods.holds(write.value):
            found = grants.of_pod(write.value)
            self._granted[uid] = found.parts if found is not None else ()
        return [uid]

    def _report(self, node: str, report: Document) -> list[str]:
        before, after = self._reported.get(node, {}), held_by_pod(report)
        self._reported[node] = after
        # A report replaces the one before: a pod that it does not name holds nothing of the node any more.
        for uid in before:
            self._facts.pop(uid, None)
        self._facts.update(after)
        return sorted({*before, *after})

    def _settle(self, uid: str) -> dict[str, None]:
        """What the pod has now; returns the devices of which it has more than before."""
        then = self._holding.pop(uid, ())
        now = (self._facts.get(uid) or self._granted[uid]) if uid in self._granted else ()
        for part in then:
            self._holders[part.device].pop(uid, None)
        for part in now:
            own = self._holders[part.device].get(uid, ())
            self._holders[part.device][uid] = (*own, part)
        self._holding[uid] = now
        return {part.device: None for part in now if part not in then}

    def _judged(self, device: str, world: World) -> Iterator[Finding]:
        holders = self._holders[device]
        if not self._rules.swapped.isdisjoint(holders):
            return
        problem = beyond_capacity(
            [part for taken in holders.values() for part in taken], memory_of(world, device)
        )
        if problem:
            names = tuple(sorted(pods.name(world.living[uid]) for uid in holders if uid in world.living))
            yield Finding("I1", world.at_s, names, f"{device} is given away {problem}")

    def _each_report(self, report: Document, world: World) -> Iterator[Finding]:
        """Findings in one node's report: pods that by its own words hold more of a device than there is."""
        node = pods.name(report)
        by_device: dict[str, list[Part]] = defaultdict(list)
        for taken in held_by_pod(report).values():
            for part in taken:
                by_device[part.device].append(part)
        for device, parts in sorted(by_device.items()):
            problem = beyond_capacity(parts, memory_of(world, device))
            if problem:
                yield Finding("I1", world.at_s, (node,), f"{device} is held, as the node reports, {problem}")
        for other, known in world.all(NODE_DEVICES).items():
            if other == node:
                continue
            for twice in sorted(ids_of(known) & ids_of(report)):
                words = f"{twice} is reported by {other}, too: one device would be given out by two nodes"
                yield Finding("I1", world.at_s, (node, other), words)

    def _beyond_the_node(self, write: Write, world: World) -> Iterator[Finding]:
        """GPUs without ids: no more are granted on a node than it was ever seen to have."""
        pod = write.value
        if pod is None or not pods.holds(pod) or grants.of_pod(pod) is None:
            return
        # It was judged when it got its node.
        if write.before is not None and pods.node(write.before):
            return
        node = pods.node(pod)
        here = [one for one in world.living.values() if pods.node(one) == node]
        for resource in sorted(pods.GPU_RESOURCES):
            asked = sum(_count(one, resource) for one in here)
            capacity = world.capacity.get(node, {}).get(resource)
            if _count(pod, resource) and capacity is not None and asked > int(capacity):
                words = f"{asked} of {resource} are given to pods of {node}, which has {capacity}"
                yield Finding("I1", world.at_s, (pods.name(pod), node), words)


def _count(pod: Document, resource: str) -> int:
    """Whole devices of a resource that a pod asks for at once."""
    starting = [_of(one, resource) for one in rows(pod, "spec", "initContainers")]
    running = sum(_of(one, resource) for one in rows(pod, "spec", "containers"))
    # Kubernetes reserves the larger of what init containers need one by one and what the others need
    # together.
    return max([running, *starting])


def _of(container: Document, resource: str) -> int:
    text = pods.requested(container).get(resource, "0")
    return int(text) if text.isdecimal() else 0


def ids_of(report: Document) -> set[str]:
    """The devices that a report lists."""
    return {str(one["id"]) for one in rows(report, "spec", "devices") if "id" in one}


def held_by_pod(report: Document) -> dict[str, Taken]:
    """What a node reports as held, by the UID of the pod; what others hold under names of their own."""
    found: dict[str, Taken] = {}
    for holder in rows(report, "spec", "holders"):
        if "device" not in holder:
            continue
        whom = str(holder.get("podUID") or f"others on {pods.name(report)}: {holder.get('foreign', '')}")
        parts = found.get(whom, ())
        part = grants.read_part(holder)
        if part not in parts:
            found[whom] = (*parts, part)
    return found


def memory_of(world: World, device: str) -> int:
    """The memory of a device, 0 where no report tells it."""
    for report in world.reports.values():
        for one in rows(report, "spec", "devices"):
            if one.get("id") == device:
                return number(one.get("memoryMiB"))
    return 0


def beyond_capacity(parts: Iterable[Part], memory_mib: int) -> str:
    """How these parts of one device are more than it has, "" where they are not."""
    found = list(parts)
    instances = [part for part in found if part.kind == MIG]
    others = [part for part in found if part.kind != MIG]
    if instances and others:
        return "as MIG instances and in another way at once"
    milli = sum(part.gpu_milli for part in others)
    if milli > WHOLE_MILLI:
        return f"to {milli} thousandths"
    memory = sum(part.memory_mib for part in found)
    if len(found) > 1 and memory_mib and memory > memory_mib:
        return f"to {memory} of {memory_mib} MiB"
    slices = sum(part.slices for part in instances)
    if slices > SLICES:
        return f"to {slices} of {SLICES} slices"
    occupied: set[int] = set()
    for part in instances:
        its = set(range(part.mig_start or 0, (part.mig_start or 0) + max(1, part.slices)))
        if occupied & its:
            return f"twice at slice {min(occupied & its)}"
        occupied |= its
    return ""
