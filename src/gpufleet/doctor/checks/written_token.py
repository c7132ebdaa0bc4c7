"""Tokens that stand in the pod templates of GPU work: rule GPU052 of lint. Their values are never shown."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.lint.rule import RuleFinding
from gpufleet.lint.rules.literal_token import RULE


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each workload with such variables; of the rule, only what is about tokens."""
    bad = 0
    for one in facts.gpu_workloads:
        found = [
            remark
            for remark in RULE.check(one.manifest, facts.context)
            if isinstance(remark, RuleFinding) and "env" in remark.field.keys
        ]
        if found:
            bad += 1
            names = list(dict.fromkeys(remark.field.text_at("name") or "" for remark in found))
            edit = get_command(one.manifest).replace("kubectl get", "kubectl edit", 1)
            place = f"-n {one.manifest.namespace}"
            yield Failure(
                f"{one.title}: {listed(names)} stands in its pod template, readable with its pods",
                (one.title,),
                tuple(f"{remark.field.path}: a literal value, not shown here" for remark in found),
                (
                    Remedy(
                        "put it into a Secret, and take a new token: this one has been seen",
                        f"kubectl create secret generic tokens {place} --from-file={names[0]}=/dev/stdin",
                    ),
                    Remedy("name the Secret in valueFrom.secretKeyRef", edit),
                ),
            )
    if facts.gpu_workloads and not bad:
        yield Good("no token stands in the template of GPU work")


CHECK = Check(
    "token-written",
    Point.SECURITY,
    Layer.PRACTICE,
    "Tokens come from Secrets",
    "Every account that may list pods reads the literals in them, and so does every backup and audit log.",
    judge,
    ("Pod",),
    Grade.RISK,
)
