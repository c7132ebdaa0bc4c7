"""GPU pods that were told to end long ago and still hold their GPUs."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.objects.status import age_s
from gpufleet.model.phrases import counted

_PATIENCE_S = 600.0
"""After the grace period, which the time of deletion already contains."""


def judge(facts: Facts) -> Iterator[Failure]:
    """The pods that a finalizer holds, and those that their kubelet does not end."""
    late = [
        one
        for one in facts.pods
        if one.is_leaving
        and one.node
        and not one.has_ended
        and one.asks_for_gpu
        and _late_s(facts, one) > _PATIENCE_S
    ]
    held = [one for one in late if _finalizers(one)]
    left = [one for one in late if not _finalizers(one)]
    if held:
        first = held[0]
        names = listed(sorted({name for one in held for name in _finalizers(one)}))
        yield _failure(
            facts,
            held,
            f"finalizers hold them: {names}",
            Remedy(
                "let the finalizer's controller do its work; where that is gone, take the finalizer away",
                f"kubectl patch pod -n {first.namespace} {first.manifest.name} --type merge"
                ' -p \'{"metadata": {"finalizers": null}}\'',
            ),
        )
    if left:
        yield _failure(
            facts,
            left,
            "their kubelet does not end them",
            Remedy(
                "look at the node: a process that hangs in the driver ends with a reboot alone",
                f"kubectl describe node {left[0].node}",
            ),
        )


def _late_s(facts: Facts, pod: PodView) -> float:
    return age_s(pod.root.at("metadata", "deletionTimestamp"), facts.now) or 0.0


def _finalizers(pod: PodView) -> list[str]:
    return [one.text or "" for one in pod.root.at("metadata", "finalizers").items()]


def _failure(facts: Facts, pods: list[PodView], why: str, mend: Remedy) -> Failure:
    titles = tuple(one.title for one in pods)
    gpus = sum(one.template.device_count for one in pods)
    return Failure(
        f"{listed(titles)}: to end since long, and still holds {counted(gpus, 'GPU')}: {why}",
        titles,
        tuple(f"{one.title}: on {one.node}, {_late_s(facts, one) / 60:.0f} minutes too late" for one in pods),
        (mend,),
        frozenset(titles),
    )


CHECK = Check(
    "termination-endless",
    Point.UPGRADES,
    Layer.START,
    "GPU pods that are told to end do",
    "The GPUs of a pod are free when it is gone, not when it is told to go.",
    judge,
    ("Pod",),
)
