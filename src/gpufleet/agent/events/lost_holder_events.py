"""Tells pods that run on devices of which the kubelet does not know any more.

Such a pod goes on, and its devices are kept for it; but the kubelet counts them as free, so that it is better
made anew when that suits. Told once for each container, in an Event and in the log.
"""

import logging

from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.holders.held_parts import PodName
from gpufleet.agent.state.node_state import Held, Holders
from gpufleet.agent.state.topic import Topic

LOG = logging.getLogger(__name__)
REASON = "DeviceUnknownToKubelet"


class LostHolderEvents:
    """Writes them while ``run`` runs."""

    def __init__(self, events: PodEvents, holders: Topic[Holders]) -> None:
        self._events = events
        self._holders = holders

    async def run(self) -> None:
        """Follow the holders until cancelled."""
        told: set[tuple[str, str, str]] = set()
        async for holders in self._holders.follow():
            lost = {(one.pod_uid, one.container, one.resource): one for one in holders if one.lost}
            for key in sorted(lost.keys() - told):
                await self._tell(lost[key])
            told = set(lost)

    async def _tell(self, held: Held) -> None:
        note = note_of(held)
        LOG.warning("the kubelet does not know a holder", extra={"pod": held.title, "told": note})
        pod = PodName(held.namespace, held.pod, held.pod_uid)
        await self._events.warn(pod, REASON, "Watching", note)


def note_of(held: Held) -> str:
    """What is told of one container."""
    units = ", ".join(held.units)
    what = f"{units} ({held.resource})" if units else held.resource
    return (
        f"container {held.container} runs on {what}, and the kubelet does not list it as a holder: it has "
        "lost its record of devices. They stay this pod's until it is finished; a new pod in its place is "
        "known to the kubelet again"
    )[:1000]
