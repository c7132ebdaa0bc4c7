"""Which nodes may be taken back at any time, by the labels that their providers document."""

import pytest

from gpufleet.model.spot import is_spot


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("karpenter.sh/capacity-type", "spot"),
        ("eks.amazonaws.com/capacityType", "SPOT"),
        ("cloud.google.com/gke-spot", "true"),
        ("cloud.google.com/gke-preemptible", "true"),
        ("cloud.google.com/gke-provisioning", "spot"),
        ("kubernetes.azure.com/scalesetpriority", "spot"),
    ],
)
def test_providers_say_which_nodes_are_spot(label: str, value: str) -> None:
    assert is_spot({"kubernetes.io/hostname": "n", label: value})


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"karpenter.sh/capacity-type": "on-demand"},
        {"eks.amazonaws.com/capacityType": "ON_DEMAND"},
        {"cloud.google.com/gke-spot": "false"},
        {"kubernetes.azure.com/scalesetpriority": "regular"},
    ],
)
def test_all_other_nodes_stay(labels: dict[str, str]) -> None:
    assert not is_spot(labels)
