"""Whatever forgets, no unit is in two running containers, and what is free can be had.

A machine of random stories over whole GPUs, replicas and MIG instances: a scheduler that books what it
grants, pods bound past it, a kubelet that loses its record, an agent that starts anew with its folder or
without it, a report that is deleted, pods deleted by force, each alone and two together, before, in the midst
of and after Allocate.
"""

from pathlib import Path

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpufleet.agent.holders.vanished_pods import MARGIN_S
from gpufleet.agent.state.node_state import GRACE_S, NodeGpus, NodePod
from gpufleet.devices.sharing.plan import Mig, TimeSlice
from gpufleet.model.grant import GrantedDevice
from tests.agent.audited_memory import twice
from tests.agent.forgetful_node import ForgetfulNode, Place
from tests.agent.plugin_world import GPU, a_gpu, a_node, a_pod, cut, instance

FOLDER = Path("/state")
PROFILE = "1g.5gb"
MIG_NAME = f"nvidia.com/mig-{PROFILE}"
SHARED = f"{GPU}.shared"
KINDS = ("whole", "replicas", "renamed", "mig")
MEMORIES = ("kubelet", "folder", "report")
DIES = st.sampled_from(["no", "no", "no", "agent", "kubelet"])


def machine(kind: str) -> tuple[NodeGpus, str, dict[str, GrantedDevice | str]]:
    """A node, what it offers, and its units as grants name them: renamed replicas have no name there."""
    if kind == "whole":
        return (
            a_node(*(a_gpu(index) for index in range(4))),
            GPU,
            {f"GPU-{at}": f"GPU-{at}" for at in range(4)},
        )
    if kind == "mig":
        node = a_node(cut(0, *[PROFILE] * 4, mode=Mig(None)))
        return node, MIG_NAME, {f"MIG-0-{at}": instance("GPU-0", PROFILE, at) for at in range(4)}
    mode, renamed = TimeSlice(2), kind == "renamed"
    node = a_node(*(a_gpu(index, mode, renamed=renamed) for index in range(2)))
    names = {} if renamed else {f"GPU-{at}::{n}": f"GPU-{at}::{n}" for at in range(2) for n in range(2)}
    return node, SHARED if renamed else GPU, dict(names)


class _Forgetting(RuleBasedStateMachine):
    """The node, and everything that forgets."""

    @initialize(kind=st.sampled_from(KINDS))
    def begin(self, kind: str) -> None:
        """One kind of devices."""
        gpus, resource, self.names = machine(kind)
        self.node = ForgetfulNode(gpus, resource, FOLDER)
        self.born = 0

    def teardown(self) -> None:
        if hasattr(self, "node"):
            self.node.close()

    @property
    def living(self) -> list[NodePod]:
        """The pods that did not end."""
        return [pod for pod in self.node.api.values() if not pod.finished]

    @property
    def waiting(self) -> list[NodePod]:
        """Those that the kubelet has still to admit."""
        return [pod for pod in self.living if pod.uid not in self.node.admitted]

    def granted(self) -> set[str]:
        """The units that unfinished pods were granted."""
        devices = [
            one for pod in self.living if pod.grant for part in pod.grant.containers for one in part.devices
        ]
        return {
            unit
            for unit, name in self.names.items()
            if any(one == name if isinstance(name, GrantedDevice) else one.id == name for one in devices)
        }

    def free(self) -> list[str]:
        """What a scheduler takes for free: neither granted nor held by anybody whom the node reports."""
        held = {unit for one in self.node.holders.value for unit in one.units}
        return [unit for unit in self.names if unit not in self.granted() | held]

    def name(self) -> str:
        self.born += 1
        return f"pod-{self.born}"

    def place(self, units: list[str], size: int, *, init: bool = False) -> NodePod:
        """A pod with a grant of these units; its init container has the same."""
        names = [self.names[unit] for unit in units]
        before: tuple[int, list[str | GrantedDevice]] | None = (size, names) if init else None
        made = a_pod(
            self.name(), size, grant=names, resource=self.node.resource, since_s=self.born, init=before
        )
        self.node.bind(made)
        return made

    @rule(size=st.integers(1, 2), init=st.booleans(), data=st.data())
    def a_pod_is_granted_units(self, size: int, init: bool, data: st.DataObject) -> None:
        free = self.free()
        assume(len(free) >= size)
        self.place(data.draw(st.permutations(free))[:size], size, init=init)

    @rule(size=st.integers(1, 2))
    def a_pod_is_bound_past_the_scheduler(self, size: int) -> None:
        self.node.bind(a_pod(self.name(), size, resource=self.node.resource, since_s=self.born))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), follows=st.sampled_from([True, True, False]), dies=DIES, starts=st.booleans())
    def the_kubelet_admits(self, data: st.DataObject, follows: bool, dies: str, starts: bool) -> None:
        """Somebody may die after the answer: the kubelet before it wrote it down."""
        pod = data.draw(st.sampled_from(self.waiting))
        order = None if follows else lambda names: data.draw(st.permutations(names))
        if not self.node.admit(pod.uid, order, lost=dies == "kubelet"):
            return
        if dies == "kubelet":
            self.node.kubelet_forgets()
            return
        if starts:
            self.start(pod.uid)
        if dies == "agent":
            self.node.new_agent()

    def start(self, uid: str) -> None:
        """Its containers start, those before main ending."""
        for container in self.node.api[uid].requests:
            place = (uid, container)
            done = place in self.node.using or (container == "init" and place in self.node.ended)
            if not done and not self.node.start(uid, container):
                return
            if container == "init" and not done:
                self.node.end(uid, container)

    def running(self) -> list[Place]:
        """The containers of pods that are there."""
        return [place for place in sorted(self.node.using) if place[0] in self.node.api]

    def admitted(self) -> list[str]:
        return [uid for uid in self.node.admitted if self.node.alive(uid)]

    @precondition(lambda self: hasattr(self, "node") and self.admitted())
    @rule(data=st.data(), told=st.booleans())
    def containers_start(self, data: st.DataObject, told: bool) -> None:
        uid = data.draw(st.sampled_from(self.admitted()))
        self.start(uid)
        if told:
            self.node.tell(uid)

    @precondition(lambda self: hasattr(self, "node") and self.running())
    @rule(data=st.data(), told=st.booleans(), again=st.booleans())
    def a_container_ends_and_starts_anew(self, data: st.DataObject, told: bool, again: bool) -> None:
        uid, container = data.draw(st.sampled_from(self.running()))
        self.node.end(uid, container)
        if told:
            self.node.tell(uid)
        if again:
            self.node.start(uid, container)

    @precondition(lambda self: hasattr(self, "node") and self.living)
    @rule(data=st.data())
    def a_pod_ends(self, data: st.DataObject) -> None:
        self.node.finish(data.draw(st.sampled_from(self.living)).uid)

    @precondition(lambda self: hasattr(self, "node") and self.running())
    @rule(data=st.data())
    def a_pod_is_deleted_by_force(self, data: st.DataObject) -> None:
        """Its containers run on for a while."""
        self.node.delete_by_force(data.draw(st.sampled_from(self.running()))[0])

    @rule(seconds=st.sampled_from([1.0, GRACE_S / 2, GRACE_S, GRACE_S + MARGIN_S]))
    def time_passes(self, seconds: float) -> None:
        self.node.wait_for(seconds)

    @rule()
    def the_status_of_all_arrives(self) -> None:
        for pod in self.living:
            self.node.tell(pod.uid)

    @rule()
    def the_agent_reads(self) -> None:
        self.node.reads()

    @rule()
    def the_agent_is_started_anew(self) -> None:
        self.node.new_agent()

    @rule(
        lost=st.lists(st.sampled_from(MEMORIES), min_size=1, max_size=2, unique=True), in_order=st.booleans()
    )
    def memories_are_lost(self, lost: list[str], in_order: bool) -> None:
        """One or two together; what is left of the others was up to date by then."""
        self.node.reads()
        for memory in lost if in_order else reversed(lost):
            if memory == "folder":
                # Of pods that went, the folder is the only memory.
                self.node.wait_for(GRACE_S)
                self.node.disk.files.clear()
                self.node.new_agent()
            elif memory == "report":
                self.node.report = None
            else:
                self.node.kubelet_forgets()
        self.the_status_of_all_arrives()
        self.node.reads()

    @rule()
    def at_rest_a_new_pod_gets_the_free_units_that_it_is_granted(self) -> None:
        """Liveness: pods that wait are gone, everybody has heard of everything."""
        for pod in self.living:
            if not any(uid == pod.uid for uid, _ in self.node.using):
                self.node.finish(pod.uid)
        self.the_status_of_all_arrives()
        self.node.reads()
        self.node.wait_for(GRACE_S + MARGIN_S)
        self.node.reads()
        gone = {one.pod_uid for one in self.node.holders.value} - self.node.api.keys()
        assert not gone, f"units are kept for {gone} for ever"
        free = self.free()
        if free:
            made = self.place(free[:1], 1)
            assert self.node.admit(made.uid)
            assert self.node.listed[made.uid, "main"] == (free[0],)
            assert self.node.start(made.uid, "main")

    @precondition(lambda self: hasattr(self, "node") and self.running())
    @rule(data=st.data())
    def at_rest_a_container_that_starts_anew_has_its_own_units(self, data: st.DataObject) -> None:
        """Where nobody else can be asking."""
        uid, container = data.draw(st.sampled_from(self.running()))
        before = self.node.using[uid, container]
        for pod in self.living:
            if not any(owner == pod.uid for owner, _ in self.node.using):
                self.node.finish(pod.uid)
        self.node.end(uid, container)
        self.the_status_of_all_arrives()
        self.node.reads()
        assert self.node.start(uid, container)
        assert self.node.using[uid, container] == before

    @invariant()
    def no_unit_is_in_two_running_containers(self) -> None:
        if not hasattr(self, "node"):
            return
        owner: dict[str, Place] = {}
        for place, units in self.node.using.items():
            for unit in units:
                assert owner.setdefault(unit, place) == place, f"{unit} is in {place} and {owner[unit]}"
        assert twice(self.node) == []


TestForgetting = _Forgetting.TestCase
TestForgetting.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
