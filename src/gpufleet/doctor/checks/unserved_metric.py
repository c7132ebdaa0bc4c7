"""Autoscalers of GPU work that get no metric: no server has it, or not under this name."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.scalers import CUSTOM, Scaler, gpu_scalers, unavailable_apis
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import counted, subject

_ADAPTER = (
    "helm install prometheus-adapter prometheus-adapter"
    " --repo https://prometheus-community.github.io/helm-charts --namespace monitoring"
)


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each autoscaler, by the first metric that it does not get."""
    scalers = [
        one
        for one in gpu_scalers(facts)
        if one.target_exists is not False and one.manifest.kind == "HorizontalPodAutoscaler"
    ]
    bad = 0
    for scaler in scalers:
        found = _unserved(facts, scaler) or (_unanswered(scaler) if _runs(scaler) else None)
        if found is not None:
            bad += 1
            yield found
    if scalers and not bad:
        yield Good(f"the metrics of {counted(len(scalers), 'autoscaler')} of GPU work are served")


def _unserved(facts: Facts, scaler: Scaler) -> Failure | None:
    dead = unavailable_apis(facts)
    for metric in scaler.metrics:
        if metric.group not in facts.served_groups:
            seen = f"no APIService of {metric.group}"
            mend = Remedy("install an adapter with a rule for the metric, or KEDA", _ADAPTER)
            return _failure(scaler, f"asks for {metric.name}, but no API serves {metric.group}", seen, mend)
        served = facts.metrics.get(metric.group)
        # What a dead API serves is not known, and that it is dead is told by a check of its own.
        if metric.group in dead or metric.group != CUSTOM or not served or not _runs(scaler):
            continue
        names = sorted({one.rpartition("/")[2] for one in served})
        if metric.name not in names:
            near = nearest(metric.name, names)
            hint = f"; did you mean {near}?" if near else ""
            mend = Remedy(
                f"give the adapter a rule for it, or name one that it serves{hint}",
                f"kubectl get --raw /apis/{CUSTOM}/v1beta1",
            )
            seen = f"{subject(len(names), 'metric', 'are')} served, such as {listed(names)}"
            return _failure(scaler, f"asks for {metric.name}, which its API does not serve", seen, mend)
    return None


def _runs(scaler: Scaler) -> bool:
    """Whether any of its pods is well; until then there are no metrics of them."""
    return scaler.workload is not None and any(one.is_ready for one in scaler.workload.pods)


def _unanswered(scaler: Scaler) -> Failure | None:
    active = scaler.conditions.get("ScalingActive")
    if active is None or active.status != "False" or not active.reason.startswith(("FailedGet", "Invalid")):
        return None
    seen = f"ScalingActive=False {active.reason}: {active.message}"
    mend = Remedy(
        "see which metric it is, and which adapter serves it", get_command(scaler.manifest) + " -o yaml"
    )
    return _failure(scaler, "gets no metric", seen, mend)


def _failure(scaler: Scaler, says: str, seen: str, mend: Remedy) -> Failure:
    return Failure(f"{scaler.title}: {says}", (scaler.title,), (seen,), (mend,), scaler.affects)


CHECK = Check(
    "metric-unserved",
    Point.SCALING,
    Layer.SCALING,
    "Autoscalers of GPU work get their metrics",
    "An autoscaler without its metric does nothing, and says so only in its own conditions.",
    judge,
    ("HorizontalPodAutoscaler", "APIService"),
)
