"""GPU002: a part of a GPU is asked for as a fraction of an extended resource, which is whole.

Huawei's managed clusters (CCE) are the exception: their API server takes a decimal below 1 of nvidia.com/gpu,
and several pods share the card (support.huaweicloud.com, usermanual-cce, "GPU Scheduling"). The versions of
their kubelets have a release behind Kubernetes' own, such as v1.27.3-r0.
"""

import re
from collections.abc import Iterator

from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.placeholders import is_placeholder
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged
from gpufleet.lint.source.fields import Field
from gpufleet.model.resource_names import NVIDIA_GPU

ADVICE = (
    "ask for a MIG profile (nvidia.com/mig-1g.10gb: 1), a shared GPU (nvidia.com/gpu.shared: 1), or a "
    "fraction in the annotation gpufleet.io/gpu-fraction"
)

_OF_CCE = re.compile(r"v1\.[0-9]+\.[0-9]+-r[0-9]+.*")
"""What kubelets of CCE call their version."""


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each limit and request of a GPU that is no whole number."""
    for template in manifest.templates:
        for container in template.all_containers:
            for name, field in (*container.limits.items(), *container.requests.items()):
                if not is_gpu(name):
                    continue
                if not field.exists:
                    says = f"container {container.name} names {name} without an amount, and gets none"
                    # Who leaves the amount out may have a script that puts it in.
                    advice = "write a whole number, such as 1"
                    yield RuleFinding(field, says, advice, severity=Severity.WARNING)
                    continue
                found = amount(field.text)
                if is_placeholder(field.text or ""):
                    yield Unjudged(field, f"the value that is put in for {field.text}")
                elif found is None:
                    says = f"{name}: {field.text!r} is no quantity"
                    yield RuleFinding(field, says, "write a whole number, such as 1")
                elif not found.is_whole():
                    yield from _fraction(container, name, field, context.cluster)
                elif found.nano < 0:
                    yield RuleFinding(
                        field, f"{name}: {field.text} is negative", "write a whole number, such as 1"
                    )


def _fraction(
    container: Container, name: str, field: Field, cluster: Cluster | None
) -> Iterator[RuleFinding]:
    """A fraction: refused by every API server but that of CCE, which takes those below a whole card."""
    says = f"container {container.name} asks for {field.text} of {name}, which is whole"
    found = amount(field.text)
    if name != NVIDIA_GPU or found is None or found.value() > 1 or found.nano < 0:
        yield RuleFinding(field, says, ADVICE)
    elif cluster is None or not cluster.nodes:
        yield RuleFinding(field, f"{says}, except on Huawei's CCE", ADVICE, severity=Severity.WARNING)
    elif not any(_OF_CCE.fullmatch(one.kubelet_version) for one in cluster.nodes):
        yield RuleFinding(field, says, ADVICE)


RULE = Rule("GPU002", "Fraction of a GPU as a resource", Severity.ERROR, check)
