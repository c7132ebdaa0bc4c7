"""ScaledObjects of GPU work in a cluster where no KEDA runs."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.status import conditions
from gpufleet.doctor.views.programs import Program, pods_of
from gpufleet.doctor.views.scalers import gpu_scalers

_INSTALL = (
    "helm install keda keda --repo https://kedacore.github.io/charts --namespace keda --create-namespace"
)


def judge(facts: Facts) -> Iterator[Failure]:
    """All ScaledObjects without a condition Ready together, if no pod of KEDA runs."""
    if pods_of(facts, Program.KEDA):
        return
    objects = [
        one
        for one in gpu_scalers(facts)
        if one.manifest.kind == "ScaledObject" and "Ready" not in conditions(one.manifest.root.at("status"))
    ]
    if objects:
        titles = tuple(one.title for one in objects)
        yield Failure(
            f"{listed(titles)}: no pod of KEDA's operator is there to scale it",
            titles,
            ("no pod has an image of KEDA", f"{titles[0]} has no condition Ready"),
            (Remedy("install KEDA", _INSTALL),),
            frozenset(titles),
        )


CHECK = Check(
    "keda-missing",
    Point.SCALING,
    Layer.START,
    "ScaledObjects have KEDA behind them",
    "A ScaledObject is only a wish until KEDA's operator makes an autoscaler of it.",
    judge,
    ("Pod",),
)
