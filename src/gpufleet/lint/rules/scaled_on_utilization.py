"""GPU028: an autoscaler looks at a GPU utilization that is full with one request."""

import re
from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.scale_targets import is_autoscaler
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field

_UTILIZATION = re.compile(
    r"DCGM_FI_DEV_GPU_UTIL|(dcgm_)?gpu_utilization|nvidia_gpu_duty_cycle|duty_cycle", re.IGNORECASE
)

_BUSY = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
"""How much a GPU computes, as gpufleet's exporter and NVIDIA's tell it by default."""


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each metric or query of that name."""
    spec = manifest.root.at("spec")
    for trigger in spec.at("triggers").items():
        yield from _judged(trigger.at("metadata", "query"))
        yield from _judged(trigger.at("metadata", "metricName"))
    for metric in spec.at("metrics").items():
        for kind in ("pods", "object", "external"):
            yield from _judged(metric.at(kind, "metric", "name"))
            # As autoscaling/v2beta1 has it.
            yield from _judged(metric.at(kind, "metricName"))


def _judged(field: Field) -> Iterator[RuleFinding]:
    found = _UTILIZATION.search(field.text or "")
    if found:
        says = f"scales on {found[0]}, which is 100% as soon as one kernel runs all the time"
        advice = f"scale on waiting requests or KV cache in use; of the GPU, on {_BUSY}"
        yield RuleFinding(field, says, advice)


RULE = Rule("GPU028", "Scaling on GPU utilization", Severity.WARNING, check, concerns=is_autoscaler)
