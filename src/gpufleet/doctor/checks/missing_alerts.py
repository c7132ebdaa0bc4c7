"""Clusters with alerts, none of which is about GPUs."""

import re
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, Unjudged
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.monitoring import GROUP
from gpufleet.model.phrases import counted, none_of, subject

_GPU_METRICS = re.compile(r"DCGM_FI_|gpufleet_|nvidia_|amd_gpu|gpu_|nvidia_com_gpu|xpum_", re.IGNORECASE)
_RULE = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gpus
  namespace: monitoring
spec:
  groups:
    - name: gpus
      rules:
        - alert: GPUXidError
          expr: DCGM_FI_DEV_XID_ERRORS > 0
          labels: {severity: warning}
          annotations:
            summary: "{{ $labels.hostname }}: GPU {{ $labels.gpu }} reports Xid {{ $value }}"
        - alert: GPUHot
          expr: DCGM_FI_DEV_GPU_TEMP > 85
          for: 5m
          labels: {severity: warning}
          annotations:
            summary: "{{ $labels.hostname }}: GPU {{ $labels.gpu }} is at {{ $value }} C"
"""


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """Whether any alert names a metric of GPUs."""
    if not facts.gpu_nodes:
        return
    rules = facts.of_kind("PrometheusRule", group=GROUP)
    if not rules:
        yield Unjudged("whether alerts watch the GPUs: the cluster has no PrometheusRule")
        return
    alerts = [
        one
        for rule in rules
        for group in rule.root.at("spec", "groups").items()
        for one in group.at("rules").items()
        if one.at("alert").exists
    ]
    about = [one.at("alert").text for one in alerts if _GPU_METRICS.search(one.at("expr").text or "")]
    if about:
        yield Good(f"{subject(len(about), 'alert', 'are')} about GPUs, {about[0]} among them")
    else:
        yield Failure(
            f"{none_of(len(alerts), 'alert')} in {counted(len(rules), 'PrometheusRule')} is about GPUs",
            (),
            ("no expression of an alert names a metric of GPUs (DCGM_FI_..., gpufleet_...)",),
            (Remedy("begin with Xid errors and temperature", "", _RULE),),
        )


CHECK = Check(
    "gpu-alerts-missing",
    Point.WATCHING,
    Layer.PRACTICE,
    "Alerts watch the GPUs",
    "A GPU that fell off the bus or throttles is noticed by an alert, or days later by its users.",
    judge,
    ("PrometheusRule",),
    Grade.RISK,
)
