"""The holders in this node's report in the API: a source that outlives the agent's own disk.

Read once, when the agent begins. A report of another boot says nothing.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator

from gpufleet.agent.holders.holder_record import RememberedHolder
from gpufleet.agent.state.node_state import NodePods
from gpufleet.agent.units.granted_units import UnitIndex
from gpufleet.agent.units.node_units import Units
from gpufleet.agent.units.share_slots import PREFIX
from gpufleet.kube import keys
from gpufleet.kube.answer import AnswerUnreadable
from gpufleet.kube.client import Client
from gpufleet.kube.objects.node_devices import Holder, decode_node_devices
from gpufleet.kube.resources import NODE_DEVICES
from gpufleet.kube.status import NotFound
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId

LOG = logging.getLogger(__name__)
# Without an answer the server is asked again a second later.
WAIT_S = 5.0
_KINDS = {kind.value: kind for kind in GrantKind}


async def reported_holders(client: Client, node: str, boot_id: str) -> tuple[Holder, ...]:
    """The holders of the node's report. Raises KubeError and TimeoutError where it cannot be had now."""
    try:
        async with asyncio.timeout(WAIT_S):
            report = decode_node_devices(await client.get(NODE_DEVICES, node)).spec
    except NotFound:
        return ()
    except AnswerUnreadable as problem:
        LOG.warning("the holders of the node's report are not known", extra={"problem": str(problem)})
        return ()
    return report.holders if report.boot_id == boot_id else ()


def kept_of_report(
    holders: Iterable[Holder], pods: NodePods, index: UnitIndex, units: Units
) -> Iterator[RememberedHolder]:
    """What the report says of pods that are there, in the kubelet's units."""
    for holder in holders:
        pod = pods.get(holder.pod_uid)
        if pod is None:
            continue
        by_resource: dict[str, set[str]] = {}
        for name in _names(holder, index):
            if name in units:
                by_resource.setdefault(units[name].resource, set()).add(name)
            elif name.startswith(PREFIX):
                by_resource.setdefault(keys.GPU_SHARE, set()).add(name)
        for resource, names in by_resource.items():
            given = tuple(sorted(names))
            yield RememberedHolder(pod.uid, pod.namespace, pod.name, holder.container, resource, given)


def _names(holder: Holder, index: UnitIndex) -> tuple[str, ...]:
    """The units of a holder. A part that the report does not name by its units cannot be told."""
    kind = _KINDS.get(holder.kind)
    if holder.units or kind is None or kind is GrantKind.SHARE:
        return holder.units
    part = GrantedDevice(
        DeviceId(holder.device), kind, mig_profile=holder.mig_profile, mig_start=holder.mig_start
    )
    return tuple(unit.id for unit in index.fitting(part))
