"""What is installed for which server, and for whom."""

import msgspec
import pytest

from gpufleet.kube.manifests import AGENT_ACCOUNT, FOLDER, Identity, manifests
from gpufleet.model.model_errors import InputError


def kinds(version: tuple[int, int]) -> set[str]:
    return {one["kind"] for one in manifests(version)}


def test_pods_are_completed_only_where_the_policy_is_stable() -> None:
    assert "MutatingAdmissionPolicy" in kinds((1, 36))
    assert "MutatingAdmissionPolicy" not in kinds((1, 35))
    assert "ValidatingAdmissionPolicy" in kinds((1, 31))


def test_a_server_that_cannot_guard_grants_is_refused() -> None:
    with pytest.raises(InputError, match=r"1\.30"):
        manifests((1, 29))


def test_the_scheduler_may_be_somebody_else() -> None:
    identity = Identity("gpu", "placer")
    text = msgspec.json.encode(manifests((1, 37), identity)).decode()
    assert "system:serviceaccount:gpu:placer" in text
    assert "gpufleet-system" not in text
    accounts = [one for one in manifests((1, 37), identity) if one["kind"] == "ServiceAccount"]
    names = {one["metadata"]["name"] for one in accounts}
    assert names == {"placer", AGENT_ACCOUNT}
    assert {one["metadata"]["namespace"] for one in accounts} == {"gpu"}
    for one in manifests((1, 37), identity):
        for subject in one.get("subjects", ()):
            assert subject["name"] in names
            assert subject["namespace"] == "gpu"


def test_what_others_refer_to_comes_first() -> None:
    found = manifests((1, 37))
    assert [one["kind"] for one in found[:2]] == ["Namespace", "CustomResourceDefinition"]
    assert all(not one["kind"].endswith("Binding") for one in found[:8])


def test_every_file_is_applied() -> None:
    assert {path.suffix for path in FOLDER.iterdir() if path.is_file()} == {".yaml", ".py"}
    assert len(manifests((1, 37))) == sum(
        path.read_text(encoding="utf-8").count("\nkind:") for path in FOLDER.glob("*.yaml")
    )


def test_a_policy_that_completes_pods_has_one_patch() -> None:
    """A server skips only the patch that fails: two in one policy would leave half of what it means."""
    completing = [
        one
        for one in manifests((1, 37))
        if one["kind"] == "MutatingAdmissionPolicy" and one["spec"]["failurePolicy"] == "Ignore"
    ]
    assert completing
    assert {len(one["spec"]["mutations"]) for one in completing} == {1}
