"""How much a finding of lint counts at the door of the cluster."""

import datetime as dt

import msgspec

from gpufleet.admission.cel.rules import FINDINGS
from gpufleet.admission.verdicts import manifest_of, verdicts
from gpufleet.lint.rule import Severity
from gpufleet.lint.rules import rule_of
from gpufleet.lint.run import lint, read
from gpufleet.lint.source.text import SourceText

PRIVILEGED = rule_of("GPU006")
TODAY = dt.date(2026, 6, 1)


def test_a_privileged_container_is_an_error_whatever_the_object_says_of_itself() -> None:
    """Lint only warns of a tracer; any pod can mount the folders by which lint tells one."""
    tracer = {
        "name": "tracer",
        "image": "example.com/tracer@sha256:" + "a" * 64,
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "sys", "mountPath": "/sys"}],
    }
    server = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"containers": [server, tracer], "volumes": [{"name": "sys", "hostPath": {"path": "/sys"}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    text = msgspec.json.encode(pod).decode()
    by_lint = lint([read(SourceText("one", text))], (PRIVILEGED,)).findings
    assert [one.severity for one in by_lint] == [Severity.WARNING]
    (verdict,) = verdicts(manifest_of(pod), (PRIVILEGED,), TODAY, {}, of_policies=FINDINGS)
    assert verdict.severity is Severity.ERROR
