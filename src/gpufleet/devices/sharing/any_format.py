"""A configuration of sharing in whichever format it is written: ours, or NVIDIA's config file v1.

``version`` tells them apart. A node with GPUs of several makers has one fleet for each; ours speaks of
all of them, NVIDIA's of NVIDIA's alone.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.documents import Notice
from gpufleet.devices.facts import Fleet, GpuFacts
from gpufleet.devices.sharing.delivery_options import DeliveryOptions, delivery_options
from gpufleet.devices.sharing.own import read_sharing
from gpufleet.devices.sharing.plan import Mig, SharingPlan, unshared
from gpufleet.devices.sharing.plugin import read_plugin_config
from gpufleet.devices.sharing.plugin_config import PLUGIN_DEFAULT, Discovery, PluginConfig
from gpufleet.devices.sharing.plugin_plans import plugin_plans
from gpufleet.devices.yaml_text import read_yaml
from gpufleet.model.identifiers import DeviceId

OWN_GROUP = "gpufleet.io/"
GpuPlans = dict[DeviceId, SharingPlan]


class NodeSharing(msgspec.Struct, frozen=True):
    """What a configuration means for one node.

    ``delivery`` and ``discovery`` are None where the configuration says nothing of them, as ours never does.
    """

    plans: GpuPlans
    notices: tuple[str, ...] = ()
    delivery: DeliveryOptions | None = None
    discovery: Discovery | None = None


def read_node_sharing(
    text: str | bytes,
    fleets: Iterable[Fleet],
    pool: str,
    where: str = "",
    environment: Mapping[str, str] | None = None,
    default: PluginConfig = PLUGIN_DEFAULT,
) -> NodeSharing:
    """The plans of all GPUs of a node. Raises SharingError naming the field.

    ``pool`` counts in our format; ``environment`` (the variables of NVIDIA's plugin) and ``default`` in the
    other.
    """
    fleets = tuple(fleets)
    if _is_own(text, where):
        return _own(text, fleets, pool, where)
    config = read_plugin_config(text, where, environment, default=default)
    plans: GpuPlans = {}
    notices = list(config.notices)
    for fleet in fleets:
        found = plugin_plans(config, fleet, where)
        plans.update({plan.uuid: plan for plan in found.plans})
        notices += found.notices
    return NodeSharing(plans, _sentences(notices), delivery_options(config), config.discovery)


def as_they_are(fleets: Iterable[Fleet]) -> NodeSharing:
    """What holds where there is no configuration: every GPU whole, or cut as it is."""
    return NodeSharing(
        {gpu.uuid: SharingPlan(gpu.uuid, unshared(gpu)) for fleet in fleets for gpu in fleet.gpus}
    )


def _is_own(text: str | bytes, where: str) -> bool:
    plain = read_yaml(text, where, SharingError)
    if not isinstance(plain, dict):
        return False
    version = plain.get("version")
    # Pools alone are enough: a config of ours without its version is then refused for that.
    return "pools" in plain or (isinstance(version, str) and version.startswith(OWN_GROUP))


def _own(text: str | bytes, fleets: tuple[Fleet, ...], pool: str, where: str) -> NodeSharing:
    plans: GpuPlans = {}
    notices: list[Notice] = []
    for fleet in fleets:
        found = read_sharing(text, fleet, pool, where)
        plans.update({plan.uuid: plan for plan in found.plans})
        notices += found.notices
        for gpu in fleet.gpus:
            notices += _layout_notices(gpu, plans[gpu.uuid])
    return NodeSharing(plans, _sentences(notices))


def _layout_notices(gpu: GpuFacts, plan: SharingPlan) -> list[Notice]:
    """Says where a GPU is cut in another way than the configuration wants."""
    if not isinstance(plan.mode, Mig) or plan.mode.layout is None:
        return []
    found = sorted((one.start, one.profile) for one in gpu.mig)
    wanted = [(one.start, one.profile) for one in plan.mode.layout]
    if found == wanted:
        return []
    has = ", ".join(f"{profile} at {start}" for start, profile in found) or "no instance"
    reason = f"the card has {has}, and this agent does not change instances: what there is is offered"
    return [Notice(f"the layout of {gpu.uuid}", reason)]


def _sentences(notices: Iterable[Notice]) -> tuple[str, ...]:
    # What holds for several GPUs is told once.
    return tuple(dict.fromkeys(str(notice) for notice in notices))
