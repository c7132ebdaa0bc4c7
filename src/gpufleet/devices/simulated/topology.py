"""The topology of fake-gpu-operator, read as a simulated machine.

That simulator describes a cluster by pools of nodes, in two forms that may stand side by side:

    nodePools:
      default: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441}
      big:
        gpu: {backend: fake, profile: h100, overrides: {device_count: 4}}
        numa: {zones: 2, gpusPerZone: [3, 1]}

and, in a ConfigMap for each node, what it made of them (``gpuMemory``, ``gpuProduct``, ``gpus`` with
ids). All may come bare, inside their ConfigMap, or as the chart's values. Fields without a meaning here
are listed as notices, unknown ones refused. ``description`` is the value that comes out.
"""

import msgspec

from gpufleet.devices.device_errors import MachineError
from gpufleet.devices.documents import Notice, converted
from gpufleet.devices.simulated.description import (
    Description,
    DriverText,
    GpusText,
    MachineText,
    described,
    find_model,
)
from gpufleet.devices.simulated.topology_profiles import PROFILES, Profile
from gpufleet.devices.simulated.topology_text import ClusterText, GpuText, NodeText, NumaText, Overrides
from gpufleet.devices.yaml_text import read_yaml
from gpufleet.model.gpu_model import matching
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.label_advice import nearest

TOPOLOGY_KEY = "topology.yml"
POOL_DEFAULT = "default"
# Profiles of the simulator give bytes.
BYTES_PER_MIB = 1024 * 1024
HONOURED = {
    "device_count",
    "device_defaults.name",
    "device_defaults.memory.total_bytes",
    "device_defaults.memory.reserved_bytes",
    "device_defaults.power.default_limit_mw",
    "system.driver_version",
    "system.cuda_version",
}
"""The overrides of a profile that a simulated machine has; of ``devices`` the number counts."""

# Fields of the simulator's files that mean nothing here, with the reason that people are told.
STRATEGY = "how instances are offered is the agent's setting, not the machine's"
OTHERS = "only GPUs are simulated here"
CLUSTER_FIELDS = {
    "nodePoolLabelKey": "the pool is chosen by the program that reads the file",
    "migStrategy": STRATEGY,
    "gpuOperator": "no operator is installed here",
    "components": "the simulator's own programs are not used here",
}
# Fields of a profile that only a scheduler of NUMA nodes reads.
NUMA_FIELDS = ("topologyManagerPolicy", "topologyManagerScope", "cpuPerZone", "memPerZone", "distances")


class Topology(msgspec.Struct, frozen=True):
    """The machine of a topology, and what of the file has no effect."""

    description: Description
    notices: tuple[Notice, ...] = ()


def read_topology(text: str | bytes, pool: str = POOL_DEFAULT, where: str = "") -> Topology:
    """The machine that a node of this pool is. Raises MachineError naming the field."""
    plain = _unwrapped(read_yaml(text, where, MachineError), where)
    if "nodePools" in plain:
        return _of_pool(converted(plain, ClusterText, where, MachineError), pool, where)
    if "gpus" in plain:
        return _of_node(converted(plain, NodeText, where, MachineError), where)
    expected = "nodePools, or gpus in the file of one node"
    if "config" in plain or "nodes" in plain:
        expected += "; node-autofill and nodes are fields of old versions, write them as pools"
    raise MachineError("no topology of fake-gpu-operator", expected=expected, where=where)


def _unwrapped(plain: object, where: str) -> dict[str, object]:
    """The topology without the ConfigMap or the chart's values around it."""
    if isinstance(plain, dict) and plain.get("kind") == "ConfigMap":
        data = plain.get("data")
        inner = data.get(TOPOLOGY_KEY) if isinstance(data, dict) else None
        if not isinstance(inner, str):
            raise MachineError("key missing", field=f"data.{TOPOLOGY_KEY}", expected="text", where=where)
        plain = read_yaml(inner, where, MachineError)
    elif isinstance(plain, dict) and isinstance(plain.get("topology"), dict):
        plain = plain["topology"]
    if not isinstance(plain, dict):
        raise MachineError("no topology", value=plain, expected="a mapping with nodePools", where=where)
    return plain


def _of_pool(cluster: ClusterText, name: str, where: str) -> Topology:
    pool = cluster.node_pools.get(name)
    if pool is None:
        pools = ", ".join(sorted(cluster.node_pools)) or "none in this file"
        raise MachineError("no such pool", field="nodePools", value=name, expected=pools, where=where)
    field = f"nodePools.{name}"
    notices = [Notice(one, reason) for one, reason in CLUSTER_FIELDS.items() if _is_set(cluster, one)]
    notices += [
        Notice(f"{field}.{one}", OTHERS) for one in ("resources", "otherDevices") if _is_set(pool, one)
    ]
    if pool.gpu is None:
        count = pool.gpu_count
        profile = _profile(pool.gpu_product, pool.gpu_memory, f"{field}.gpuProduct", where) if count else None
    else:
        if any(_is_set(pool, one) for one in ("gpuProduct", "gpuCount", "gpuMemory")):
            raise MachineError("both forms of a pool in one", field=field, expected="gpu alone", where=where)
        profile, count = _overridden(pool.gpu, f"{field}.gpu", where)
        notices += [
            Notice(f"{field}.gpu.overrides.{path}", "a simulated machine has no such setting")
            for path in _leaves(pool.gpu.overrides)
            if path not in HONOURED
        ]
    if pool.numa is not None:
        notices += [
            Notice(f"{field}.numa.{one}", "only the NUMA node of each GPU is simulated")
            for one in NUMA_FIELDS
            if _is_set(pool.numa, one)
        ]
    found = _description(profile, count, where)
    zones = _zones(pool.numa, count, f"{field}.numa", where)
    return Topology(_placed(found, zones), tuple(notices))


def _of_node(node: NodeText, where: str) -> Topology:
    notices = [Notice("migStrategy", STRATEGY)] if node.mig_strategy else []
    notices += [Notice("otherDevices", OTHERS)] if node.other_devices else []
    if any(gpu.status for gpu in node.gpus):
        notices.append(Notice("gpus[].status", "use follows the pods that are there, not the file"))
    profile = _profile(node.gpu_product, node.gpu_memory, "gpuProduct", where)
    profile = msgspec.structs.replace(
        profile, driver_version=node.driver_version, cuda_version=node.cuda_version
    )
    ids = tuple(DeviceId(gpu.id) for gpu in node.gpus)
    twice = next((one for at, one in enumerate(ids) if one in ids[:at]), None)
    if twice is not None:
        raise MachineError("two GPUs of one id", field="gpus[].id", value=twice, where=where)
    zones = tuple(gpu.numa_node or 0 for gpu in node.gpus)
    return Topology(_placed(_description(profile, len(ids), where), zones, ids), tuple(notices))


def _profile(product: str, memory_mib: int, field: str, where: str) -> Profile:
    """The GPU of a product's name; where the name leaves the size open, of the nearest size."""
    # A name such as "A100" is that of several sizes.
    found = sorted(matching(product), key=lambda model: abs((model.memory_mib or 0) - memory_mib))
    model = found[0] if found and memory_mib else find_model(product, field, where)
    text = GpusText(str(model.name))
    return Profile(
        text.model, 0, memory_mib or model.memory_mib or 0, text.reserved_mib, text.power_limit_w, "", ""
    )


def _overridden(gpu: GpuText, field: str, where: str) -> tuple[Profile, int]:
    """The profile with the pool's own values, and how many GPUs there are."""
    own = converted(gpu.overrides, Overrides, where, MachineError, f"{field}.overrides")
    defaults, memory, power = own.device_defaults, own.device_defaults.memory, own.device_defaults.power
    total_mib = None if memory.total_bytes is None else memory.total_bytes // BYTES_PER_MIB
    if gpu.profile and gpu.profile not in PROFILES:
        expected = f"one of {', '.join(PROFILES)}, or its values as overrides"
        meant = nearest(gpu.profile, PROFILES)
        expected += f"; did you mean {meant}?" if meant else ""
        raise MachineError(
            "no such profile", field=f"{field}.profile", value=gpu.profile, expected=expected, where=where
        )
    if gpu.profile:
        base = PROFILES[gpu.profile]
    else:
        base = _profile(defaults.name or "", total_mib or 0, f"{field}.overrides.device_defaults.name", where)
    if gpu.profile and defaults.name is not None:
        name_field = f"{field}.overrides.device_defaults.name"
        named = _profile(defaults.name, total_mib or base.memory_mib, name_field, where)
        base = msgspec.structs.replace(base, model=named.model)
    given = {
        "memory_mib": total_mib,
        "reserved_mib": None if memory.reserved_bytes is None else memory.reserved_bytes // BYTES_PER_MIB,
        "power_limit_w": None if power.default_limit_mw is None else power.default_limit_mw // 1000,
        "driver_version": own.system.driver_version,
        "cuda_version": own.system.cuda_version,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    count = own.device_count or (base.count if own.devices is None else len(own.devices))
    return msgspec.structs.replace(base, **changed), count


def _zones(numa: NumaText | None, count: int, field: str, where: str) -> tuple[int, ...]:
    """The NUMA node of each GPU: as written, else evenly with what is over on the first ones."""
    if numa is None or numa.zones < 1:
        return (0,) * count
    each, over = divmod(count, numa.zones)
    # No zone without a GPU is made up: fewer GPUs than zones leave the last ones out.
    sizes = numa.gpus_per_zone or tuple(each + (zone < over) for zone in range(min(numa.zones, count)))
    if numa.gpus_per_zone and (len(sizes) != numa.zones or sum(sizes) != count or min(sizes) < 0):
        expected = f"{numa.zones} counts that add up to {count}"
        field = f"{field}.gpusPerZone"
        raise MachineError("not all GPUs", field=field, value=list(sizes), expected=expected, where=where)
    return tuple(zone for zone, size in enumerate(sizes) for _ in range(size))


def _description(profile: Profile | None, count: int, where: str) -> Description:
    if profile is None:
        return described(MachineText(()), where)
    text = GpusText(
        profile.model,
        count,
        profile.memory_mib,
        profile.reserved_mib,
        power_limit_w=profile.power_limit_w,
    )
    driver = DriverText(profile.driver_version, profile.cuda_version)
    return described(MachineText((text,), driver), where)


def _placed(found: Description, zones: tuple[int, ...], ids: tuple[DeviceId, ...] = ()) -> Description:
    """The GPUs on these NUMA nodes, with these ids."""
    groups = tuple(msgspec.structs.replace(group, numa_nodes=zones, uuids=ids) for group in found.groups)
    return msgspec.structs.replace(found, groups=groups)


def _is_set(text: msgspec.Struct, encoded: str) -> bool:
    """Whether a field of the file says something."""
    names = zip(text.__struct_encode_fields__, text.__struct_fields__, strict=True)
    return bool(getattr(text, dict(names)[encoded]))


def _leaves(value: dict[str, object], under: str = "") -> list[str]:
    """The paths of everything that is written there."""
    found = []
    for name, inner in value.items():
        path = f"{under}{name}"
        if isinstance(inner, dict):
            found += _leaves(inner, f"{path}.")
        # Empty entries only say how many devices there are, and that is honoured.
        elif path != "devices" or (isinstance(inner, list) and any(inner)):
            found.append(path)
    return found
