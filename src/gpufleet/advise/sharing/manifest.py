"""What to apply: the agent's sharing configuration, labels of nodes, NVIDIA's config file, what pods say.

Nodes that are shared alike form one pool of the configuration. NVIDIA's device plugin shares all GPUs of a
node alike, so its file is written only for pools where that is so. Shared GPUs are renamed
(``nvidia.com/gpu.shared``), so that a pod that asks for ``nvidia.com/gpu`` still gets a whole one.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from gpufleet.advise.sharing.choosing import Choice, Mode
from gpufleet.advise.sharing.pools import Pool, SharingPlan
from gpufleet.devices.sharing.chosen import POOL_LABEL
from gpufleet.kube import keys
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.node import Node
from gpufleet.model.resource_names import NVIDIA_GPU, NVIDIA_SHARED, mig_resource

# At least so many: a limit of exactly today's pods would refuse the next one.
SHARES_MAX = 10


class NodePool(msgspec.Struct, frozen=True):
    """Nodes that are shared alike: per mode the indices of their GPUs and what the entry says."""

    name: str
    nodes: tuple[NodeName, ...]
    entries: tuple[tuple[tuple[int, ...], str], ...]
    modes: tuple[Pool, ...]
    """The pool of GPUs behind each entry."""
    covers_all: bool
    """Whether the entries name every GPU of the nodes."""


def node_pools(plan: SharingPlan) -> tuple[NodePool, ...]:
    """The groups of nodes on which something is shared, numbered in the order of their first node."""
    groups: dict[tuple[tuple[tuple[int, ...], str], ...], list[tuple[Node, tuple[Pool, ...]]]] = {}
    for node in plan.nodes:
        found = [
            (indices, text, pool)
            for pool in plan.pools
            if pool.mode is not Mode.WHOLE
            for text, indices in _entries(node, pool).items()
        ]
        if found:
            entries = tuple((indices, text) for indices, text, _ in found)
            groups.setdefault(entries, []).append((node, tuple(pool for _, _, pool in found)))
    pools = []
    for number, (entries, members) in enumerate(groups.items(), start=1):
        shared = sum(len(indices) for indices, _ in entries)
        pools.append(
            NodePool(
                f"shared-{number}",
                tuple(node.name for node, _ in members),
                entries,
                members[0][1],
                all(shared == len(node.devices) for node, _ in members),
            )
        )
    return tuple(pools)


def agent_config(pools: Sequence[NodePool]) -> str:
    """The configuration that the agents read."""
    lines = ["version: gpufleet.io/v1alpha1", "pools:"]
    for pool in pools:
        lines.append(f"  {pool.name}:")
        for indices, text in pool.entries:
            lines.append(f"    - {{gpus: [{', '.join(map(str, indices))}], {text}}}")
        if not pool.covers_all:
            lines.append("    - {gpus: rest, exclusive: {}}")
    return "\n".join([*lines, "  default:", "    - {gpus: rest, exclusive: {}}"]) + "\n"


def label_commands(pools: Sequence[NodePool]) -> tuple[str, ...]:
    """How the nodes come into their pools."""
    return tuple(
        f"kubectl label node {' '.join(pool.nodes)} {POOL_LABEL}={pool.name} --overwrite" for pool in pools
    )


def plugin_config(pool: NodePool) -> str:
    """NVIDIA's config file for the nodes of a pool; "" where it cannot say what is wanted."""
    words = {Mode.TIME_SLICE: "timeSlicing", Mode.MPS: "mps"}
    if len(pool.modes) > 1 or not pool.covers_all or pool.modes[0].mode not in words:
        return ""
    only = pool.modes[0]
    return (
        f"version: v1\nsharing:\n  {words[only.mode]}:\n    renameByDefault: true\n"
        f"    resources:\n      - name: {NVIDIA_GPU}\n        replicas: {only.holders}\n"
    )


def pod_part(choice: Choice, pools: Sequence[NodePool]) -> str:
    """What a pod of the workload says: annotations, resources of its container, and where it may run."""
    if choice.mode is Mode.WHOLE:
        return _limits(NVIDIA_GPU, choice.workload.gpus)
    names = [pool.name for pool in pools if any(_has(one, choice) for one in pool.modes)]
    where = f"nodeSelector: {{{POOL_LABEL}: {names[0]}}}\n" if len(names) == 1 else _affinity(names)
    if choice.mode is Mode.MIG:
        return where + _limits(mig_resource(choice.profile), 1)
    if choice.mode is Mode.FRACTION:
        annotations = (
            "annotations:\n"
            f'  {keys.GPU_FRACTION}: "{choice.gpu_milli / 1000:g}"\n'
            f'  {keys.GPU_MEMORY}: "{choice.memory_mib}"\n'
        )
        return annotations + where + _limits(keys.GPU_SHARE, 1)
    return where + _limits(NVIDIA_SHARED, 1)


def _has(pool: Pool, choice: Choice) -> bool:
    return pool.mode is choice.mode and choice.workload.name in pool.workloads


def _limits(resource: str, count: int) -> str:
    return f"resources:\n  limits:\n    {resource}: {count}\n"


def _affinity(names: Sequence[str]) -> str:
    return (
        "affinity:\n  nodeAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution:\n"
        "      nodeSelectorTerms:\n        - matchExpressions:\n"
        f"            - {{key: {POOL_LABEL}, operator: In, values: [{', '.join(names)}]}}\n"
    )


def _entries(node: Node, pool: Pool) -> dict[str, tuple[int, ...]]:
    """What the configuration says of GPUs of the pool, each with those of the node of which it says so."""
    found: dict[str, tuple[int, ...]] = {}
    for at, device in enumerate(node.devices):
        if device.id in pool.on_device:
            text = _entry(pool, device.id)
            found[text] = (*found.get(text, ()), at)
    return found


def _entry(pool: Pool, device: DeviceId) -> str:
    if pool.mode is Mode.MIG:
        counts = Counter(pool.instances[device])
        profiles = ", ".join(f"{name}: {counts[name]}" for name in sorted(counts, reverse=True))
        return f"mig: {{profiles: {{{profiles}}}}}"
    if pool.mode is Mode.MPS:
        return f"mps: {{clients: {pool.holders}, renameByDefault: true}}"
    if pool.mode is Mode.TIME_SLICE:
        return f"timeSlice: {{replicas: {pool.holders}, renameByDefault: true}}"
    most = max(len(on) for on in pool.on_device.values())
    return f"fractions: {{maxShares: {max(SHARES_MAX, most)}}}"
