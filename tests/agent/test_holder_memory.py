"""Who holds what where the kubelet forgot it: each source counts where those before it are silent."""

import asyncio
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.holders.holder_memory import LOST_AFTER_S, HolderMemory, SeenHolder
from gpufleet.agent.holders.holder_record import FILE, AllocateAnswer, ContainerRef, HolderRecord, HolderState
from gpufleet.agent.holders.vanished_pods import MARGIN_S
from gpufleet.agent.reports.node_report import node_report
from gpufleet.agent.state.node_state import GRACE_S, Held, Holders, NodeGpus, NodePod
from gpufleet.devices.sharing.plan import Fractions, Mig, TimeSlice
from tests.agent.forgetful_node import MemoryDisk
from tests.agent.node_values import SHARE, a_share
from tests.agent.plugin_world import GPU, a_gpu, a_node, a_pod, cut, held, instance, pods_of
from tests.agent.set_clock import SetClock

NODE = a_node(*(a_gpu(index) for index in range(4)))
FOLDER = Path("/state")


class Remembering:
    """A memory over a disk of the test, and the time."""

    def __init__(self, disk: MemoryDisk | None = None, boot: str = "boot-1") -> None:
        self.disk = disk or MemoryDisk()
        self.now_s = 0.0
        self.memory = HolderMemory(SetClock(self), HolderRecord(FOLDER, boot, self.disk))

    def sees(
        self,
        listed: Holders,
        *pods: NodePod,
        node: NodeGpus = NODE,
        complete: bool = True,
        ended: Collection[str] = (),
    ) -> Holders:
        """What is held, by this look."""
        found = self.memory.joined(listed, SeenHolder(node, pods_of(*pods), complete, ended))
        asyncio.run(self.memory.keep())
        return found

    def units(self, listed: Holders, *pods: NodePod, node: NodeGpus = NODE) -> dict[str, tuple[str, ...]]:
        """The units of each pod's containers."""
        return {f"{one.pod}/{one.container}": one.units for one in self.sees(listed, *pods, node=node)}


def test_what_the_kubelet_listed_is_held_until_the_pod_is_finished() -> None:
    node, pod = Remembering(), a_pod("a", 1, grant=["GPU-0"])
    listed = held("a", "GPU-2")
    assert node.sees((listed,), pod) == (listed,)
    assert node.sees((), pod) == (msgspec.structs.replace(listed, listed=False),)
    assert node.sees((), a_pod("a", 1, grant=["GPU-0"], finished=True)) == ()
    assert node.sees((), pod) == ()


def test_a_pod_that_was_finished_when_it_went_holds_nothing_once_all_pods_are_known() -> None:
    node = Remembering()
    node.sees((held("a", "GPU-2"),), a_pod("a", 1))
    assert node.sees((), complete=False, ended={"uid-a"})
    assert node.sees((), ended={"uid-a"}) == ()


def test_a_pod_that_went_before_it_was_finished_has_its_units_until_its_grace_and_a_margin_are_over() -> None:
    node = Remembering()
    listed, pod = held("a", "GPU-2"), msgspec.structs.replace(a_pod("a", 1, running=True), grace_s=600.0)
    node.sees((listed,), pod)
    node.now_s = 100.0
    assert node.sees(()) == (msgspec.structs.replace(listed, listed=False),)
    node.now_s = 100.0 + 600.0 + MARGIN_S - 0.1
    assert node.sees(())
    node.now_s += 0.1
    assert node.sees(()) == ()
    assert HolderRecord(FOLDER, "boot-1", node.disk).load() == HolderState()


def test_while_the_kubelet_is_silent_no_container_is_taken_for_ended() -> None:
    node = Remembering()
    node.sees((held("a", "GPU-2"),), a_pod("a", 1, running=True))
    node.sees(())
    node.memory.kubelet_silent()
    node.now_s = 1000.0
    assert node.sees(())
    node.now_s += MARGIN_S
    assert node.sees(()) == ()


def test_an_agent_that_starts_anew_goes_on_with_the_grace_of_a_pod_that_went() -> None:
    before = Remembering()
    before.sees((held("a", "GPU-2"),), msgspec.structs.replace(a_pod("a", 1, running=True), grace_s=600.0))
    before.sees(())
    anew = Remembering(before.disk)
    anew.now_s = 590.0
    assert anew.sees(())
    anew.now_s = 600.0 + MARGIN_S
    assert anew.sees(()) == ()
    assert Remembering(before.disk, boot="boot-2").sees(()) == ()


def test_an_answer_stays_that_of_a_pod_that_went_before_it_was_finished_until_its_grace_is_over() -> None:
    node = Remembering()
    asyncio.run(node.memory.answered(AllocateAnswer(GPU, ("GPU-1",), (place("a"),))))
    node.sees((), a_pod("a", 1))
    node.sees(())
    assert node.memory.answers
    node.now_s = GRACE_S + MARGIN_S
    node.sees(())
    assert node.memory.answers == ()


def test_an_agent_that_starts_anew_knows_it_from_its_record_and_in_another_boot_does_not() -> None:
    before, pod = Remembering(), a_pod("a", 1)
    before.sees((held("a", "GPU-2"),), pod)
    assert Remembering(before.disk).units((), pod) == {"a/main": ("GPU-2",)}
    assert Remembering(before.disk, boot="boot-2").units((), pod) == {}


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_a_record_that_was_changed_anywhere_is_not_believed(at: int) -> None:
    before, pod = Remembering(), a_pod("a", 1)
    before.sees((held("a", "GPU-2"),), pod)
    whole = before.disk.files[FOLDER / FILE]
    before.disk.files[FOLDER / FILE] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    assert Remembering(before.disk).units((), pod) == {}
    before.disk.files[FOLDER / FILE] = whole[:at]
    assert Remembering(before.disk).units((), pod) == {}


def test_a_disk_that_fails_is_told_and_stops_nothing() -> None:
    class Full(MemoryDisk):
        """It takes nothing."""

        def move(self, source: Path, target: Path) -> None:
            """As Disk."""
            raise OSError(28, "No space left on device", str(source), None, str(target))

    node = Remembering(Full())
    assert node.units((held("a", "GPU-2"),), a_pod("a", 1)) == {"a/main": ("GPU-2",)}
    assert "No space left" in node.memory.problem


def test_the_kubelets_word_wins() -> None:
    node, pod = Remembering(), a_pod("a", 1, grant=["GPU-0"], running=True)
    node.sees((held("a", "GPU-2"),), pod)
    assert node.units((held("a", "GPU-3"),), pod) == {"a/main": ("GPU-3",)}
    assert node.units((), pod) == {"a/main": ("GPU-3",)}


def reported(node: NodeGpus, holders: Holders, *pods: NodePod) -> Remembering:
    """An agent that has lost its folder, and read what one before it reported of these holders."""
    anew = Remembering()
    anew.memory.report_said(node_report(node, holders, pods_of(*pods)).holders)
    return anew


def test_what_the_nodes_report_said_counts_where_record_and_kubelet_are_lost() -> None:
    pod, stranger = a_pod("a", 1, grant=["GPU-0"], running=True), a_pod("s", 1, running=True)
    anew = reported(NODE, (held("a", "GPU-2"), held("s", "GPU-1")), pod, stranger)
    assert anew.units((), pod, stranger) == {"a/main": ("GPU-2",), "s/main": ("GPU-1",)}
    assert anew.units((), pod, stranger) == {"a/main": ("GPU-2",), "s/main": ("GPU-1",)}


def test_the_report_names_replicas_instances_and_slots() -> None:
    replicas = a_node(a_gpu(0, TimeSlice(4), renamed=True), a_gpu(1, TimeSlice(4)))
    one, two = a_pod("a", 1, running=True), a_pod("b", 1, running=True)
    holders = (held("a", "GPU-0::3", resource=f"{GPU}.shared"), held("b", "GPU-1::2"))
    anew = reported(replicas, holders, one, two)
    assert anew.units((), one, two, node=replicas) == {"a/main": ("GPU-0::3",), "b/main": ("GPU-1::2",)}

    name = "nvidia.com/mig-1g.5gb"
    instances = a_node(cut(0, "1g.5gb", "1g.5gb", mode=Mig(None)))
    its = reported(instances, (held("a", "MIG-0-1", resource=name),), one)
    assert its.units((), one, node=instances) == {"a/main": ("MIG-0-1",)}

    shared = a_node(a_gpu(0, Fractions(10)))
    part = a_pod("c", 1, grant=[a_share("GPU-0", 500)], resource=SHARE, running=True)
    slots = reported(shared, (held("c", "share-7", resource=SHARE),), part)
    assert slots.units((), part, node=shared) == {"c/main": ("share-7",)}


def test_a_report_is_kept_in_mind_until_the_cards_are_known() -> None:
    pod = a_pod("a", 1, running=True)
    anew = reported(NODE, (held("a", "GPU-2"),), pod)
    anew.sees((), pod, node=NodeGpus("node-1"))
    assert anew.units((), pod) == {"a/main": ("GPU-2",)}


def test_witnesses_that_contradict_each_other_are_both_believed() -> None:
    before, pod = Remembering(), a_pod("a", 1, grant=["GPU-0"], running=True)
    before.sees((held("a", "GPU-2"),), pod)
    anew = Remembering(before.disk)
    anew.memory.report_said(node_report(NODE, (held("a", "GPU-3"),), pods_of(pod)).holders)
    assert anew.units((), pod) == {"a/main": ("GPU-2", "GPU-3")}
    assert anew.units((held("a", "GPU-3"),), pod) == {"a/main": ("GPU-3",)}


def test_the_grant_counts_where_nothing_else_is_known_of_a_container_that_started() -> None:
    name = "nvidia.com/mig-1g.5gb"
    instances = a_node(cut(0, "1g.5gb", "1g.5gb", mode=Mig(None)))
    pod = a_pod("a", 1, grant=[instance("GPU-0", "1g.5gb", 1)], resource=name)
    assert Remembering().units((), pod, node=instances) == {}
    started = msgspec.structs.replace(pod, started=frozenset({"main"}))
    assert Remembering().units((), started, node=instances) == {"a/main": ("MIG-0-1",)}


def test_of_a_replica_that_a_grant_does_not_name_all_that_may_be_it_are_held() -> None:
    node = a_node(a_gpu(0, TimeSlice(3)))
    pod, other = a_pod("a", 1, grant=["GPU-0"], running=True), a_pod("b", 1, running=True)
    found = Remembering().units((held("b", "GPU-0::1"),), pod, other, node=node)
    assert found == {"a/main": ("GPU-0::0", "GPU-0::2"), "b/main": ("GPU-0::1",)}


def test_what_runs_on_units_that_no_witness_knows_is_told_without_units() -> None:
    assert Remembering().sees((), a_pod("s", 1, running=True)) == (
        Held("team", "s", "main", GPU, (), "uid-s", listed=False),
    )
    assert Remembering().sees((), a_pod("s", 1)) == ()


def place(name: str) -> ContainerRef:
    return ContainerRef(f"uid-{name}", "main", f"team/{name}")


def test_an_answer_may_be_that_of_each_container_that_may_have_asked_until_it_is_listed() -> None:
    node = Remembering()
    answer = AllocateAnswer(GPU, ("GPU-1",), (place("a"), place("b")))
    asyncio.run(node.memory.answered(answer))
    pods = a_pod("a", 1, grant=["GPU-0"]), a_pod("b", 1, grant=["GPU-1"], running=True)
    anew = Remembering(node.disk)
    assert anew.units((), *pods) == {"b/main": ("GPU-1",)}
    assert [one.possible for one in anew.memory.answers] == [answer.possible]
    anew.sees((held("b", "GPU-0"),), *pods)
    assert [one.possible for one in anew.memory.answers] == [(place("a"),)]
    anew.sees((held("b", "GPU-0"), held("a", "GPU-1")), *pods)
    assert not anew.memory.answers


def test_an_answer_of_pods_that_are_gone_or_finished_is_over() -> None:
    node = Remembering()
    asyncio.run(node.memory.answered(AllocateAnswer(GPU, ("GPU-1",), (place("a"), place("b")))))
    node.sees((), a_pod("a", 1, finished=True), ended={"uid-b"})
    assert node.memory.answers == ()


def test_a_container_that_runs_is_lost_when_it_was_missed_for_a_while() -> None:
    node, pod = Remembering(), a_pod("a", 1, running=True)
    node.sees((held("a", "GPU-2"),), pod)
    assert [one.lost for one in node.sees((), pod)] == [False]
    node.now_s = LOST_AFTER_S
    assert [one.lost for one in node.sees((), pod)] == [True]
    assert [one.lost for one in node.sees((), a_pod("a", 1))] == [False]
    assert [one.lost for one in node.sees((held("a", "GPU-2"),), pod)] == [False]


def test_without_a_folder_nothing_is_kept_on_the_disk() -> None:
    record = HolderRecord()
    record.save(HolderState())
    assert record.load() == HolderState()
    assert not record.problem
