"""What becomes of a pod while its Binding is under way: what is heard meanwhile counts when it arrives."""

from typing import Any

from gpufleet.cluster.engine_events import BindEnded
from gpufleet.kube import resources
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from tests.cluster.changing_cluster import (
    SCHEDULER,
    Binding,
    Books,
    ChangingCluster,
    RecordedEvents,
    begin_binding,
)

GPUS = ("g0", "g1", "g2", "g3")
HOUR_US = 3_600_000_000


class Story:
    """One node with four GPUs, and pods that ask for some."""

    def __init__(self) -> None:
        self.cluster = ChangingCluster()
        self.books = Books(self.cluster)
        self.told = RecordedEvents()
        self.node_comes()
        self.report()
        self.round()

    def node_comes(self) -> None:
        """The node is made, or made anew."""
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4"}
        written = {"metadata": {"name": "n"}, "status": {"allocatable": amounts}}
        self.cluster.put(resources.NODES, Node, written)

    def report(self, **held: str) -> None:
        """The node's agent reports which pod holds which GPU."""
        devices = [{"id": one, "vendor": "NVIDIA", "model": "H100-80GB", "memoryMiB": 81920} for one in GPUS]
        holders = [{"device": device, "podUID": f"uid-of-{name}"} for name, device in held.items()]
        written = {"metadata": {"name": "n"}, "spec": {"devices": devices, "holders": holders}}
        self.cluster.put(resources.NODE_DEVICES, NodeDevices, written)

    def round(self) -> None:
        """The engine hears of what changed."""
        self.told.hear(self.books.round(self.cluster.take()))

    def pod(self, name: str, gpus: int = 1, binding: Binding | None = None, run_time_max: str = "8h") -> None:
        """A pod as it is now: bound, once its Binding arrived."""
        granted = {} if binding is None else binding.annotations
        metadata: dict[str, Any] = {"name": name, "namespace": "team", "uid": f"uid-of-{name}"}
        metadata["annotations"] = {"gpufleet.io/run-time-max": run_time_max, **granted}
        containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]
        spec = {"schedulerName": SCHEDULER, "containers": containers, "nodeName": "n" if granted else ""}
        self.cluster.put(resources.PODS, Pod, {"metadata": metadata, "spec": spec})

    def binds(self, name: str, *devices: str) -> Binding:
        """The engine decides on a pod that waits."""
        pod, ids = self.told.waiting[PodUid(f"uid-of-{name}")], tuple(map(DeviceId, devices))
        return begin_binding(self.books, self.told, pod, self.told.nodes[NodeName("n")], ids)

    def answers(self, name: str, binding: Binding) -> None:
        """The server says that it bound the pod."""
        result = BindEnded(PodUid(f"uid-of-{name}"), binding.node, binding.devices, bound=True)
        self.books.engine_events.result(result)

    def devices(self, name: str) -> list[str]:
        """The GPUs that the engine has the pod on."""
        return [str(one) for one in self.told.placed[PodUid(f"uid-of-{name}")][2]]


def test_a_shorter_run_time_that_is_said_while_the_binding_is_under_way_counts() -> None:
    story = Story()
    story.pod("p", run_time_max="4h")
    story.round()
    binding = story.binds("p", "g0")
    story.pod("p", run_time_max="1h")
    story.round()
    story.pod("p", binding=binding, run_time_max="1h")
    story.answers("p", binding)
    story.round()
    assert story.told.placed[PodUid("uid-of-p")][0].run_time_max_us == HOUR_US


def test_a_pod_is_booked_as_granted_though_its_node_was_gone_when_the_binding_was_answered() -> None:
    story = Story()
    story.pod("p")
    story.round()
    binding = story.binds("p", "g1")
    story.cluster.remove(resources.NODES, "", "n")
    story.round()
    story.answers("p", binding)
    story.pod("p", binding=binding)
    story.round()
    story.node_comes()
    story.round()
    assert story.devices("p") == ["g1"]


def test_a_pod_whose_gpu_the_kubelet_gave_away_meanwhile_is_booked_on_what_was_left() -> None:
    story = Story()
    story.pod("early")
    story.pod("late", 2)
    story.round()
    early, late = story.binds("early", "g2"), story.binds("late", "g0", "g1")
    story.pod("early", binding=early)
    story.answers("early", early)
    story.report(early="g0")
    story.round()
    story.pod("late", 2, binding=late)
    story.answers("late", late)
    story.round()
    assert story.devices("early") == ["g0"]
    assert sorted(story.devices("late")) == ["g1", "g2"]
