"""NodePools of Karpenter in our words: the labels and taints of their nodes, and what their limits leave.

What is written there in a way that is not understood bounds nothing: Karpenter's own word is the last.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from gpufleet.kube.codec import selectors
from gpufleet.kube.meanings.gpu_instances import (
    AWS_CATEGORY,
    AWS_FAMILY,
    GPU_CATEGORIES,
    GPU_COUNTS,
    is_gpu_instance,
)
from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE
from gpufleet.kube.meanings.node_pools import KARPENTER_NODE_POOL
from gpufleet.kube.objects import node_pools as wire
from gpufleet.model.label_values import ANYTHING, LabelValues
from gpufleet.model.labels import Operator, Requirement, allowed_by_key, equals
from gpufleet.model.model_errors import InputError
from gpufleet.model.node_pool import Amounts, NodePool
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resource_names import CPU
from gpufleet.model.taint import Taint

# Only the names of these clouds say whether an instance has GPUs.
_OF_AWS_OR_AZURE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+$|Standard_")
_ABOUT_GPUS = re.compile(r"gpu|accelerator", re.IGNORECASE)


def read_node_pool(pool: wire.NodePool) -> NodePool:
    """The pool, with what its limits leave beside the nodes that it has."""
    template = pool.spec.template
    requirements = tuple(_requirements(pool))
    limits, used = read_amounts(pool.spec.limits), read_amounts(pool.status.resources)
    return NodePool(
        pool.metadata.name,
        _allowed(pool, requirements),
        tuple(_taints(template.spec)),
        used,
        {name: max(0, limit - used.get(name, 0)) for name, limit in limits.items()},
        _gpus_of_a_node(requirements),
        _has_gpus(pool, requirements),
        frozenset(one.key for one in template.spec.startup_taints),
    )


def _requirements(pool: wire.NodePool) -> Iterator[Requirement]:
    for one in pool.spec.template.spec.requirements:
        try:
            yield selectors.requirement(one)
        except InputError:
            continue


def _allowed(pool: wire.NodePool, requirements: Iterable[Requirement]) -> Mapping[str, LabelValues]:
    labels = {**pool.spec.template.metadata.labels, KARPENTER_NODE_POOL: pool.metadata.name}
    written = {one.key for one in pool.spec.template.spec.requirements}
    try:
        found = allowed_by_key((*requirements, *equals(sorted(labels.items()))))
    except InputError:
        found = allowed_by_key(requirements)
    # A key of which the requirement was not understood may have any value.
    return {**dict.fromkeys(written, ANYTHING), **found}


def _taints(spec: wire.TemplateSpec) -> Iterator[Taint]:
    for one in spec.taints:
        try:
            yield Taint(one.key, one.value, one.effect)
        except InputError:
            continue


def read_amounts(written: Mapping[str, str]) -> Amounts:
    """Amounts by resource; one that is no quantity is left out."""
    found: Amounts = {}
    for name, text in written.items():
        try:
            amount = parse_quantity(text)
        except InputError:
            continue
        found[name] = amount.milli_value() if name == CPU else amount.value()
    return found


def _gpus_of_a_node(requirements: Iterable[Requirement]) -> tuple[int, ...]:
    for one in requirements:
        if one.key in GPU_COUNTS and one.operator is Operator.IN:
            return tuple(sorted(int(value) for value in one.values if value.isdecimal() and value != "0"))
    return ()


def _has_gpus(pool: wire.NodePool, requirements: Iterable[Requirement]) -> bool:
    """False where it says that its nodes have none: by kinds of instances, or by a count of 0 GPUs."""
    template = pool.spec.template
    named = (*template.metadata.labels, *(one.key for one in template.spec.taints))
    if any(map(_ABOUT_GPUS.search, named)) or any(map(is_gpu, pool.spec.limits)):
        return True
    return not any(_is_without_gpus(one) for one in requirements)


def _is_without_gpus(requirement: Requirement) -> bool:
    if _ABOUT_GPUS.search(requirement.key):
        return requirement.operator is Operator.DOES_NOT_EXIST or requirement.values == ("0",)
    if requirement.operator is not Operator.IN:
        return False
    if requirement.key == AWS_CATEGORY:
        return GPU_CATEGORIES.isdisjoint(requirement.values)
    if requirement.key not in {AWS_FAMILY, INSTANCE_TYPE}:
        return False
    values = requirement.values
    known = requirement.key == AWS_FAMILY or all(map(_OF_AWS_OR_AZURE.match, values))
    return known and not any(map(is_gpu_instance, values))
