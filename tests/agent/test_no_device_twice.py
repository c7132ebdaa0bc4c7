"""Whatever the order, no unit is given to two pods, and none out of a grant to a pod that was not granted it.

A machine of random stories: a scheduler grants devices that are free by its books, people bind pods past it,
a kubelet admits pods in any order and follows our preference or does not, word of it all arrives late.
"""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpufleet.agent.device_plugin.whole_device_allocator import WholeDeviceAllocator
from gpufleet.agent.state.node_state import NodePod
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.devices.sharing.plan import TimeSlice
from tests.agent.plugin_world import PluginWorld, a_gpu, a_node, a_pod, answered, held

CARDS = 6
REPLICAS = 2


class Node(RuleBasedStateMachine):
    """One node and everybody around it."""

    @initialize(replicated=st.booleans())
    def begin(self, replicated: bool) -> None:
        """Whole cards, or replicas."""
        mode = TimeSlice(REPLICAS) if replicated else None
        self.world = PluginWorld(a_node(*(a_gpu(index, mode) for index in range(CARDS))))
        self.allocator: WholeDeviceAllocator = self.world.allocator()
        self.replicated = replicated
        self.born = 0

    @property
    def living(self) -> list[NodePod]:
        """The pods that did not end."""
        return [pod for pod in self.world.pods.values() if not pod.finished]

    @property
    def holding(self) -> dict[str, frozenset[str]]:
        """Who holds what, by the pods' names."""
        return {one.pod: frozenset(one.units) for one in self.world.holders}

    @property
    def waiting(self) -> list[NodePod]:
        """Those that the kubelet has still to admit."""
        return [pod for pod in self.living if pod.name not in self.holding]

    def own(self, pod: NodePod) -> frozenset[str]:
        """What a pod was granted."""
        grant = pod.grant
        return frozenset(one.id for part in (grant.containers if grant else ()) for one in part.devices)

    @precondition(lambda self: not self.world.silent)
    @rule(size=st.integers(1, 3), data=st.data())
    def grant(self, size: int, data: st.DataObject) -> None:
        """The scheduler knows its own grants, and the facts of a moment ago."""
        taken = {unit for units in self.holding.values() for unit in units}
        cards = {unit.partition("::")[0] for unit in taken} | {
            one for pod in self.living for one in self.own(pod)
        }
        free = [f"GPU-{index}" for index in range(CARDS) if f"GPU-{index}" not in cards]
        if len(free) >= size:
            chosen = data.draw(st.permutations(free))[:size]
            self.bind(a_pod(self.name(), size, grant=chosen, since_s=self.born))

    @precondition(lambda self: not self.world.silent)
    @rule(size=st.integers(1, 3))
    def bind_past_the_scheduler(self, size: int) -> None:
        """By somebody who knows of no grants."""
        self.bind(a_pod(self.name(), size, since_s=self.born))

    @rule()
    def word_arrives(self) -> None:
        """Our copies of pods and holders catch up."""
        self.world.catch_up()

    @rule(silent=st.booleans())
    def api_server_comes_and_goes(self, silent: bool) -> None:
        """While it is away nobody binds a pod, and the last word of those before has arrived."""
        self.world.catch_up()
        self.world.silent = silent

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), choice=st.sampled_from(["ours", "another's", "any"]))
    def admit(self, data: st.DataObject, choice: str) -> None:
        """The kubelet admits a pod, or refuses it, which ends it."""
        pod = data.draw(st.sampled_from(self.waiting))
        size = pod.requests["main"]["nvidia.com/gpu"]
        taken = {unit for units in self.holding.values() for unit in units}
        offered = [name for name in self.allocator.units if name not in taken]
        before = {other.name: self.own(other) for other in self.waiting}
        grants = [own for other in self.living if (own := self.own(other))]
        twins = [own for own in grants if len(own) == size and own <= set(offered)]
        if len(offered) < size:
            self.end(pod)
            return
        try:
            if choice == "ours":
                units = answered(self.allocator.prefer(offered, [], size))
            elif choice == "another's" and twins:
                units = sorted(data.draw(st.sampled_from(twins)))
            else:
                units = data.draw(st.permutations(offered))[:size]
            answered(self.allocator.allocate(units))
        except RefusedError:
            self.end(pod)
            return
        self.judge(pod, frozenset(units), before)
        self.world.holders = (*self.world.holders, held(pod.name, *units))

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """A pod ends by itself."""
        self.end(data.draw(st.sampled_from(self.living)))

    @invariant()
    def each_granted_pod_that_waits_can_still_be_served(self) -> None:
        """Of all cards that were granted there are as many left as pods wait for."""
        if not hasattr(self, "world") or self.replicated:
            return
        taken = {unit for units in self.holding.values() for unit in units}
        granted = {one for pod in self.living for one in self.own(pod)}
        wanted = sum(len(self.own(pod)) for pod in self.waiting)
        assert len(granted - taken) >= wanted

    def judge(self, pod: NodePod, units: frozenset[str], grants: dict[str, frozenset[str]]) -> None:
        """What a pod was given is nobody's, and nobody's grant who waits."""
        taken = {unit for held_units in self.holding.values() for unit in held_units}
        assert not units & taken
        assert len(units) == pod.requests["main"]["nvidia.com/gpu"]
        if not self.own(pod) and not self.replicated:
            others = {one for name, own in grants.items() if name != pod.name for one in own}
            assert not units & others, f"{pod.name} got what was granted to others"

    def bind(self, pod: NodePod) -> None:
        """The API server has it now."""
        self.world.add(pod)

    def end(self, pod: NodePod) -> None:
        """It ended, and the kubelet has taken back what it held."""
        self.world.add(msgspec.structs.replace(pod, finished=True))
        self.world.holders = tuple(one for one in self.world.holders if one.pod != pod.name)

    def name(self) -> str:
        """One that no pod has had."""
        self.born += 1
        return f"pod-{self.born}"


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
