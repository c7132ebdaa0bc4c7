"""The files that the chart installs are what the rules say today, and every rule has its judge."""

import re

from gpufleet.admission.documents import FOLDER, generated
from gpufleet.admission.policies import lint_policies
from gpufleet.admission.treatment import Judge, treatments
from gpufleet.lint.rules import all_rules


def test_the_files_are_those_that_the_rules_make() -> None:
    """Else: python -m gpufleet.admission.documents."""
    files = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert files == generated()


def test_every_rule_has_one_judge_and_a_reason_where_it_is_no_policy() -> None:
    found = treatments()
    assert [one.rule for one in found] == list(all_rules())
    assert [one.rule.id for one in found if (one.why == "") != (one.judge is Judge.POLICY)] == []


def test_policies_fail_open_and_leave_the_system_alone() -> None:
    for one in lint_policies():
        if one["kind"] == "ValidatingAdmissionPolicy":
            (namespaces,) = one["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
            assert one["spec"]["failurePolicy"] == "Ignore"
            assert (namespaces["operator"], "kube-system" in namespaces["values"]) == ("NotIn", True)
            resources = {
                name
                for rule in one["spec"]["matchConstraints"]["resourceRules"]
                for name in rule["resources"]
            }
            assert resources.isdisjoint({"leases", "events", "nodes/status", "tokenreviews", "*"})


def test_patterns_are_of_the_kind_that_the_server_compiles() -> None:
    """The server's expressions (RE2) have no look-ahead and no look-behind, which Python's have."""
    for name, text in generated().items():
        assert re.findall(r"\(\?<?[=!]", text) == [], name
