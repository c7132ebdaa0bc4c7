"""The objects that a rollout reads and makes: pods as it reads them, and the check pod.

``rollout_driver`` and ``rollout_toolkit`` make the DaemonSets by which images come to nodes;
``rollout_actions`` writes all of them.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.pod import (
    EVICTION_REFUSED,
    FAILED,
    KUBELET_REASONS,
    SUCCEEDED,
    ContainerResources,
)
from gpufleet.kube.objects.structure import Structure
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node_images import images_of
from gpufleet.model.resource_names import GPU_RESOURCES, is_part_of_gpu
from gpufleet.operator.node_objects import DRIVER_LABEL, TOOLKIT_LABEL

CHECK_LABEL = "gpufleet.io/driver-check"
"""On a check pod: the driver that it checks."""

CHECK_NODE = "gpufleet.io/driver-check-node"
"""On a check pod: its node, also before the scheduler has placed it there."""

CHECK_FRACTION = "0.1"
"""What a check pod asks of a GPU where a node offers parts alone: any part shows that the driver works."""

VALIDATIONS = "/run/nvidia/validations"
READY_FILE = f"{VALIDATIONS}/.driver-ctr-ready"
"""The file by which containers of NVIDIA's operands know that the driver works."""

TEMPLATE_ANNOTATION = "gpufleet.io/pod-template"
"""On a DaemonSet of ours: a digest of the pods that it makes, so that another version knows its own."""

DIGEST_DIGITS = 40
"""A label has room for 63 characters; as many digits as a commit of git has tell any two images apart."""

NAME_DIGITS = 12
"""Digits in names of objects, which people read: enough for the images of one cluster."""

HELD_ANNOTATIONS = (
    keys.CHECKPOINTED_AT,
    keys.CHECKPOINT_ON_REQUEST,
    keys.CHECKPOINT_REQUESTED,
    CHECK_NODE,
    keys.MOVE_TO,
)
HELD_LABELS = (DRIVER_LABEL, TOOLKIT_LABEL, CHECK_LABEL)
DAEMON_SET = "DaemonSet"
APP_LABEL, VALIDATOR = "app", "nvidia-operator-validator"
"""The label of the pods by which NVIDIA's operator validates a node: they are ready once all works there."""

READY, SCHEDULED = "Ready", "PodScheduled"


class HeldMetadata(Metadata, frozen=True):
    """A pod's metadata, with the annotations and labels that a rollout reads."""

    def __post_init__(self) -> None:
        kept = {
            key: text
            for key, text in self.annotations.items()
            if key in HELD_ANNOTATIONS or key == keys.MIRROR
        }
        msgspec.structs.force_setattr(self, "annotations", kept)
        labels = {key: self.labels[key] for key in HELD_LABELS if key in self.labels}
        if self.labels.get(APP_LABEL) == VALIDATOR:
            labels[APP_LABEL] = VALIDATOR
        msgspec.structs.force_setattr(self, "labels", labels)


class HeldContainer(Structure, frozen=True):
    """A container, as far as it may hold GPUs, with its image."""

    image: str = ""
    resources: ContainerResources = ContainerResources()


class HeldSpec(Structure, frozen=True):
    """Where a pod runs and what its containers ask for."""

    node_name: str = ""
    containers: tuple[HeldContainer, ...] = ()
    init_containers: tuple[HeldContainer, ...] = ()


class StateWords(Structure, frozen=True):
    """Why a container waits or how it ended."""

    reason: str = ""
    message: str = ""
    exit_code: int | None = None


class ContainerState(Structure, frozen=True):
    """The state of a container."""

    waiting: StateWords | None = None
    terminated: StateWords | None = None


class ContainerStatus(Structure, frozen=True):
    """How a container is doing."""

    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class HeldCondition(Structure, frozen=True):
    """A condition of a pod."""

    type: str
    status: str
    message: str = ""


class HeldStatus(Structure, frozen=True):
    """How far a pod is."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[HeldCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class HeldPod(Structure, frozen=True):
    """A pod as a rollout reads it: what it holds, and how far it is."""

    metadata: HeldMetadata
    spec: HeldSpec = HeldSpec()
    status: HeldStatus = HeldStatus()
    holds_by_claim: bool = False
    """Whether a claim of it has GPUs; ``pods_by_node`` says it, since no pod tells what its claims have."""

    @property
    def has_ended(self) -> bool:
        """Whether none of its containers runs any more."""
        return self.status.phase in {SUCCEEDED, FAILED}

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet says that it works."""
        return any(one.type == READY and one.status == "True" for one in self.status.conditions)

    @property
    def refused_words(self) -> str:
        """Why the scheduler could not end it, as it says, or ""."""
        said = (one for one in self.status.conditions if one.type == EVICTION_REFUSED)
        return next((one.message for one in said if one.status == "True"), "")

    @property
    def is_of_daemon(self) -> bool:
        """Whether it belongs to the node: it comes back at once, and an eviction empties nothing."""
        controller = self.metadata.controller
        is_daemon = controller is not None and controller.kind == DAEMON_SET
        return is_daemon or keys.MIRROR in self.metadata.annotations

    @property
    def holds_gpus(self) -> bool:
        """Whether it has GPUs by a claim, or any container asks for some, also one that runs first."""
        return self.holds_by_claim or any(
            is_gpu(name)
            for container in (*self.spec.containers, *self.spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
            for name in amounts
        )

    def words(self) -> str:
        """What is said of containers that do not work, or "" where nothing is."""
        states = [
            one
            for status in (*self.status.init_container_statuses, *self.status.container_statuses)
            for state in (status.state, status.last_state)
            for one in (state.terminated, state.waiting)
            if one is not None and (one.message or one.reason) and one.reason != "Completed"
        ]
        told = [": ".join(part for part in (one.reason, one.message.strip()) if part) for one in states]
        return "; ".join(dict.fromkeys(told)) or self.status.message or self.status.reason or self._unplaced()

    def _unplaced(self) -> str:
        """Why no scheduler has placed it, or ""."""
        return next((one.message for one in self.status.conditions if one.type == SCHEDULED), "")


def is_gpu(name: str) -> bool:
    """Whether a resource is GPUs or parts of one."""
    return name in GPU_RESOURCES or is_part_of_gpu(name) or name == keys.GPU_SHARE


def is_turned_away(pod: HeldPod) -> bool:
    """Whether a kubelet would not run a pod, because it does not know of a free GPU at that moment."""
    reason = pod.status.reason
    return pod.status.phase == FAILED and (reason in KUBELET_REASONS or reason.startswith("OutOf"))


def image_key(image: str) -> str:
    """The value of ``DRIVER_LABEL`` and ``TOOLKIT_LABEL`` that stands for an image by digest."""
    return image.rpartition(":")[2][:DIGEST_DIGITS]


def daemon_set_of(
    namespace: str, name: str, application: str, label: tuple[str, str], pod: dict[str, Any]
) -> dict[str, Any]:
    """The DaemonSet that brings an image to nodes with its label.

    Its pods are never replaced by the controller of DaemonSets: an image changes by a rollout alone.
    """
    key, value = label
    labels = {keys.APPLICATION: application, key: value}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {key: value}, **pod}}
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:NAME_DIGITS]
    return {
        "apiVersion": "apps/v1",
        "kind": DAEMON_SET,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {TEMPLATE_ANNOTATION: digest},
        },
        "spec": {
            "selector": {"matchLabels": {key: value}},
            "updateStrategy": {"type": "OnDelete"},
            "template": template,
        },
    }


def check_name(node: NodeName, image: str) -> str:
    """The name of the check pod of a node and an image; names of nodes may be longer than a pod's may be."""
    digits = hashlib.sha256(f"{node} {image}".encode()).hexdigest()
    return f"gpufleet-driver-check-{digits[:NAME_DIGITS]}"


def check_resource(allocatable: Mapping[str, str]) -> str | None:
    """What a check pod asks for of what a node offers: a whole GPU, else an instance, else a share."""
    offered = [name for name, amount in allocatable.items() if is_gpu(name) and amount != "0"]
    return min(
        offered, key=lambda name: (name == keys.GPU_SHARE, name not in GPU_RESOURCES, name), default=None
    )


def check_pod(
    namespace: str, node: NodeName, image: str, resource: str, scheduler_name: str
) -> dict[str, Any]:
    """A pod that asks for one ``resource`` of the node and has the driver name it. ``image`` is what came.

    The scheduler places it on this node alone: agents give devices to pods that it placed and to no others.
    It tolerates the cordon. It runs the driver's image, or a toolkit's that came alone, which is on the node
    already; ``nvidia-smi`` comes with the GPU.
    """
    images = images_of(image)
    share = {keys.GPU_FRACTION: CHECK_FRACTION} if resource == keys.GPU_SHARE else {}
    only_there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only_there]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": check_name(node, image),
            "namespace": namespace,
            "labels": {keys.APPLICATION: "gpufleet-driver-check", CHECK_LABEL: image_key(image)},
            "annotations": {CHECK_NODE: node, **share},
        },
        "spec": {
            "schedulerName": scheduler_name,
            "affinity": {"nodeAffinity": required},
            # One answer for each check: a pod that is started again would hide that the first try failed.
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "check",
                    "image": images.driver or images.toolkit,
                    "command": ["nvidia-smi", "-L"],
                    "resources": {"limits": {resource: "1"}},
                    # ``nvidia-smi`` says on its output what is wrong, and the status of the policy tells
                    # it.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
