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
    return tuple(
        one
        for one in facts.pods
        if not one.has_ended
        and any(
            each.image is not None and program.value.search(each.image.repository)
            for each in one.template.containers
        )
    )
