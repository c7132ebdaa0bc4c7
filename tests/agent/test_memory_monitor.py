"""Who uses more GPU memory than its share is told, with what it uses, and nobody else is."""

from gpufleet.agent.kubelet.process_owners import ProcessOwner
from gpufleet.agent.sharing.memory_monitor import MemoryMonitor, Offenders
from gpufleet.agent.state.node_state import GpuReading, NodePod, NodePods, Readings
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId

GPU = DeviceId("GPU-1")
POD_OF = {11: "a", 12: "a", 21: "b"}


def share(memory_mib: int | None, gpu: DeviceId = GPU) -> GrantedDevice:
    return GrantedDevice(gpu, GrantKind.SHARE, 500, memory_mib)


def pod(uid: str, *containers: GrantedDevice) -> NodePod:
    grants = tuple(ContainerGrant(f"c{at}", (device,)) for at, device in enumerate(containers))
    return NodePod(uid, "team-a", uid, grant=Grant(1, grants))


class Node:
    """A node with two pods on one GPU; ``a`` has the processes 11 and 12, ``b`` has 21."""

    def __init__(self, *pods: NodePod) -> None:
        self.readings: Topic[Readings] = Topic({})
        self.pods: Topic[NodePods] = Topic({one.uid: one for one in pods})
        self.watch = MemoryMonitor(self.readings, self.pods, self.whose, Topic({}))
        self.at_s = 0.0

    def whose(self, pid: int) -> ProcessOwner | None:
        """Stands for a look into /proc."""
        return ProcessOwner(POD_OF[pid]) if pid in POD_OF else None

    def uses(self, times: int = 2, **processes: int | None) -> Offenders:
        """What is told after so many samples in which these processes (p11=...) use so many MiB."""
        for _ in range(times):
            self.at_s += 10
            found = tuple(ProcessUse(int(name[1:]), amount) for name, amount in processes.items())
            self.readings.publish({GPU: GpuReading(Sample(self.at_s), processes=found)})
            self.watch.judge_newest()
        return self.watch.offenders.value


def test_the_processes_of_a_pod_are_added_up_and_held_against_its_share() -> None:
    node = Node(pod("a", share(8000)), pod("b", share(8000)))
    assert node.uses(p11=6000, p12=3000, p21=7999) == {("a", GPU): 9024}


def test_one_sample_alone_is_not_told() -> None:
    node = Node(pod("a", share(8000)))
    assert node.uses(1, p11=9000) == {}
    node.watch.judge_newest()
    assert node.watch.offenders.value == {}, "the same sample again is no second one"
    assert node.uses(1, p11=9000) != {}


def test_who_is_below_again_is_told_no_more() -> None:
    node = Node(pod("a", share(8000)))
    assert node.uses(p11=9000) != {}
    assert node.uses(1, p11=8000) == {}
    assert node.uses(1, p11=9000) == {}


def test_small_changes_are_not_news() -> None:
    node = Node(pod("a", share(8000)))
    told = node.uses(p11=9001)
    assert node.uses(p11=9020) == told == {("a", GPU): 9024}


def test_what_the_driver_does_not_tell_is_not_guessed() -> None:
    node = Node(pod("a", share(8000)))
    assert node.uses(p11=None) == {}
    node.readings.publish({GPU: GpuReading(Sample(99.0))})
    node.watch.judge_newest()
    assert node.watch.offenders.value == {}


def test_a_process_of_nobody_and_a_share_without_memory_are_left_alone() -> None:
    node = Node(pod("a", share(None)))
    assert node.uses(p11=90000, p99=90000) == {}


def test_a_whole_gpu_has_no_share() -> None:
    node = Node(pod("a", GrantedDevice(GPU, GrantKind.WHOLE, 1000, 8000)))
    assert node.uses(p11=9000) == {}


def test_containers_that_hand_a_share_on_have_it_once() -> None:
    node = Node(pod("a", share(8000), share(8000)))
    assert node.uses(p11=9000) == {("a", GPU): 9024}


def test_a_pod_that_is_gone_is_no_offender() -> None:
    node = Node(pod("a", share(8000)))
    assert node.uses(p11=9000) != {}
    node.pods.publish({})
    node.watch.judge_newest()
    assert node.watch.offenders.value == {}
