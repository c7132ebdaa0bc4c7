"""Every rule has a page: its wrong example is found, its right one is clean, a fix mends the wrong one."""

import re

import pytest

from gpufleet.lint.rule import Rule, Scope, Severity
from gpufleet.lint.rules import all_rules, page
from tests.conventions.project import ROOT
from tests.lint.linting import findings_of, fixed, report_of

RULES = all_rules()


def example(rule: Rule, heading: str) -> str:
    """The manifests, or the table of use, under a heading of the rule's page."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page(rule.id), flags=re.DOTALL | re.MULTILINE)
    if heading in {"Cluster", "Use"} and not section:
        return ""
    assert section, f"the page of {rule.id} has no section {heading}"
    return "---\n".join(
        re.findall(r"^```(?:yaml|csv)\n(.*?)^```", section[1], flags=re.DOTALL | re.MULTILINE)
    )


def identity(rule: Rule) -> str:
    """How pytest names the case."""
    return rule.id


@pytest.mark.parametrize("rule", RULES, ids=identity)
def test_the_page_names_its_rule(rule: Rule) -> None:
    assert page(rule.id).startswith(f"# {rule.id}: {rule.title}\n")


ERRING = [rule for rule in RULES if rule.severity is Severity.ERROR or rule.id == "GPU051"]
"""GPU051 errs at quotas alone."""


@pytest.mark.parametrize("rule", ERRING, ids=identity)
def test_the_page_says_which_evidence_an_error_has(rule: Rule) -> None:
    assert "\n## Evidence for an error\n" in page(rule.id)


@pytest.mark.parametrize("rule", RULES, ids=identity)
def test_the_wrong_example_is_found(rule: Rule) -> None:
    use = example(rule, "Use")
    assert findings_of(rule.id, example(rule, "Wrong"), cluster=example(rule, "Cluster"), use=use)


@pytest.mark.parametrize("rule", RULES, ids=identity)
def test_the_right_example_is_clean(rule: Rule) -> None:
    right, cluster = example(rule, "Right"), example(rule, "Cluster")
    report = report_of(right, cluster=cluster, use=example(rule, "Use"))
    assert [one for one in report.findings if one.rule is rule] == []
    # Examples are short: what other rules warn of may be left out of them, what they call an error may not.
    assert [one for one in report.findings if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.fixes], ids=identity)
def test_the_fix_mends_the_wrong_example_once_and_for_all(rule: Rule) -> None:
    cluster = example(rule, "Cluster")
    mended = fixed(example(rule, "Wrong"), rule.id, cluster=cluster)
    assert findings_of(rule.id, mended, cluster=cluster) == []
    assert fixed(mended, rule.id, cluster=cluster) == mended


@pytest.mark.parametrize("rule", RULES, ids=identity)
def test_a_rule_fixes_if_and_only_if_it_says_so(rule: Rule) -> None:
    wrong = example(rule, "Wrong")
    assert (fixed(wrong, rule.id, cluster=example(rule, "Cluster")) != wrong) == rule.fixes
    assert ("## The fix\n" in page(rule.id)) == rule.fixes


def test_ids_are_those_of_the_reference_and_of_what_guides_and_projects_call_for() -> None:
    assert all(re.fullmatch(r"GPU0([0-5][0-9]|6[01])", rule.id) for rule in RULES)


def test_the_document_of_all_rules_has_every_page() -> None:
    text = (ROOT / "docs" / "lint-rules.md").read_text(encoding="utf-8")
    included = re.findall(r'^--8<-- "src/gpufleet/lint/rules/(\w+)\.md"$', text, flags=re.MULTILINE)
    folder = ROOT / "src" / "gpufleet" / "lint" / "rules"
    assert sorted(included) == sorted(path.stem for path in folder.glob("*.md"))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.scope is not Scope.MANIFEST], ids=identity)
def test_without_a_cluster_or_metrics_their_rules_do_not_judge_and_do_not_pass(rule: Rule) -> None:
    report = report_of(example(rule, "Wrong"))
    assert rule.id in {one.rule.id for one in report.unjudged}
    assert rule.id not in {one.rule.id for one in report.findings}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.scope is Scope.CLUSTER], ids=identity)
def test_what_a_rule_of_the_cluster_lacks_says_how_it_is_given(rule: Rule) -> None:
    lacks = {one.lacks for one in report_of(example(rule, "Wrong")).unjudged if one.rule.id == rule.id}
    assert lacks
    assert all("in --cluster FILE" in one or "gpufleet lint FILE" in one for one in lacks)
