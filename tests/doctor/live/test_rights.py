"""The role for the doctor has all that is read, and nothing beyond."""

from gpufleet.devices.sharing.nvidia_places import SOUGHT_NAMES
from gpufleet.doctor.live.kinds import WANTED
from gpufleet.kube.manifests import manifests

IRREGULAR = {
    "ClusterPolicy": "clusterpolicies",
    "NodeDevices": "nodedevices",
    "StorageClass": "storageclasses",
}
"""As the definitions of these kinds say; all others have a plural by rule."""


def plural(kind: str) -> str:
    """The name of a kind in paths and in rights."""
    lower = kind.lower()
    if kind in IRREGULAR:
        return IRREGULAR[kind]
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + ("es" if lower.endswith(("s", "x")) else "s")


def granted() -> dict[tuple[str, str], list[str]]:
    """The verbs of the role by group and resource, but for ConfigMaps, of which it reads some names alone."""
    (role,) = (one for one in manifests((1, 37)) if one["metadata"]["name"] == "gpufleet-doctor")
    assert [one for one in role["rules"] if "resourceNames" in one] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": list(SOUGHT_NAMES),
            "verbs": ["get", "list"],
        }
    ]
    return {
        (group, resource): rule["verbs"]
        for rule in role["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_role_has_what_is_read_and_no_more() -> None:
    read = {(one.group, plural(one.name)) for one in WANTED}
    assert granted().keys() == read


def test_the_role_changes_nothing() -> None:
    assert {tuple(verbs) for verbs in granted().values()} == {("get", "list")}
