"""A real node with four GPUs on which faults happen: two are given whole, two in shares.

    scene = Scene(cluster, agent, folder)
    scene.whole("w"); scene.share("s", "0.5"); scene.share("later", "0.25", waits=True)
    scene.await_running("w", "s"); lives = scene.lives()
    ...                                 the fault
    scene.at_rest()                     I4: nobody disagrees with anybody, and the auditor finds nothing
    assert scene.lives() == lives       I12: the same containers with the same devices

A pod that ``waits`` has its devices already and starts its container when it is told to ``go``.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin import cdi
from gpufleet.agent.device_plugin.open_call_record import OpenCallRecord
from gpufleet.agent.device_plugin.share_files import PREFIX, ShareGiven, read_given
from gpufleet.agent.kubelet.kubelet_checkpoint import read_checkpoint
from gpufleet.agent.kubelet.pod_resources import PodResources
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.rules import Rules
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.kube.objects.node_devices import NodeDevicesSpec
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.agent_process import AgentProcess
from tests.agent.audited_node import NodeAudit
from tests.agent.churn import SCRIPT, waits
from tests.agent.churn_judge import ContainerRecord, read_told
from tests.agent.rest_judge import Granted, Rest, disagreements
from tests.localkube.real_node import PODS, a_pod, await_pod, awaited, get_pod, processes_of

NODE = f"/api/v1/nodes/{NODE_NAME}"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
REST_WAIT_S = 60.0
FOR_EVER = "100000"


class Life(msgspec.Struct, frozen=True):
    """A running pod: what must not change while it runs."""

    containers: tuple[str, ...]
    processes: frozenset[int]
    told: ContainerRecord


class Scene:
    """The node, its agent, and a folder in which containers tell what they see."""

    def __init__(self, cluster: LocalCluster, agent: AgentProcess, folder: Path) -> None:
        self.cluster = cluster
        self.agent = agent
        self.folder = folder

    def whole(self, name: str, **spec: object) -> None:
        """A pod that wants a GPU, left to our scheduler."""
        self._place(name, {"limits": {NVIDIA_GPU: "1"}}, {}, **spec)

    def share(self, name: str, fraction: str, *, waits: bool = False, **spec: object) -> None:
        """A pod that wants a part of one."""
        if waits:
            look = f"until [ -e /told/go-{name} ]; do sleep 0.1; done"
            first = a_pod(name, look)["spec"]["containers"][0]
            mounts = [{"name": "told", "mountPath": "/told"}]
            spec["initContainers"] = [{**first, "name": "first", "volumeMounts": mounts}]
        annotations = {"gpufleet.io/gpu-fraction": fraction}
        self._place(name, {"limits": {GPU_SHARE: "1"}}, annotations, **spec)

    def _place(self, name: str, resources: Object, annotations: dict[str, str], **spec: object) -> None:
        placed = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
        volumes = [{"name": "told", "hostPath": {"path": str(self.folder)}}]
        more = {**placed, "volumes": volumes, **spec}
        pod = a_pod(name, SCRIPT, resources, annotations=annotations, **more)
        own = {"fieldRef": {"fieldPath": "metadata.uid"}}
        pod["spec"]["containers"][0] |= {
            "env": [{"name": "POD_UID", "valueFrom": own}, {"name": "RUN_S", "value": FOR_EVER}],
            "volumeMounts": [{"name": "told", "mountPath": "/told"}],
        }
        with self.cluster.api() as api:
            api.call("POST", PODS, pod)

    def go(self, name: str) -> None:
        """Let a pod that waits start."""
        (self.folder / f"go-{name}").touch()

    def await_running(self, *names: str) -> None:
        """Return when all of them run and have told what they see."""
        for name in names:
            uid = await_pod(self.cluster, name, "Running")["metadata"]["uid"]
            awaited(f"{name} tells", lambda uid=uid: self._has_told(uid), self.agent.story)  # type: ignore[misc]

    def await_offered(self) -> None:
        """Return when the node says that it has GPUs and slots: an agent that came anew is known."""

        def is_offered() -> bool:
            with self.cluster.api() as api:
                allocatable = api.call("GET", NODE)["status"].get("allocatable", {})
            return all(int(allocatable.get(name, "0")) > 0 for name in (NVIDIA_GPU, GPU_SHARE))

        awaited("the node offers GPUs and slots", is_offered, self.agent.story)

    def await_call(self, name: str) -> None:
        """Return when the kubelet gave a pod its slots, and the agent has its call on the disk."""
        uid = self.uid(name)

        def is_open() -> bool:
            units = {one.units for one in read_checkpoint(self._plugins) if one.pod_uid == uid}
            return bool(units & {frozenset(call.units) for call in self._checkpoint().load().state.calls})

        awaited(f"the call of {name} is open", is_open, self.agent.story)

    def uid(self, name: str) -> str:
        """A pod's UID."""
        pod = get_pod(self.cluster, name)
        assert pod is not None
        found: str = pod["metadata"]["uid"]
        return found

    def await_granted(self, *names: str) -> None:
        """Return when the scheduler has placed all of them."""
        for name in names:
            awaited(f"{name} is placed", lambda name=name: _grant_text(get_pod(self.cluster, name)))  # type: ignore[misc]

    def lives(self) -> dict[str, Life]:
        """The pods that run and have told what they see, by name."""
        return {
            pod["metadata"]["name"]: Life(
                tuple(one["containerID"] for one in pod["status"]["containerStatuses"]),
                frozenset(processes_of(pod)),
                self.told(pod["metadata"]["uid"]),
            )
            for pod in self._pods()
            if pod["status"].get("phase") == "Running" and self._has_told(pod["metadata"]["uid"])
        }

    def told(self, uid: str) -> ContainerRecord:
        """What a pod's container said of what it sees."""
        return read_told((self.folder / uid).read_text(encoding="utf-8"))

    def forget_told(self) -> None:
        """Containers begin anew, and tell anew."""
        for path in self.folder.iterdir():
            path.unlink()

    def at_rest(self) -> None:
        """Return when nobody disagrees any more; fails with who says what."""
        last: list[str] = []

        def agree() -> bool:
            last[:] = disagreements(self.rest())
            return not last

        awaited("all agree", agree, lambda: f"{last}\n{self.agent.story()}", REST_WAIT_S)
        for uid, pod in self.rest().pods.items():
            if pod.started:
                self._sees_its_devices(uid, pod)
        found: list[Finding] = []

        def is_in_order() -> bool:
            found[:] = self.audited()
            return not found

        awaited(
            "the auditor finds nothing", is_in_order, lambda: f"{found}\n{self.agent.story()}", REST_WAIT_S
        )

    def audited(self) -> list[Finding]:
        """What the auditor finds by objects, PodResources and containers; it shares nothing with us."""
        swapped = self.swapped()
        rest = self.rest()
        uids = frozenset(uid for uid, pod in rest.pods.items() if pod.name in swapped)
        audit = NodeAudit(self.cluster, Rules(swapped=uids))
        audit.look()
        told = {uid: self.told(uid) for uid, pod in rest.pods.items() if pod.started}
        return audit.verdict(rest.held, told)

    def _sees_its_devices(self, uid: str, pod: Granted) -> None:
        """What a container prints is what the node reports of it, under the numbers that GPUs have now."""
        report = self.report()
        numbers = {one.id: f"nvidia{index}" for index, one in enumerate(report.devices)}
        mine = {one.device: one.gpu_milli for one in report.holders if one.pod_uid == uid}
        told = self.told(uid)
        assert sorted(told.values("GPUFLEET_DEVICES")) == sorted(mine), pod.name
        assert told.devices == tuple(sorted(numbers[device] for device in mine)), pod.name
        if pod.shares:
            assert told.variables["GPUFLEET_POD_UID"] == uid
            assert [int(one) for one in told.values("GPUFLEET_GPU_MILLI")] == list(mine.values()), pod.name

    def rest(self) -> Rest:
        """What everybody knows now."""
        node = self.cluster.node
        try:
            held = asyncio.run(PodResources(node.pod_resources_socket).list())
            record = read_checkpoint(self._plugins)
            damage = ""
        except KubeletError as error:
            held, record, damage = (), (), str(error)
        loaded = self._checkpoint().load()
        pods = {
            pod["metadata"]["uid"]: Granted(
                pod["metadata"]["name"],
                granted_devices(read_grant(text)),
                started=self._has_told(pod["metadata"]["uid"]),
            )
            for pod in self._pods()
            if (text := _grant_text(pod)) and pod["status"].get("phase") in ("Pending", "Running")
        }
        ours = tuple(one for one in held if one.resource in (GPU_SHARE, NVIDIA_GPU))
        calls = loaded.state.calls
        return Rest(pods, self.report().holders, ours, record, self._files(), calls, loaded.problem or damage)

    def swapped(self) -> set[str]:
        """The pods that have another one's GPU in place of their own."""
        holders = self.report().holders
        return {
            pod.name
            for uid, pod in self.rest().pods.items()
            if {one.id for one in pod.devices} != {one.device for one in holders if one.pod_uid == uid}
        }

    def report(self) -> NodeDevicesSpec:
        """What the node reports of its GPUs and their holders."""
        with self.cluster.api() as api:
            return msgspec.convert(api.call("GET", REPORT)["spec"], NodeDevicesSpec)

    @contextmanager
    def pods_gone(self) -> Iterator[None]:
        """No pod is left after this block, and of none is anything left."""
        try:
            yield
        finally:
            with self.cluster.api() as api:
                for pod in self._pods():
                    api.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 1})
            awaited("all pods are gone", lambda: not self._pods(), lambda: str(self.lives()))
        self.at_rest()
        self.forget_told()

    @property
    def _plugins(self) -> Path:
        return self.cluster.node.kubelet_socket_dir

    def _checkpoint(self) -> OpenCallRecord:
        return OpenCallRecord(self.agent.checkpoint, self.report().boot_id)

    def _pods(self) -> list[Object]:
        with self.cluster.api() as api:
            found: list[Object] = api.call("GET", PODS)["items"]
        return found

    def _has_told(self, uid: str) -> bool:
        return waits(self.folder / uid)

    def _files(self) -> dict[str, ShareGiven]:
        folder = self.cluster.node.cdi_dir
        specs = {stem: cdi.read_spec(folder, stem) for stem in cdi.spec_names(folder, PREFIX)}
        given = {stem: read_given(spec) for stem, spec in specs.items() if spec is not None}
        return {stem: one for stem, one in given.items() if one is not None}


def _grant_text(pod: Object | None) -> str:
    """The grant of a pod as it stands there; empty where it has none."""
    found: str = (pod or {"metadata": {}})["metadata"].get("annotations", {}).get("gpufleet.io/grant", "")
    return found
