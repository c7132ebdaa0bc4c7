"""Tells pods whose containers name devices in a variable of their own that it counts for nothing.

Guides have people write ``NVIDIA_VISIBLE_DEVICES=all`` beside the limit. The container sees what it was
granted all the same, and its owner may wonder why these are fewer. Where the variable would win, such a
container was refused before it could hold a device. Told once for each container while the agent runs.
"""

from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.holders.held_parts import PodName
from gpufleet.agent.state.node_state import Held, Holders, NodePods
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.kube.keys import VISIBLE_DEVICES

REASON = "DeviceVariableIgnored"


class VariableEvents:
    """Writes them while ``run`` runs."""

    def __init__(self, events: PodEvents, pods: Topic[NodePods], holders: Topic[Holders]) -> None:
        self._events = events
        self._pods = pods
        self._holders = holders

    async def run(self) -> None:
        """Follow pods and holders until cancelled."""
        told: set[tuple[str, str]] = set()
        async for _ in any_change(self._pods, self._holders):
            naming = {(one.pod_uid, one.container): one for one in self._holders.value if self._names(one)}
            for key in sorted(naming.keys() - told):
                held = naming[key]
                pod = PodName(held.namespace, held.pod, held.pod_uid)
                await self._events.write("Normal", pod, REASON, "Allocating", note_of(held))
            told = set(naming)

    def _names(self, held: Held) -> bool:
        pod = self._pods.value.get(held.pod_uid)
        return pod is not None and held.container in pod.named_devices


def note_of(held: Held) -> str:
    """What is told of one container."""
    return (
        f"container {held.container} sets {VISIBLE_DEVICES} itself, which counts for nothing: "
        "it sees the devices that it was granted, and no others"
    )
