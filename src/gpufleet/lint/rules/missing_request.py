"""GPU003: what is built for GPUs runs without asking for one."""

from collections.abc import Iterator

from gpufleet.kube.keys import HIDING_VALUES, VISIBLE_DEVICES
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.objects.template_paths import RUNTIMES
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.rules.misnamed_resource import misnamed


def _concerns(manifest: Manifest) -> bool:
    return manifest.kind not in RUNTIMES and has_gpu_pods(manifest)


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each container with a GPU image in a pod where it gets no GPU."""
    for template in manifest.templates:
        if template.is_gpu_infrastructure:
            continue
        # A fraction is asked for by the pod, and DRA's claims may be given to any of its containers.
        if template.asks_for_gpu and not any(one.has_gpu for one in template.all_containers):
            continue
        for container in template.all_containers:
            image = container.image
            # One that asks for a GPU by a wrong name is GPU053's.
            if image is None or not image.is_for_gpus or container.has_gpu or misnamed(container):
                continue
            hidden = container.variable(VISIBLE_DEVICES)
            if hidden is not None and hidden.value is not None and hidden.value.lower() in HIDING_VALUES:
                continue
            says = f"container {container.name} runs {image.text}, which is built for GPUs, and asks for none"
            advice = f"ask for GPUs in limits, or set {VISIBLE_DEVICES}=void where it is to run without"
            yield RuleFinding(container.field.at("image"), says, advice)


RULE = Rule("GPU003", "GPU image without a GPU request", Severity.WARNING, check, concerns=_concerns)
