"""Plans for a node's GPUs from the settings of NVIDIA's device plugin.

The plugin shares every device of a resource alike, so a plan follows from what resource a GPU is: a
whole one, or instances under their profiles' names (strategy mixed) or under that of whole GPUs (single).
"""

from gpufleet.devices.documents import Notice
from gpufleet.devices.facts import Fleet, GpuFacts
from gpufleet.devices.sharing.plan import (
    Exclusive,
    Mig,
    Mode,
    Mps,
    NodePlans,
    SharingPlan,
    Spot,
    TimeSlice,
    check_clients,
    unshared,
)
from gpufleet.devices.sharing.plugin import PREFIX
from gpufleet.devices.sharing.plugin_config import PluginConfig
from gpufleet.model.gpu_catalogue import Vendor

GPU = f"{PREFIX}gpu"


def plugin_plans(config: PluginConfig, fleet: Fleet, where: str = "") -> NodePlans:
    """A plan for each GPU. Raises SharingError where the settings do not fit this node."""
    if fleet.driver.vendor is not Vendor.NVIDIA:
        notice = Notice("sharing", "the format is for NVIDIA's GPUs, and this node has others")
        return NodePlans(tuple(SharingPlan(gpu.uuid, unshared(gpu)) for gpu in fleet.gpus), (notice,))
    # With the strategy none a cut GPU is offered as if it were whole, as NVIDIA's plugin does.
    cut = [gpu for gpu in fleet.gpus if gpu.mig_enabled] if config.mig_strategy != "none" else []
    if config.mig_strategy == "single" and cut:
        _check_single(fleet, Spot(where, "flags.migStrategy"))
    plans = tuple(_plan(gpu, config, cut=gpu in cut, where=where) for gpu in fleet.gpus)
    offered = {name for gpu in fleet.gpus for name in _names(gpu, config, cut=gpu in cut)}
    field = "sharing.mps" if config.replication and config.replication.mps else "sharing.timeSlicing"
    resources = () if config.replication is None else config.replication.resources
    # One config is for nodes of many kinds, so a name without a device is told and not refused.
    unused = [one.name for one in resources if one.name not in offered]
    return NodePlans(plans, tuple(Notice(f"{field}: {name}", _no_device(name, offered)) for name in unused))


def _no_device(name: str, offered: set[str]) -> str:
    """What is said of a resource that no device of the node is. A cut GPU is not what guides share."""
    told = "this node has no device of that name"
    if name != GPU or not offered:
        return told
    return f"{told}, as its GPUs are cut into {', '.join(sorted(offered))}"


def resource_name(profile: str) -> str:
    """The resource of a MIG profile: 1g.5gb+me is nvidia.com/mig-1g.5gb.me."""
    return f"{PREFIX}mig-{profile.replace('+', '.')}"


def _plan(gpu: GpuFacts, config: PluginConfig, *, cut: bool, where: str) -> SharingPlan:
    replication = config.replication
    replicas = {} if replication is None else {one.name: one.replicas for one in replication.resources}
    shared = [name for name in _names(gpu, config, cut=cut) if name in replicas]
    if replication is None or not shared:
        return SharingPlan(gpu.uuid, _instances(gpu, config, {}) if cut else Exclusive())
    if cut and replication.mps:
        spot = Spot(where, "sharing.mps")
        raise spot.refuse("the card is cut into instances", gpu.uuid, "MPS on whole GPUs only")
    if cut:
        mode: Mode = _instances(gpu, config, replicas)
    elif replication.mps:
        mode = _mps(gpu, replicas[GPU], Spot(where, "sharing.mps"))
    else:
        mode = TimeSlice(replicas[GPU])
    return SharingPlan(gpu.uuid, mode, replication.renamed, replication.one_at_most)


def _mps(gpu: GpuFacts, clients: int, spot: Spot) -> Mps:
    """Clients with equal parts, as NVIDIA's plugin limits them."""
    check_clients(gpu, clients, spot)
    # The plugin divides all memory, also what the driver keeps: a file means the same here and there.
    equal_mib = None if gpu.memory_mib is None else gpu.memory_mib // clients
    return Mps(clients, equal_mib, 100 // clients)


def _instances(gpu: GpuFacts, config: PluginConfig, replicas: dict[str, int]) -> Mig:
    """The instances that a GPU has, with the replicas of each profile that is replicated."""
    single = config.mig_strategy == "single"
    names = {one.profile: GPU if single else resource_name(one.profile) for one in gpu.mig}
    shared = {profile: replicas[name] for profile, name in names.items() if name in replicas}
    return Mig(None, shared, as_gpus=single)


def _names(gpu: GpuFacts, config: PluginConfig, *, cut: bool) -> list[str]:
    """The resources that a GPU's devices are."""
    if not cut or config.mig_strategy == "single":
        return [GPU]
    return [resource_name(one.profile) for one in gpu.mig]


def _check_single(fleet: Fleet, spot: Spot) -> None:
    """Strategy single: every GPU is cut, and all instances are of one profile."""
    whole = next((gpu for gpu in fleet.gpus if not gpu.mig_enabled), None)
    if whole is not None:
        raise spot.refuse("not every GPU is cut", f"{whole.uuid} is whole", "mixed, or MIG on all of them")
    profiles = sorted({one.profile for gpu in fleet.gpus for one in gpu.mig})
    empty = next((gpu.uuid for gpu in fleet.gpus if not gpu.mig), None)
    if len(profiles) != 1 or empty is not None:
        found = ", ".join(profiles) if empty is None else f"{empty} has no instance"
        raise spot.refuse("not one profile on all GPUs", found, "mixed, or one profile")
