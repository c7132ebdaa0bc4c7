"""The profiles for other linters are whole and say why."""

import pytest
import yaml

from gpufleet.advise.lint.exemptions import FILES, profile
from gpufleet.cli.main import ExitCode, main
from gpufleet.model.model_errors import InputError


@pytest.mark.parametrize("linter", FILES)
def test_each_linter_has_a_profile_with_its_reasons(linter: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--exempt", linter]) == 0
    text = capsys.readouterr().out
    assert text == profile(linter)
    assert text.count("#") >= 3
    if FILES[linter].endswith(".yaml"):
        assert yaml.safe_load(text)


# `kube-score list` of 1.20.0, as far as it is about what the profile leaves out.
KUBE_SCORE = {
    "deployment-replicas",
    "container-image-pull-policy",
    "container-security-context-readonlyrootfilesystem",
    "deployment-has-host-podantiaffinity",
    "statefulset-has-host-podantiaffinity",
}
# pkg/builtinchecks/yamls of kube-linter.
KUBE_LINTER = {"unset-cpu-requirements", "minimum-three-replicas", "no-anti-affinity", "no-read-only-root-fs"}
# pkg/config/default.yaml of Polaris.
POLARIS = {
    "cpuLimitsMissing",
    "deploymentMissingReplicas",
    "notReadOnlyRootFilesystem",
    "pullPolicyNotAlways",
    "topologySpreadConstraint",
}


def test_kube_score_is_told_its_own_checks() -> None:
    options = [line for line in profile("kube-score").splitlines() if not line.startswith("#")]
    tests = {one.removeprefix("--ignore-test=") for one in options if one.startswith("--ignore-test=")}
    assert tests == KUBE_SCORE
    assert [one for one in options if not one.startswith("--ignore-test=")] == [
        "--ignore-container-cpu-limit"
    ]


def test_kube_linter_is_told_its_own_checks_and_keeps_the_request_of_cpu() -> None:
    written = yaml.safe_load(profile("kube-linter"))
    assert written.keys() == {"checks", "customChecks"}
    assert set(written["checks"]["exclude"]) == KUBE_LINTER
    (kept,) = written["customChecks"]
    assert kept.keys() == {"name", "description", "remediation", "scope", "template", "params"}
    assert (kept["template"], kept["params"]["requirementsType"]) == ("cpu-requirements", "request")
    assert kept["name"] not in KUBE_LINTER


def test_polaris_is_told_its_own_checks() -> None:
    assert yaml.safe_load(profile("polaris"))["checks"].keys() == POLARIS


def test_popeye_takes_the_file_by_its_schema() -> None:
    """Its schema allows `codes` and `instances` below a linter, lists of text, and refuses unknown fields."""
    written = yaml.safe_load(profile("popeye"))
    assert written.keys() == {"popeye"}
    assert written["popeye"].keys() == {"excludes"}
    assert written["popeye"]["excludes"].keys() == {"linters"}
    assert all(one.keys() == {"codes"} for one in written["popeye"]["excludes"]["linters"].values())


def test_polaris_ignores_and_changes_no_severity() -> None:
    assert set(yaml.safe_load(profile("polaris"))["checks"].values()) == {"ignore"}


def test_popeye_is_given_codes_as_text() -> None:
    linters = yaml.safe_load(profile("popeye"))["popeye"]["excludes"]["linters"]
    assert all(isinstance(code, str) for one in linters.values() for code in one["codes"])


def test_an_unknown_linter_is_refused() -> None:
    with pytest.raises(InputError):
        profile("yamllint")
    assert main(["lint", "--exempt", "yamllint"]) == ExitCode.BAD_INPUT
