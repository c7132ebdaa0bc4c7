"""Whether nodes may come by themselves, so that what has no room now may have it later."""

import datetime as dt
from collections.abc import Callable

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.objects.status import age_s
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.doctor.views.programs import Program, pods_of

COMING_S = 15 * 60.0
"""How long a node may take from the first pod that wants it to its first GPU: machine, driver, plugin."""


def may_grow(facts: Facts) -> bool:
    """Whether nodes may come: in clouds always, because an autoscaler may run outside of the cluster."""
    clouds = any(one.manifest.root.text_at("spec", "providerID") for one in facts.nodes)
    return clouds or bool(facts.of_kind("NodePool") or pods_of(facts, Program.CLUSTER_AUTOSCALER))


def is_joining(node: NodeView, now: dt.datetime) -> bool:
    """Whether a machine of a cloud has come so lately that its parts are still being started."""
    age = age_s(node.manifest.root.at("metadata", "creationTimestamp"), now)
    in_cloud = bool(node.manifest.root.text_at("spec", "providerID"))
    return in_cloud and age is not None and age < COMING_S


def overdue(facts: Facts) -> Callable[[Workload], bool]:
    """Tells of a workload whether a node for it ought to be there: none comes by itself, or not so late."""
    if not may_grow(facts):
        return lambda _: True
    return lambda one: any(pod.waits and pod.age_s(facts.now) > COMING_S for pod in one.pods)
