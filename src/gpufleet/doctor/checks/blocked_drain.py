"""Disruption budgets that let no GPU pod be moved, so that their nodes can never be drained."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.pods import PodView
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.selectors import accepts
from gpufleet.model.phrases import each_of, none_of


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each budget that allows nothing although all of its pods are well."""
    bad = guarded = 0
    holding: dict[str, list[PodView]] = {}
    for pod in facts.pods:
        if pod.node and not pod.has_ended and pod.asks_for_gpu:
            holding.setdefault(pod.namespace, []).append(pod)
    for budget in facts.of_kind("PodDisruptionBudget"):
        pods = _guarded(budget, holding.get(budget.namespace, []))
        guarded += bool(pods)
        if pods and _allows_nothing(budget):
            bad += 1
            yield _failure(budget, pods)
    if guarded and not bad:
        yield Good(f"{each_of(guarded, 'budget')} of GPU pods lets nodes be drained")


def _guarded(budget: Manifest, pods: list[PodView]) -> list[PodView]:
    selector = budget.root.at("spec", "selector")
    return [one for one in pods if selector.exists and accepts(selector, one.labels)]


def _allows_nothing(budget: Manifest) -> bool:
    """Whether a budget allows no eviction though its pods are well; while some are not, that passes."""
    status = budget.root.at("status")
    allowed, expected, wanted, healthy = (
        status.at(name).integer
        for name in ("disruptionsAllowed", "expectedPods", "desiredHealthy", "currentHealthy")
    )
    if allowed is None or not expected or wanted is None or healthy is None:
        return False
    return allowed == 0 and wanted >= expected and healthy >= expected


def _failure(budget: Manifest, pods: list[PodView]) -> Failure:
    status = budget.root.at("status")
    names = ("disruptionsAllowed", "expectedPods", "desiredHealthy")
    patch = get_command(budget).replace("kubectl get", "kubectl patch", 1)
    change = '{"spec": {"minAvailable": null, "maxUnavailable": 1}}'
    return Failure(
        f"{budget.title}: lets {none_of(len(pods), 'guarded GPU pod')} be moved, "
        "so their nodes cannot be drained",
        (budget.title,),
        (
            ", ".join(f"{name}: {status.text_at(name)}" for name in names),
            f"it guards {listed(f'{one.title} on {one.node}' for one in pods)}",
        ),
        (Remedy("let one pod at a time be unavailable", f"{patch} --type merge -p '{change}'"),),
    )


CHECK = Check(
    "drain-blocked",
    Point.UPGRADES,
    Layer.PRACTICE,
    "Budgets let GPU nodes be drained",
    "kubectl drain waits for such a budget for ever, and so does every upgrade of driver and kubelet.",
    judge,
    ("PodDisruptionBudget", "Pod"),
    Grade.RISK,
)
