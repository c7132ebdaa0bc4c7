"""Texts through the whole of lint, as its tests need it."""

import csv

from gpufleet.lint.findings import Finding, Report
from gpufleet.lint.fixing import fix
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.measured_use import MeasuredUse
from gpufleet.lint.rules import all_rules
from gpufleet.lint.run import Reading, lint, read
from gpufleet.lint.source.text import SourceText
from gpufleet.usage.samples import OPTIONAL, REQUIRED, read_sample


def cluster_of(text: str) -> Cluster:
    """A cluster with these objects."""
    return Cluster(read(SourceText("cluster", text)).manifests)


def measured(table: str) -> MeasuredUse | None:
    """The rows of a table of use; None for an empty text."""
    if not table:
        return None
    rows = csv.DictReader(table.splitlines())
    names = (*REQUIRED, *OPTIONAL)
    return MeasuredUse(tuple(read_sample(tuple(row.get(name) or "" for name in names)) for row in rows))


def report_of(*texts: str, cluster: str = "", use: str = "") -> Report:
    """What all rules say of these texts together, in a cluster with these objects."""
    readings = [read(SourceText(f"{number}.yaml", text)) for number, text in enumerate(texts)]
    facts = cluster_of(cluster) if cluster else None
    return lint(readings, all_rules(), cluster=facts, use=measured(use))


def found(*texts: str) -> list[str]:
    """The ids of the rules that find something, each once."""
    return sorted({one.rule.id for one in report_of(*texts).findings})


def findings_of(rule: str, *texts: str, cluster: str = "", use: str = "") -> list[str]:
    """What this rule says."""
    report = report_of(*texts, cluster=cluster, use=use)
    return [one.says for one in report.findings if one.rule.id == rule]


def fixed(text: str, *only: str, cluster: str = "") -> str:
    """The text after all fixes, or after those of these rules."""
    rules = [rule for rule in all_rules() if not only or rule.id in only]

    facts = cluster_of(cluster) if cluster else None

    def judge(reading: Reading) -> list[Finding]:
        return list(lint([reading], rules, cluster=facts).findings)

    return fix(read(SourceText("0.yaml", text)), judge).source.text


def pod(container: str = "", spec: str = "", limits: str = "nvidia.com/gpu: 1") -> str:
    """A pod with one container; each argument is lines of YAML for its place."""
    lines = [
        "apiVersion: v1",
        "kind: Pod",
        "metadata:",
        "  name: one",
        "spec:",
        *(f"  {line}" for line in spec.splitlines()),
        "  containers:",
        "    - name: main",
        *(f"      {line}" for line in container.splitlines()),
    ]
    if limits:
        lines += [
            "      resources:",
            "        limits:",
            *(f"          {line}" for line in limits.splitlines()),
        ]
    return "\n".join([*lines, "  priorityClassName: work"]) + "\n"
