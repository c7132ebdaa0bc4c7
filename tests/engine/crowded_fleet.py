"""A random fleet with odd devices, pods that run by decision or by fact, and pods that wait.

The starting point of the property tests: whatever holds must hold from any such state. The same
bookings are kept as plain nodes.
"""

import random

from gpufleet.engine.arrays.layout import PodState
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import Story, pod
from tests.engine.plain_fleet import PlainNode
from tests.engine.random_fleets import odd_node, odd_shape


class CrowdedFleet:
    """A story that has got to some random state."""

    def __init__(self, seed: int, policy: str = "best-fit", nodes: int = 4, pods: int = 25) -> None:
        self.chance = random.Random(seed)
        self.story = Story(policy, seed=seed)
        self.nodes = [odd_node(self.chance, f"n{rank}") for rank in range(nodes)]
        self.story.nodes(*self.nodes)
        for number in range(pods):
            self._one_more(f"p{number}")

    def _one_more(self, uid: str) -> None:
        chance, story = self.chance, self.story
        one = pod(uid, odd_shape(chance))
        if chance.random() < 0.25:
            self._turns_out_to_run(one)
        else:
            story.arrive(one)
        if chance.random() < 0.2 and story.binds:
            story.depart(chance.choice(list(story.binds)))

    def _turns_out_to_run(self, one: Pod) -> None:
        """A fact, which may over-commit the node or name no device."""
        place = self.chance.choice(self.nodes)
        ids = [str(device.id) for device in place.devices]
        count = min(one.shape.gpu.count, len(ids))
        held: list[str | None] = list(self.chance.sample(ids, count))
        if held and self.chance.random() < 0.3:
            held[0] = None
        self.story.run_on(one, place.name, *held)

    @property
    def shapes(self) -> list[Shape]:
        """Every shape that a pod has."""
        state = self.story.engine.state
        return list(dict.fromkeys(one.shape for one in state.pods.pods if one is not None))

    def shape_row(self, shape: Shape) -> int:
        """The engine's row of a shape."""
        return self.story.engine.state.shapes.row_by_shape[shape]

    def in_state(self, *states: PodState) -> list[PodUid]:
        """Pods that stand so."""
        pods = self.story.engine.state.pods
        return [uid for uid, row in pods.row_by_uid.items() if pods.state(row) in states]

    def plain_nodes(self) -> dict[NodeName, PlainNode]:
        """The same fleet recounted from who sits where."""
        state = self.story.engine.state
        plain = {
            state.fleet.node_at(row).name: PlainNode(state.fleet.node_at(row))
            for row in state.fleet.row_by_name.values()
        }
        for row in state.pods.row_by_uid.values():
            place = state.pods.node_row(row)
            if place is not None:
                held: tuple[DeviceId, ...] = tuple(
                    one for one in state.pods.device_ids(row) if one is not None
                )
                plain[state.fleet.node_at(place).name].take(state.pods.pod_at(row).shape, held)
        return plain
