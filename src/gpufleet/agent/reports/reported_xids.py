"""What the node's report in the API says against its GPUs: the errors that this boot's agent wrote there.

Asked only where the agent's own record of health cannot be believed. A report that cannot be had says
nothing.
"""

import asyncio
import logging
import re

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.node_devices import decode_node_devices
from gpufleet.kube.resources import NODE_DEVICES
from gpufleet.model.identifiers import DeviceId

LOG = logging.getLogger(__name__)
# GPUs are not judged before; without an answer they are judged by what they say themselves.
WAIT_S = 10.0
_XID = re.compile(r"\bXid ([0-9]{1,6}): ")
"""As ``devices.health`` writes it into a reason."""


async def reported_xids(client: Client, node: str, boot_id: str) -> dict[DeviceId, tuple[int, ...]]:
    """The errors that keep GPUs out of service, by UUID."""
    try:
        async with asyncio.timeout(WAIT_S):
            report = decode_node_devices(await client.get(NODE_DEVICES, node)).spec
    except (KubeError, TimeoutError) as error:
        LOG.warning("the node's report is not known", extra={"problem": str(error) or "no answer"})
        return {}
    if report.boot_id != boot_id:
        return {}
    codes = {one.id: _XID.findall(one.health_reason) for one in report.devices}
    return {DeviceId(uuid): tuple(map(int, its)) for uuid, its in codes.items() if its}
