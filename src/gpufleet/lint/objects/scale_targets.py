"""What an autoscaler scales, as far as it is among the objects of the run."""

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods

AUTOSCALERS = frozenset({"HorizontalPodAutoscaler", "ScaledObject"})
NO_TARGET = "the object that it scales, linted together with it (gpufleet lint FILE FILE)"


def is_autoscaler(manifest: Manifest) -> bool:
    """Whether the object is one."""
    return manifest.kind in AUTOSCALERS


def target(autoscaler: Manifest, context: Context) -> Manifest | None:
    """The object that it scales."""
    reference = autoscaler.root.at("spec", "scaleTargetRef")
    # A ScaledObject scales a Deployment unless it says otherwise.
    kind, name = reference.text_at("kind") or "Deployment", reference.text_at("name")
    return next((one for one in context.of_kind(kind, beside=autoscaler) if one.name == name), None)


def scales_gpus(autoscaler: Manifest, context: Context) -> bool | None:
    """Whether what it scales runs on GPUs; None if that is not known."""
    found = target(autoscaler, context)
    return None if found is None else has_gpu_pods(found)
