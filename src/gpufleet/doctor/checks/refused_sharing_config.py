"""Configurations of sharing that a plugin or gpufleet's agent refuses, with the field that is wrong."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point
from gpufleet.doctor.checks.missing_sharing_config import failure_of
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.sharing import declared_for
from gpufleet.doctor.views.stack import stack_of
from gpufleet.doctor.views.warnings import warnings_of

REFUSED = "SharingConfigRefused"
RECENT_S = 3600.0
"""The configuration may have been corrected since an older event."""


def judge(facts: Facts) -> Iterator[Failure]:
    """The nodes by configuration and field; what an agent said counts where we cannot read the same."""
    stack = stack_of(facts)
    told = {
        one.subject: one.message
        for one in warnings_of(facts)
        if one.reason == REFUSED and one.age_s(facts.now) < RECENT_S
    }
    refused: dict[tuple[str, str], list[NodeView]] = {}
    for node in facts.gpu_nodes:
        declared = declared_for(facts, stack, node)
        if declared is not None and declared.problem and not declared.is_missing:
            refused.setdefault((declared.where, declared.problem), []).append(node)
        elif declared is None and node.title in told:
            refused.setdefault(("its configuration", told[node.title]), []).append(node)
    for (where, problem), nodes in refused.items():
        yield failure_of(facts, where, problem, nodes)


CHECK = Check(
    "sharing-config-refused",
    Point.SHARING,
    Layer.DRIVER,
    "Sharing configurations can be used",
    "NVIDIA's plugin ends over what it cannot read; gpufleet's agent keeps the last good configuration.",
    judge,
    ("Node", "DaemonSet", "Pod"),
)
