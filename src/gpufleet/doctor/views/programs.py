"""Programs of others on which GPU work depends: their pods, found by image."""

import enum
import re

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView


class Program(enum.Enum):
    """A program, by the names of its images."""

    KUEUE = re.compile(r"(^|/)kueue(-controller|-operator)?$")
    KEDA = re.compile(r"(^|/)keda(-operator)?$")
    PROMETHEUS = re.compile(
        r"(^|/)(prometheus|prometheus-engine|vmagent|victoria-metrics|vmsingle|alloy|agent-operator)$"
    )
    VOLCANO = re.compile(r"(^|/)(vc|volcano)-scheduler$")
    KAI = re.compile(r"kai.*/scheduler$|(^|/)kai-scheduler$")
    SCHEDULER_PLUGINS = re.compile(r"scheduler-plugins/kube-scheduler$")
    CLUSTER_AUTOSCALER = re.compile(r"(^|/)(cluster-autoscaler.*|karpenter.*|controller-karpenter)$")


def pods_of(facts: Facts, program: Program) -> tuple[PodView, ...]:
    """The pods of a program that have not ended."""
    by_repository = facts.once(_by_repository).items()
    pods = (one for name, found in by_repository if program.value.search(name) for one in found)
    # A pod with two containers of the program counts once.
    return tuple({id(one): one for one in pods}.values())


def _by_repository(facts: Facts) -> dict[str, list[PodView]]:
    """The pods that have not ended by the images that they run."""
    found: dict[str, list[PodView]] = {}
    for pod in facts.pods:
        for one in pod.template.containers if not pod.has_ended else ():
            if one.image is not None:
                found.setdefault(one.image.repository, []).append(pod)
    return found
