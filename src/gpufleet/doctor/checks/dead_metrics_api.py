"""APIs of metrics that are registered and do not answer, while autoscalers of GPU work ask them."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.scalers import gpu_scalers, unavailable_apis


def judge(facts: Facts) -> Iterator[Failure]:
    """Each API of metrics that does not answer and that an autoscaler asks."""
    scalers = gpu_scalers(facts)
    for group, (service, why) in unavailable_apis(facts).items():
        asking = [one for one in scalers if any(metric.group == group for metric in one.metrics)]
        if asking:
            place = service.root.at("spec", "service")
            namespace, name = place.text_at("namespace") or "", place.text_at("name") or ""
            yield Failure(
                f"{service.title}: does not answer, and {listed(one.title for one in asking)} asks it",
                (service.title,),
                (f"Available=False {why.reason}: {why.message}",),
                (
                    Remedy(
                        f"bring back the adapter behind Service {namespace}/{name}, or install one",
                        f"kubectl get service,endpointslices,pods -n {namespace}",
                    ),
                ),
                frozenset(one.title for one in asking),
            )


CHECK = Check(
    "metrics-api-dead",
    Point.SCALING,
    Layer.START,
    "APIs of metrics answer",
    "While its API does not answer, an autoscaler leaves the number of pods as it is.",
    judge,
    ("APIService", "HorizontalPodAutoscaler"),
)
