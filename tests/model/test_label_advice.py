"""Advice for selectors that match nothing."""

import pytest

from gpufleet.model.label_advice import advise, nearest
from gpufleet.model.labels import Operator, Requirement

KNOWN: dict[str, list[str | None]] = {
    "nvidia.com/gpu.product": ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4", None],
    "topology.kubernetes.io/zone": ["eu-west-1a", "eu-west-1b"],
    "gpu.memory": ["40960", "81920"],
}


@pytest.mark.parametrize(
    ("requirement", "sentence"),
    [
        (
            Requirement("nvidia.com/gpu.product", Operator.IN, ("NVIDIA-A100-SXM4-80G",)),
            (
                "no node satisfies nvidia.com/gpu.product In [NVIDIA-A100-SXM4-80G]; "
                "did you mean NVIDIA-A100-SXM4-80GB?"
            ),
        ),
        (
            Requirement("nvidia.com/gpu.product", Operator.IN, ("tesla-t4",)),
            "no node satisfies nvidia.com/gpu.product In [tesla-t4]; did you mean Tesla-T4?",
        ),
        (
            Requirement("nvidia.com/gpu.prodcut", Operator.EXISTS),
            "no node satisfies nvidia.com/gpu.prodcut Exists; did you mean the label nvidia.com/gpu.product?",
        ),
        (
            Requirement("gpu.memory", Operator.GREATER, ("90000",)),
            "no node satisfies gpu.memory Gt [90000]",
        ),
        (
            Requirement("topology.kubernetes.io/zone", Operator.DOES_NOT_EXIST),
            "no node satisfies topology.kubernetes.io/zone DoesNotExist",
        ),
        (
            Requirement("topology.kubernetes.io/zone", Operator.IN, ("mars",)),
            "no node satisfies topology.kubernetes.io/zone In [mars]",
        ),
    ],
)
def test_advice(requirement: Requirement, sentence: str) -> None:
    (advice,) = advise([requirement], KNOWN)
    assert str(advice) == sentence


def test_no_advice_where_some_node_satisfies_the_requirement() -> None:
    satisfied = [
        Requirement("nvidia.com/gpu.product", Operator.DOES_NOT_EXIST),
        Requirement("gpu.memory", Operator.GREATER, ("41000",)),
        Requirement("unheard-of", Operator.NOT_IN, ("x",)),
    ]
    assert advise(satisfied, KNOWN) == ()


def test_nearest_is_the_same_whatever_the_order() -> None:
    names = [f"node-{number}" for number in range(3000)]
    assert nearest("node-12x", names) == nearest("node-12x", reversed(names))
    assert nearest("node-12x", []) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("NVIDIA-H100-80GB-HMB3", "NVIDIA-H100-80GB-HBM3"),
        ("gpu-fleet", "gpufleet"),
        ("visoin", "vision"),
        ("H1000", "H100"),
    ],
)
def test_a_slip_is_told(written: str, meant: str) -> None:
    assert nearest(written, ["other", meant]) == meant


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("A100", "H100"),
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"),
        ("H100-40GB", "H100-80GB"),
        ("nvidia.com/mig-3g.40gb", "nvidia.com/gpu"),
        ("nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb"),
        ("nowhere", "elsewhere"),
        ("gpufleet-scheduler", "gpufleet"),
    ],
)
def test_another_name_is_no_slip(written: str, other: str) -> None:
    assert nearest(written, [other]) is None
