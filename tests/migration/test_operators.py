"""What GPU operators were told: every field of three releases has a reason, and means the same."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.files.regular import read_regular
from gpufleet.migration.command import MigrationOutcome, converted, from_files
from gpufleet.migration.field_notes import FieldVerdict, Note, leaves
from gpufleet.migration.sources import object_of, read_documents
from gpufleet.model.model_errors import InputError

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(
    path.stem
    for system in ("nvidia", "amd", "intel")
    for path in FOLDER.glob(f"{system}-*.yaml")
    if not path.name.endswith(".out.yaml")
)
DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_there_are_three_releases_of_each() -> None:
    assert len(CASES) == 9


@pytest.mark.parametrize("case", CASES)
def test_every_field_is_taken_over_refused_or_ignored_with_a_reason(case: str) -> None:
    path = FOLDER / f"{case}.yaml"
    found = from_files(case.partition("-")[0], [str(path)])
    by_object: dict[str, list[Note]] = {}
    for note in found.report.notes:
        by_object.setdefault(note.object, []).append(note)
    for source in read_documents(read_regular(path, 10**6), case):
        notes = by_object[source.title]
        assert not [one for one in notes if "not known" in one.reason or not one.reason]
        said = [one.field for one in notes]
        silent = [
            leaf
            for leaf in leaves(source.body["spec"], "spec")
            if not any(leaf == one or leaf.startswith((f"{one}.", f"{one}[")) for one in said)
        ]
        assert silent == []


def imported(system: str, *objects: dict[str, Any]) -> MigrationOutcome:
    return converted(system, [object_of(one, "a test") for one in objects])


def cluster_policy(name: str = "gpu", created: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": created}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": spec}


def nvidia_driver(name: str = "train", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": name},
        "spec": spec,
    }


def specs(found: MigrationOutcome) -> dict[str, Any]:
    written = [msgspec.yaml.decode(one) for one in found.manifests.split("---\n")]
    return {one["metadata"]["name"]: one["spec"] for one in written}


def verdict(found: MigrationOutcome, field: str) -> FieldVerdict:
    (note,) = (one for one in found.report.notes if one.field == field)
    return note.verdict


def test_a_driver_by_digest_is_taken_over() -> None:
    driver = {
        "enabled": True,
        "repository": "nvcr.io/nvidia",
        "image": "driver",
        "version": DIGEST,
        "kernelModuleType": "open",
    }
    found = imported("nvidia", cluster_policy(driver=driver))
    assert specs(found)["gpu"] == {
        "nodeSelector": {"matchLabels": {"nvidia.com/gpu.present": "true"}},
        "driver": {"source": "Image", "image": f"nvcr.io/nvidia/driver@{DIGEST}", "kernelModules": "Open"},
    }


def test_a_driver_by_tag_is_refused_and_the_rest_is_taken_over() -> None:
    driver = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}
    found = imported("nvidia", cluster_policy(driver=driver, cdi={"enabled": True}))
    assert specs(found)["gpu"]["runtime"] == {"mode": "CDI"}
    assert "driver" not in specs(found)["gpu"]
    assert verdict(found, "spec.driver.version") is FieldVerdict.NO_EQUIVALENT


def test_a_driver_that_is_off_is_the_hosts() -> None:
    found = imported("nvidia", cluster_policy(driver={"enabled": False, "version": "595"}))
    assert specs(found)["gpu"]["driver"] == {"source": "Host"}


BY_DIGEST = {"repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST}


def test_how_upgrades_go_is_how_a_rollout_goes() -> None:
    """As the operator reads it: so many at once, and jobs may take an hour before pods have five minutes."""
    upgrade = {
        "autoUpgrade": True,
        "maxParallelUpgrades": 4,
        "maxUnavailable": "25%",
        "waitForCompletion": {"podSelector": "job=true", "timeoutSeconds": 3600},
        "podDeletion": {"force": True, "timeoutSeconds": 300},
    }
    found = imported("nvidia", cluster_policy(driver={**BY_DIGEST, "upgradePolicy": upgrade}))
    assert specs(found)["gpu"]["rollout"] == {"maxParallel": 4, "drainTimeout": "3900s"}
    assert verdict(found, "spec.driver.upgradePolicy.maxParallelUpgrades") is FieldVerdict.HONOURED
    assert verdict(found, "spec.driver.upgradePolicy.podDeletion.force") is FieldVerdict.NO_EQUIVALENT


@pytest.mark.parametrize(
    ("upgrade", "rollout"),
    [
        ({"autoUpgrade": False, "maxParallelUpgrades": 1}, {"paused": True, "maxParallel": 1}),
        ({"maxParallelUpgrades": 0, "maxUnavailable": "30%"}, {"maxParallel": "30%"}),
        ({"maxParallelUpgrades": 0}, {"maxParallel": "100%"}),
        ({"podDeletion": {"timeoutSeconds": 300}}, None),
    ],
)
def test_upgrades_that_are_off_or_without_limit(upgrade: dict[str, Any], rollout: Any) -> None:
    found = imported("nvidia", cluster_policy(driver={**BY_DIGEST, "upgradePolicy": upgrade}))
    assert specs(found)["gpu"].get("rollout") == rollout


def test_upgrades_of_the_cluster_hold_for_drivers_that_say_nothing_themselves() -> None:
    driver = {"useNvidiaDriverCRD": True, "upgradePolicy": {"maxParallelUpgrades": 2}}
    found = imported(
        "nvidia",
        cluster_policy(driver=driver),
        nvidia_driver("silent", **BY_DIGEST, nodeSelector={"pool": "a"}),
        nvidia_driver(
            "own", **BY_DIGEST, nodeSelector={"pool": "b"}, upgradePolicy={"maxParallelUpgrades": 3}
        ),
    )
    written = specs(found)
    assert "rollout" not in written["gpu"]
    assert (written["silent"]["rollout"], written["own"]["rollout"]) == (
        {"maxParallel": 2},
        {"maxParallel": 3},
    )


def test_how_upgrades_go_is_refused_with_a_driver_by_tag() -> None:
    by_tag = {"image": "driver", "version": "595.91.07", "upgradePolicy": {"maxParallelUpgrades": 2}}
    found = imported("nvidia", cluster_policy(driver=by_tag, cdi={"enabled": True}))
    assert "rollout" not in specs(found)["gpu"]
    assert verdict(found, "spec.driver.upgradePolicy") is FieldVerdict.NO_EQUIVALENT


def test_the_oldest_cluster_policy_counts_alone() -> None:
    older = cluster_policy("b", "2025-01-01T00:00:00Z", cdi={"enabled": True})
    newer = cluster_policy("a", "2026-01-01T00:00:00Z", cdi={"enabled": True})
    found = imported("nvidia", newer, older)
    assert found.report.policies == ("b",)
    assert "takes the oldest alone" in found.report.notes[-1].reason


def test_nvidia_drivers_count_only_where_the_cluster_policy_uses_them() -> None:
    one = nvidia_driver(image="driver", version=DIGEST, nodeSelector={"pool": "train"})
    assert imported("nvidia", cluster_policy(driver={"enabled": True}), one).report.policies == ("gpu",)
    using = cluster_policy(driver={"enabled": True, "useNvidiaDriverCRD": True})
    found = imported("nvidia", using, one)
    assert found.report.policies == ("gpu", "train")
    assert specs(found)["train"]["nodeSelector"] == {"matchLabels": {"pool": "train"}}


def test_a_driver_whose_nodes_no_selector_names_makes_no_policy() -> None:
    terms: list[dict[str, Any]] = [{"matchExpressions": []}, {"matchExpressions": []}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    with pytest.raises(InputError, match="none of ClusterPolicy"):
        imported("nvidia", nvidia_driver(image="driver", version=DIGEST, nodeAffinity=affinity))


def test_vgpu_is_refused() -> None:
    found = imported(
        "nvidia", cluster_policy(driver={"useNvidiaDriverCRD": True}), nvidia_driver(driverType="vgpu")
    )
    assert found.report.policies == ("gpu",)
    assert found.report.notes[-1].reason == "refused: drivers of type vgpu are not gpufleet's"


def test_what_no_release_has_is_told_as_unknown() -> None:
    found = imported(
        "intel",
        {
            "apiVersion": "deviceplugin.intel.com/v1",
            "kind": "GpuDevicePlugin",
            "metadata": {"name": "gpu"},
            "spec": {"turbo": True},
        },
    )
    assert [one.reason for one in found.report.notes] == ["not known to this version of gpufleet"]
