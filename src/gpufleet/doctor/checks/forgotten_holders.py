"""Pods that run on GPUs of which their kubelet has lost its record, as the node's agent reports."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """All containers that their kubelet has no record of, in one failure, by their nodes."""
    reported = [one for one in facts.gpu_nodes if one.devices is not None]
    found = {one: its for one in reported if (its := _forgotten(one))}
    if reported and not found:
        yield Good("every kubelet knows the pods on its GPUs")
    if not found:
        return
    count = len({(uid, container) for its in found.values() for uid, container, _ in its})
    yield Failure(
        f"{count} container{'' if count == 1 else 's'} on {listed(one.name for one in found)} "
        f"{'runs' if count == 1 else 'run'} on GPUs that the kubelet counts as free",
        tuple(one.title for one in found),
        tuple(
            f"NodeDevices {one.name}: container {container} of pod {uid} runs on {device}"
            for one, its in found.items()
            for uid, container, device in its
        ),
        (Remedy("make these pods anew when that suits; the agent keeps their GPUs from others until then"),),
    )


def _forgotten(node: NodeView) -> list[tuple[str, str, str]]:
    """The pod's UID, the container and the device of each such holder."""
    root = None if node.devices is None else node.devices.root
    return [
        (one.text_at("podUID") or "", one.text_at("container") or "", one.text_at("device") or "a GPU")
        for one in (() if root is None else root.at("spec", "holders").items())
        if one.at("unknownToKubelet").is_true
    ]


CHECK = Check(
    "gpus-forgotten",
    Point.STACK,
    Layer.RUNNING,
    "Kubelets know what runs on their GPUs",
    "A kubelet that lost its record of devices counts the GPUs of running pods as free, and offers them.",
    judge,
    ("Node", "NodeDevices"),
)
