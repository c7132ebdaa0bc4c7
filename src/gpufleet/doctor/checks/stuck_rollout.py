"""Rollouts of GPU Deployments that wait for a GPU which only their own old pods could free."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.status import conditions
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.lint.rule import RuleFinding
from gpufleet.lint.rules.surge_without_room import RULE
from gpufleet.model.phrases import subject, verb

_CHANGE = '{"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}'


def judge(facts: Facts) -> Iterator[Failure]:
    """Each Deployment with a stuck rollout, once its deadline for progress has gone by."""
    for one in facts.gpu_workloads:
        progressing = conditions(one.manifest.root.at("status")).get("Progressing")
        if one.manifest.kind != "Deployment" or progressing is None or progressing.status != "False":
            continue
        waiting = [pod for pod in one.pods if pod.waits]
        holding = [pod for pod in one.pods if pod.node]
        # A rollout that adds first needs a spare GPU, which its own old pods hold.
        if waiting and holding and _adds_first(facts, one):
            patch = get_command(one.manifest).replace("kubectl get", "kubectl patch", 1)
            without = f"{len(waiting)} {verb(len(waiting), 'have')} no node"
            yield Failure(
                f"{one.title}: its new pod waits for a GPU, and its old pods wait for the new one",
                (one.title,),
                (
                    f"Progressing=False {progressing.reason}",
                    f"{subject(len(holding), 'pod', 'hold')} GPUs, {without}",
                    *(f"{pod.title}: {pod.verdict}" for pod in waiting if pod.verdict),
                ),
                (Remedy("let one old pod go first", f"{patch} --type merge -p '{_CHANGE}'"),),
                frozenset(pod.title for pod in waiting),
            )


def _adds_first(facts: Facts, workload: Workload) -> bool:
    """Whether the rollout adds a pod before it takes one away, and there is no room for one more."""
    return RULE.concerns(workload.manifest) and any(
        isinstance(one, RuleFinding) for one in RULE.check(workload.manifest, facts.context)
    )


CHECK = Check(
    "rollout-stuck",
    Point.UPGRADES,
    Layer.START,
    "Rollouts of GPU work go through",
    "A rollout that adds before it removes needs a spare GPU; without one the old version runs for ever.",
    judge,
    ("Deployment", "Pod", "Node"),
)
