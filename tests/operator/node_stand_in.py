"""A stand-in for what runs on nodes, for tests alone: kubelets, drivers, their managers, and validators.

It is no driver: a pod of a driver becomes ready if its image is one of ``works``, and a check pod passes if
the node's driver is ready. A driver's pod begins as NVIDIA's driver manager does: it evicts by itself unless
the node's annotation leaves that to a controller. A validator is ready some time after the driver. Objects
are those of a real API server, and the DaemonSet controller is real.
"""

import datetime as dt
import threading
from collections import defaultdict
from typing import Any, Self

import msgspec

from gpufleet.model.fleet_policy import UPGRADE_STATE_LABEL
from gpufleet.operator.node_objects import DRIVER_LABEL, ROLLOUT_ANNOTATION, TOOLKIT_LABEL
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.operator.rollout_objects import CHECK_LABEL
from gpufleet.preflight.facts import EVICTION_BY_CONTROLLER
from tests.kube.manifests.real_server import Person
from tests.operator.real_server import NODES, Stage

SYSTEM_PODS = "/api/v1/namespaces/gpufleet-system/pods"
POLL_S = 0.1
HEARTBEAT_POLLS = 50
"""About five seconds: the controller of nodes waits for forty."""

VALIDATOR = "nvidia-operator-validator"
VALIDATOR_POLLS = 15
"""A validator takes longer than a check pod here, so that a rollout that does not wait for it is seen."""

PHASES_WITH_DEADLINES = {RolloutPhase.CHANGING: "Changing", RolloutPhase.VALIDATING: "Validating"}


class NodeStandIn:
    """Plays the nodes of a stage until it is left, and remembers the deadlines that it saw on them."""

    def __init__(self, person: Person, stage: Stage, works: set[str]) -> None:
        self._person = person
        self._stage = stage
        self.works = works
        self.not_ready: set[str] = set()
        self.deadlines_us: dict[tuple[str, str, bool, str], set[int]] = defaultdict(set)
        self.begun: set[str] = set()
        self.states: dict[str, list[str]] = defaultdict(list)
        """The states that NVIDIA's operator would have told of each node, each as often as it came."""
        self.evicting_managers: set[str] = set()
        """Nodes on which a driver manager would have evicted by itself."""
        self.returned_unvalidated: set[str] = set()
        """Nodes that were back in service while a validator of theirs was not ready."""
        self._validated_polls: dict[str, int] = defaultdict(int)
        self._is_due = False
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._play)
        self._problem: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _play(self) -> None:
        look = 0
        try:
            while not self._left.wait(POLL_S):
                if look % HEARTBEAT_POLLS == 0 or self._is_due:
                    self._is_due = False
                    self._beat()
                look += 1
                for node in list(self._stage.nodes):
                    self._remember(node)
                found = self._person.ask("GET", SYSTEM_PODS)[1]["items"]
                for pod in found:
                    self._see_to(pod, found)
        except BaseException as problem:  # noqa: BLE001 - told by the thread that waits
            self._problem = problem

    def beat(self) -> None:
        """Tell soon which nodes are ready."""
        self._is_due = True

    def _beat(self) -> None:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for node in list(self._stage.nodes):
            status = "False" if node in self.not_ready else "True"
            ready = {"type": "Ready", "status": status, "reason": "StandIn", "lastHeartbeatTime": now}
            amounts = {"nvidia.com/gpu": "8", "pods": "110"}
            told = {"conditions": [ready], "allocatable": amounts, "capacity": amounts}
            self._person.merge(f"{NODES}/{node}/status", {"status": told})

    def _remember(self, node: str) -> None:
        found = self._person.ask("GET", f"{NODES}/{node}")[1]
        annotations = found.get("metadata", {}).get("annotations", {})
        state = found.get("metadata", {}).get("labels", {}).get(UPGRADE_STATE_LABEL, "")
        if self.states[node][-1:] != [state]:
            self.states[node].append(state)
        if ROLLOUT_ANNOTATION not in annotations:
            return
        stamp = msgspec.json.decode(annotations[ROLLOUT_ANNOTATION], type=Stamp)
        self.begun.add(node)
        is_back = stamp.phase in {RolloutPhase.RETURNED, RolloutPhase.ROLLED_BACK}
        if is_back and 0 < self._validated_polls[node] < VALIDATOR_POLLS:
            self.returned_unvalidated.add(node)
        if stamp.is_under_way:
            part = PHASES_WITH_DEADLINES.get(stamp.phase, "Draining")
            self.deadlines_us[node, part, stamp.is_rollback, stamp.target].add(stamp.deadline_us)

    def _see_to(self, pod: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        path = f"{SYSTEM_PODS}/{metadata['name']}"
        node = spec.get("nodeName", "")
        if not node:
            self._bind(pod, path)
        elif node not in self._stage.nodes:
            return
        elif metadata.get("deletionTimestamp"):
            self._person.ask(
                "DELETE", path, {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
            )
        elif CHECK_LABEL in metadata.get("labels", {}):
            drivers = [one for one in pods if DRIVER_LABEL in one["metadata"].get("labels", {})]
            runs = any(one["spec"].get("nodeName") == node and _is_ready(one) for one in drivers)
            self._tell(pod, path, {"phase": "Succeeded" if runs else "Failed", "message": "no devices"})
        elif TOOLKIT_LABEL in metadata.get("labels", {}):
            self._drive(pod, path)
        elif DRIVER_LABEL in metadata.get("labels", {}):
            self._manage(pod, node)
            self._drive(pod, path)
        elif metadata.get("labels", {}).get("app") == VALIDATOR:
            self._validate(pod, path, pods)
        else:
            self._tell(pod, path, {"phase": "Running"})

    def _manage(self, pod: dict[str, Any], node: str) -> None:
        """What NVIDIA's driver manager does before the driver's container: it asks who evicts."""
        if pod.get("status", {}).get("phase") == "Running":
            return
        annotations = self._person.ask("GET", f"{NODES}/{node}")[1]["metadata"].get("annotations", {})
        if annotations.get(EVICTION_BY_CONTROLLER) != "true":
            self.evicting_managers.add(node)

    def _validate(self, pod: dict[str, Any], path: str, pods: list[dict[str, Any]]) -> None:
        node = pod["spec"]["nodeName"]
        drivers = [one for one in pods if DRIVER_LABEL in one["metadata"].get("labels", {})]
        runs = any(one["spec"].get("nodeName") == node and _is_ready(one) for one in drivers)
        self._validated_polls[node] = self._validated_polls[node] + 1 if runs else 0
        is_ready = self._validated_polls[node] >= VALIDATOR_POLLS
        self._tell(
            pod, path, {"phase": "Running", "conditions": [{"type": "Ready", "status": str(is_ready)}]}
        )

    def _drive(self, pod: dict[str, Any], path: str) -> None:
        runs = pod["spec"]["containers"][0]["image"] in self.works
        waiting = {"reason": "CrashLoopBackOff", "message": "modprobe: exec format error"}
        container = {
            "name": "nvidia-driver-ctr",
            "image": "stand-in",
            "imageID": "",
            "ready": runs,
            "restartCount": 0,
            "state": {"running": {}} if runs else {"waiting": waiting},
        }
        condition = {"type": "Ready", "status": str(runs)}
        told = {"phase": "Running", "conditions": [condition], "containerStatuses": [container]}
        self._tell(pod, path, told)

    def _tell(self, pod: dict[str, Any], path: str, status: dict[str, Any]) -> None:
        known = pod.get("status", {})
        if all(_told(known.get(key), value) for key, value in status.items()):
            return
        self._person.merge(f"{path}/status", {"status": status})

    def _bind(self, pod: dict[str, Any], path: str) -> None:
        terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get(
            "nodeSelectorTerms", []
        )
        for term in required:
            for one in term.get("matchFields", []):
                if one["values"][0] in self._stage.nodes:
                    body = {
                        "apiVersion": "v1",
                        "kind": "Binding",
                        "metadata": {"name": pod["metadata"]["name"]},
                        "target": {"kind": "Node", "name": one["values"][0]},
                    }
                    self._person.ask("POST", f"{path}/binding", body)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _told(known: Any, value: Any) -> bool:
    """Whether a status says something already, beside what the server adds to it."""
    if isinstance(value, list):
        return bool(known) and all(one in known or _told(known[0], one) for one in value)
    if isinstance(value, dict):
        return isinstance(known, dict) and all(_told(known.get(key), one) for key, one in value.items())
    return bool(known == value)
