"""A RuntimeClass that the GPU stack itself stands on, and that is not there."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.stack import stack_of
from gpufleet.doctor.views.waiting import held_up_by
from gpufleet.lint.rules.runtime_not_named import needed_class

_MANIFEST = """apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata:
  name: {name}
handler: {name}
"""


def judge(facts: Facts) -> Iterator[Failure]:
    """Each name of a missing class, with the parts that name it."""
    there = {one.name for one in facts.of_kind("RuntimeClass")}
    missing: dict[str, list[str]] = {}
    stack = stack_of(facts)
    for daemon in stack.daemons:
        name = daemon.template.spec.text_at("runtimeClassName")
        if name and name not in there:
            missing.setdefault(name, []).append(daemon.title)
    for policy in facts.of_kind("ClusterPolicy", group="nvidia.com"):
        name = needed_class(policy)
        if name and name not in there:
            missing.setdefault(name, []).append(policy.title)
    # Pods of the stack are not made without the class, so nodes offer nothing and pods wait for them.
    bare = [one for one in facts.gpu_nodes if not one.offers]
    titles = {one.title for one in bare} | {one.title for one in stack.daemons} | held_up_by(facts, bare)
    titles |= {one.title for one in facts.of_kind("ClusterPolicy")}
    for name, needing in missing.items():
        yield Failure(
            f"{listed(needing)}: the RuntimeClass {name} is needed and is not there",
            tuple(needing),
            (f"there is no RuntimeClass {name}",),
            (
                Remedy(
                    "make it; the handler of that name has to be in the nodes' container runtime",
                    "",
                    _MANIFEST.format(name=name),
                ),
            ),
            frozenset({*needing, *titles}),
        )


CHECK = Check(
    "stack-runtime-class-missing",
    Point.STACK,
    Layer.DRIVER,
    "RuntimeClasses that the GPU stack needs exist",
    "The API server refuses pods of a RuntimeClass that it does not know, those of device plugins too.",
    judge,
    ("RuntimeClass", "DaemonSet"),
)
