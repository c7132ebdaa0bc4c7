"""What a FleetPolicy means, and which field is named where it cannot be."""

import json

import msgspec
import pytest

from gpufleet.kube.codec.fleet_policies import MAXIMUM_LABELS, MAXIMUM_TAINTS, read_fleet_policy
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.fleet_policies import FleetPolicy
from gpufleet.model.fleet_policy import Driver, DriverSource, KernelModules, Runtime, RuntimeMode
from gpufleet.model.rollout_settings import NodeCount, RolloutSettings, Window
from gpufleet.model.taint import Taint
from tests.kube.codec.policy_cases import CASES, IMAGE, Case, rollout, spec, taint


def decoded(case: Case) -> FleetPolicy:
    return msgspec.json.decode(json.dumps(case.object()).encode(), type=FleetPolicy)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_cannot_be_is_refused_by_its_field(case: Case) -> None:
    if case.unreadable:
        with pytest.raises(msgspec.ValidationError):
            decoded(case)
        return
    found = decoded(case)
    if not case.refused:
        read_fleet_policy(found)
        return
    with pytest.raises(ObjectError) as refusal:
        read_fleet_policy(found)
    assert refusal.value.field == case.refused
    assert refusal.value.where == "FleetPolicy all-gpus"
    assert refusal.value.expected


def test_everything_that_it_may_say() -> None:
    (case,) = (one for one in CASES if one.what == "everything")
    found = read_fleet_policy(decoded(case))
    assert found.driver == Driver(DriverSource.IMAGE, IMAGE, "595.91.07", kernel_modules=KernelModules.OPEN)
    assert found.runtime == Runtime(RuntimeMode.CDI)
    assert (found.sharing_config, found.mig_layout) == ("small", "all-1g.10gb")
    assert found.labels == (("example.com/tier", "gold"), ("node-role.kubernetes.io/gpu", ""))
    assert found.taints == (
        Taint("example.com/gpu", "yes", "NoSchedule"),
        Taint("example.com/gpu", "", "NoExecute"),
    )
    assert found.rollout == RolloutSettings(
        canaries=2,
        nodes_at_once=NodeCount(10, is_percent=True),
        failures_most=NodeCount(3),
        soak_s=5400,
        windows=(Window("0 22 * * 5", 8 * 3600, "Europe/Berlin"), Window("0 3 * * *", 5400, "UTC")),
        drain_s=7200,
        checkpoint_s=0,
        change_s=1200,
        validation_s=60,
        place_s=1800,
        is_paused=True,
    )
    assert dict(found.written_labels()) == {
        "nvidia.com/device-plugin.config": "small",
        "nvidia.com/mig.config": "all-1g.10gb",
        "example.com/tier": "gold",
        "node-role.kubernetes.io/gpu": "",
    }


def test_a_rollout_that_says_nothing_has_the_defaults_of_the_model() -> None:
    found = read_fleet_policy(decoded(Case("nothing", rollout())))
    assert found.rollout == RolloutSettings()


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("spec.labels", {"labels": {f"a{number}": "" for number in range(MAXIMUM_LABELS + 1)}}),
        ("spec.taints", {"taints": [taint(f"a{number}") for number in range(MAXIMUM_TAINTS + 1)]}),
    ],
)
def test_there_are_bounds(field: str, fields: dict[str, object]) -> None:
    with pytest.raises(ObjectError) as refusal:
        read_fleet_policy(decoded(Case("too many", spec(**fields))))
    assert refusal.value.field == field
