"""Pods that hold simulated GPUs keep them busy, as much as they were granted."""

from pathlib import Path

from gpufleet.agent.gpus.simulated_users import BUSY_LABEL, MEMORY_LABEL, PID_FIRST, SimulatedUsers
from gpufleet.agent.state.node_state import Gpu, Held, NodeGpus, NodePod
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import GpuFacts, MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mode, SharingPlan, TimeSlice
from gpufleet.devices.simulated.machine import User
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId

UUID = DeviceId("GPU-0")
POD = "0b5c5e1e-1111-4111-8111-000000000001"


def a_gpu(mode: Mode, mig: tuple[MigFacts, ...] = ()) -> Gpu:
    facts = GpuFacts(UUID, Vendor.NVIDIA, 0, "NVIDIA H100", memory_mib=81_000, reserved_mib=1_000, mig=mig)
    return Gpu(facts, SharingPlan(UUID, mode))


def users(gpu: Gpu, pod: NodePod, *held: Held, proc: Path = Path("/nonexistent")) -> list[User]:
    gpus, pods, holders = Topic(NodeGpus("n", gpus=(gpu,))), Topic({pod.uid: pod}), Topic(held)
    return SimulatedUsers(gpus, pods, holders, lambda: 0.0, proc)()


def a_pod(grant: Grant | None = None, labels: dict[str, str] | None = None) -> NodePod:
    return NodePod(POD, "team-a", "train", grant=grant, labels=labels or {})


def holds(resource: str, *units: str) -> Held:
    return Held("team-a", "train", "main", resource, units, POD)


def test_a_whole_gpu_is_used_nearly_whole() -> None:
    found = users(a_gpu(Exclusive()), a_pod(), holds("nvidia.com/gpu", UUID))
    assert found == [User(PID_FIRST, UUID, 90, 64_000)]


def test_who_takes_turns_uses_its_part() -> None:
    found = users(a_gpu(TimeSlice(4)), a_pod(), holds("nvidia.com/gpu", f"{UUID}::2"))
    assert found == [User(PID_FIRST, UUID, 22, 16_000)]


def test_an_instance_is_used_as_an_instance() -> None:
    instance = MigFacts("MIG-1", "1g.10gb", 0, 1, 0, memory_mib=10_000)
    found = users(a_gpu(Mig(None), (instance,)), a_pod(), holds("nvidia.com/mig-1g.10gb", "MIG-1"))
    assert found == [User(PID_FIRST, UUID, 90, 8_000, "MIG-1")]


def test_a_share_is_used_as_it_was_granted() -> None:
    share = GrantedDevice(UUID, GrantKind.SHARE, 250, 20_000)
    grant = Grant(1, (ContainerGrant("main", (share,)), ContainerGrant("other", (share,))))
    found = users(a_gpu(Fractions(10)), a_pod(grant), holds(GPU_SHARE, "slot-17"))
    assert found == [User(PID_FIRST, UUID, 22, 16_000)]


def test_labels_of_the_pod_say_otherwise() -> None:
    pod = a_pod(labels={BUSY_LABEL: "10", MEMORY_LABEL: "79000"})
    assert users(a_gpu(Exclusive()), pod, holds("nvidia.com/gpu", UUID)) == [
        User(PID_FIRST, UUID, 10, 79_000)
    ]
    nonsense = a_pod(labels={BUSY_LABEL: "٣", MEMORY_LABEL: "-1"})
    found = users(a_gpu(Exclusive()), nonsense, holds("nvidia.com/gpu", UUID))
    assert found == [User(PID_FIRST, UUID, 90, 64_000)]


def test_the_process_is_one_of_the_pod(tmp_path: Path) -> None:
    for pid, group in ((1, "/"), (70, f"/kubepods/pod{POD}/a"), (71, f"/kubepods/pod{POD}/b"), (72, "/x")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(f"0::{group}\n", encoding="ascii")
    found = users(a_gpu(Exclusive()), a_pod(), holds("nvidia.com/gpu", UUID), proc=tmp_path)
    assert [user.pid for user in found] == [71]


def test_a_share_without_a_grant_uses_nothing() -> None:
    assert users(a_gpu(Fractions(10)), a_pod(), holds(GPU_SHARE, "slot-17")) == []
