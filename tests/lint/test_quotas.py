"""Quotas of devices, which count only keys that Kubernetes knows."""

import pytest

from gpufleet.lint.rule import Severity
from tests.lint.linting import fixed, pod, report_of

BOTH = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec:\n  hard:\n%s"
COUNTED = "    requests.nvidia.com/gpu: %s\n"


def test_a_quota_that_counts_nothing_is_an_error_and_a_missing_priority_information() -> None:
    quota = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {limits.amd.com/gpu: 2}}\n"
    )
    plain = pod().replace("  priorityClassName: work", "")
    severities = {one.rule.id: one.severity for one in report_of(f"{quota}---\n{plain}").findings}
    assert (severities["GPU051"], severities["GPU036"]) == (Severity.ERROR, Severity.INFO)


def test_a_quota_of_devices_of_a_class_has_no_prefix() -> None:
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    text = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {%s: 2}}\n"
    assert fixed(text % f"requests.{key}") == text % key
    assert [one for one in report_of(text % key).findings if one.rule.id == "GPU051"] == []


@pytest.mark.parametrize(
    ("uncounted", "counted", "severity"),
    [("4", "4", Severity.WARNING), ("8", "4", Severity.WARNING), ("2", "4", Severity.ERROR)],
)
def test_a_bound_that_is_not_counted_errs_where_it_is_stricter_than_the_one_that_is(
    uncounted: str, counted: str, severity: Severity
) -> None:
    text = BOTH % f"{COUNTED % counted}    limits.nvidia.com/gpu: {uncounted}\n"
    found = [one for one in report_of(text).findings if one.rule.id == "GPU051"]
    assert [one.severity for one in found] == [severity]
    # Which of two different bounds is meant is not written.
    kept = text if severity is Severity.ERROR else BOTH % (COUNTED % counted)
    assert fixed(text) == kept
