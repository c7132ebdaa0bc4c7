"""Which pod and which device a series of DCGM's is about, in every form in which its labels arrive.

A scrape that does not honour labels calls the exporter's own pod ``pod`` and the one on the GPU
``exported_pod``; one that does calls the latter ``pod``, but an idle GPU has none, and then ``pod`` is the
exporter again. Which it is follows from the target itself: its series ``up`` has the target's own labels.
Where that is not known, nothing is guessed. ``Hostname`` became ``hostname`` in dcgm-exporter after 4.8.
"""

import enum
import re
from collections.abc import Collection, Mapping

import msgspec

Labels = Mapping[str, str]
Target = tuple[str, str]
"""A target of a scrape: its job and its instance."""
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


class PodName(msgspec.Struct, frozen=True, order=True):
    """A pod, as its namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Device(msgspec.Struct, frozen=True):
    """A GPU, or with ``instance`` a MIG instance of it; "" for what its labels do not say."""

    uuid: str
    instance: str
    profile: str
    index: str
    model: str
    host: str


class NoPod(enum.Enum):
    """Why a series has no holder."""

    NONE = "none"
    UNSURE = "unsure"


def device_of(labels: Labels) -> Device | None:
    """The device of a series; None if it does not say which one."""
    uuid = labels.get("UUID") or labels.get("uuid", "")
    if not uuid:
        return None
    host = labels.get("Hostname") or labels.get("hostname", "")
    return Device(
        uuid,
        labels.get("GPU_I_ID", ""),
        labels.get("GPU_I_PROFILE", ""),
        labels.get("gpu", ""),
        labels.get("modelName", ""),
        # What is no name of a node must not get into the commands that are printed.
        host if _HOST.fullmatch(host) else "",
    )


def holder_of(
    labels: Labels, targets: Mapping[Target, Collection[PodName]], asking: Collection[PodName]
) -> PodName | NoPod:
    """The pod on the device.

    ``targets`` has the pods of each target that the server scraped, ``asking`` the pods known to ask for
    GPUs.
    """
    if "exported_pod" in labels:
        namespace = labels.get("exported_namespace") or labels.get("namespace", "")
        return PodName(namespace, labels["exported_pod"])
    if "pod_name" in labels:
        return PodName(labels.get("pod_namespace", ""), labels["pod_name"])
    if "pod" not in labels:
        return NoPod.NONE
    pod = PodName(labels.get("namespace", ""), labels["pod"])
    own = targets.get((labels.get("job", ""), labels.get("instance", "")))
    if own is not None:
        return NoPod.NONE if pod in own else pod
    return pod if pod in asking else NoPod.UNSURE


def named_pod(labels: Labels) -> PodName:
    """The pod that a series of kube-state-metrics, or of gpufleet's agents, is about."""
    namespace = labels.get("exported_namespace") or labels.get("namespace", "")
    return PodName(namespace, labels.get("exported_pod") or labels.get("pod", ""))
