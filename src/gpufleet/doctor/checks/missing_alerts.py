"""Clusters with alerts, none of which is about GPUs.

Where gpufleet is installed its chart has the alerts, and the way out turns them on. Elsewhere the way out is
a short rule on what dcgm-exporter serves. It leaves out the number of the last Xid: most Xids are a program's
fault, and the number stands until the next one.
"""

import re
import shlex
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, Unjudged
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.leases import leases_of
from gpufleet.doctor.views.monitoring import GROUP
from gpufleet.kube.installation import SCHEDULER_LEASE
from gpufleet.model.phrases import counted, none_of, subject

_GPU_METRICS = re.compile(r"DCGM_FI_|gpufleet_|nvidia_|amd_gpu|gpu_|nvidia_com_gpu|xpum_", re.IGNORECASE)
DOT = "\\."
"""How helm's --set is told that a dot belongs to a name."""

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
        - alert: GPURowRemapFailed
          expr: DCGM_FI_DEV_ROW_REMAP_FAILURE > 0
          labels: {severity: warning}
          annotations:
            summary: "{{ $labels.hostname }}: GPU {{ $labels.gpu }} has no memory left for a broken row"
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
    about = [one.text_at("alert") for one in alerts if _GPU_METRICS.search(one.text_at("expr") or "")]
    if about:
        yield Good(f"{subject(len(about), 'alert', 'are')} about GPUs, {about[0]} among them")
    else:
        yield Failure(
            f"{none_of(len(alerts), 'alert')} in {counted(len(rules), 'PrometheusRule')} is about GPUs",
            (),
            ("no expression of an alert names a metric of GPUs (DCGM_FI_..., gpufleet_...)",),
            (_way_out(facts),),
        )


def _way_out(facts: Facts) -> Remedy:
    """The alerts of the chart where gpufleet is installed, a rule to begin with elsewhere."""
    installed = leases_of(facts).named(SCHEDULER_LEASE)
    if not installed:
        return Remedy("begin with broken memory and temperature", "", _RULE)
    values = ["prometheusRule.enabled=true", *_labels_wanted(facts)]
    command = f"helm upgrade gpufleet charts/gpufleet --namespace {installed[0].namespace} --reuse-values"
    return Remedy(
        "turn on the alerts of gpufleet's chart; docs/alerts.md explains each",
        " ".join([command, *(f"--set {shlex.quote(value)}" for value in values)]),
    )


def _labels_wanted(facts: Facts) -> Iterator[str]:
    """Values of the chart for the labels by which the first Prometheus selects its rules."""
    for server in facts.of_kind("Prometheus", group=GROUP)[:1]:
        for key, value in server.root.at("spec", "ruleSelector", "matchLabels").entries():
            yield f"prometheusRule.additionalLabels.{key.replace('.', DOT)}={value.text or ''}"


CHECK = Check(
    "gpu-alerts-missing",
    Point.WATCHING,
    Layer.PRACTICE,
    "Alerts watch the GPUs",
    "A GPU that fell off the bus or throttles is noticed by an alert, or days later by its users.",
    judge,
    ("PrometheusRule", "Prometheus", "Lease"),
    Grade.RISK,
)
