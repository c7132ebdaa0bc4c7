"""How long a pod takes until it is ready on its node, in numbers and in words."""

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.ready_times import ReadyTimes
from gpufleet.explain.answer import ReadyRow
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.pod_images import images_of_pod
from gpufleet.model.data import DataAsk
from gpufleet.model.identifiers import NodeName
from gpufleet.model.phrases import length, listed
from gpufleet.model.pod import Pod


def ready_row(facts: Facts, pod: Pod, node: NodeName) -> ReadyRow | None:
    """The estimate for a pod on a node; None for a pod that names no data, and no large image."""
    data = pod.shape.relations.data
    if not data.read:
        return None
    ready = ReadyTimes(facts.picture).of(data.asks, node, _images(facts, pod))
    return ReadyRow(harmless(node), ready.image_s, ready.data_s, ready.load_s)


def _images(facts: Facts, pod: Pod) -> tuple[DataAsk, ...]:
    """Its large images; a pod that has a node is not weighed any more, so its object says them."""
    entry = facts.pods.entries.get(pod.uid)
    return pod.shape.relations.data.images or (() if entry is None else images_of_pod(entry.object))


def ready_note(row: ReadyRow) -> str:
    """The estimate in words."""
    parts = (("pull its images", row.image_s), ("copy its data", row.data_s), ("load it", row.load_s))
    known = [f"{length(seconds)} to {what}" for what, seconds in parts if seconds is not None]
    unknown = [what for what, seconds in parts if seconds is None]
    words = f"until it is ready on {row.node} it takes {listed(known)}" if known else ""
    lacking = f"how long it takes to {listed(unknown)} on {row.node} is not known" if unknown else ""
    return "; ".join(one for one in (words, lacking) if one)
