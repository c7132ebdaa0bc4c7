"""GPU pods that the kubelet turned away after they had been placed: its devices are not what was counted."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.objects.status import age_s

RECENT_S = 3600.0
"""What failed longer ago may have been mended since; such pods stay until they are deleted."""


def judge(facts: Facts) -> Iterator[Failure]:
    """The pods by node."""
    found: dict[str, list[PodView]] = {}
    for pod in facts.pods:
        if pod.phase == "Failed" and pod.asks_for_gpu and _was_refused(pod) and _is_recent(pod, facts):
            found.setdefault(pod.node, []).append(pod)
    for node, pods in found.items():
        titles = tuple(one.title for one in pods)
        yield Failure(
            f"{listed(titles)}: turned away by the kubelet of {node}, where devices are missing",
            titles,
            tuple(
                f"{one.title}: {_reason(one)}: {one.root.text_at('status', 'message') or ''}" for one in pods
            ),
            (
                Remedy(
                    "let one scheduler place all GPU pods, and see which devices the plugin calls healthy",
                    f"kubectl describe node {node}",
                ),
                Remedy(
                    "delete what failed", f"kubectl delete pod -n {pods[0].namespace} {pods[0].manifest.name}"
                ),
            ),
            frozenset({*titles, f"Node {node}"}),
        )


def _reason(pod: PodView) -> str:
    return pod.root.text_at("status", "reason") or ""


def _was_refused(pod: PodView) -> bool:
    reason = _reason(pod)
    return reason == "UnexpectedAdmissionError" or any(reason == f"OutOf{name}" for name in pod.asked_names)


def _is_recent(pod: PodView, facts: Facts) -> bool:
    since_s = age_s(pod.root.at("status", "startTime"), facts.now)
    return (pod.age_s(facts.now) if since_s is None else since_s) < RECENT_S


CHECK = Check(
    "kubelet-refuses-pods",
    Point.STACK,
    Layer.START,
    "Kubelets admit GPU pods that were placed",
    "Such a pod has failed for good, and whatever made it makes another that fails in the same way.",
    judge,
    ("Pod",),
)
