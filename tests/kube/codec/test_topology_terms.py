"""Where a gang's pods shall be, in the words of Kueue and KAI, and what happens where they contradict."""

import pytest

from gpufleet.kube import resources
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.codec.gangs import make_gang, read_membership
from gpufleet.kube.codec.pod import GangPart, read_pod
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.model.gang import Gang, Slices
from gpufleet.model.identifiers import TopologyLevelName
from tests.kube.codec.test_gangs import put
from tests.kube.shelf import Shelf
from tests.kube.wire_objects import a_pod

RACK = TopologyLevelName("cloud.provider.com/topology-rack")
BLOCK = TopologyLevelName("cloud.provider.com/topology-block")
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
GANG = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "4"}


def gang(annotations: dict[str, str], shelf: Shelf | None = None) -> Gang:
    pod = a_pod(annotations=annotations)
    its = read_membership(pod, shelf or Shelf())
    assert isinstance(its, Membership)
    return make_gang(its.gang, [(read_pod(pod, gang=GangPart(its.gang, its.role)), its)])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"kueue.x-k8s.io/podset-required-topology": RACK}, {"required_level": RACK}),
        ({"kueue.x-k8s.io/podset-preferred-topology": RACK}, {"preferred_level": RACK}),
        (
            {
                "kueue.x-k8s.io/podset-required-topology": BLOCK,
                "kueue.x-k8s.io/podset-slice-required-topology": RACK,
                "kueue.x-k8s.io/podset-slice-size": "2",
            },
            {"required_level": BLOCK, "slices": (Slices(RACK, 2),)},
        ),
        (
            {
                "kai.scheduler/topology": "cluster-topology",
                "kai.scheduler/topology-required-placement": BLOCK,
                "kai.scheduler/topology-preferred-placement": RACK,
            },
            {"required_level": BLOCK, "preferred_level": RACK},
        ),
        (
            {
                "kai.scheduler/segment-size": "4",
                "kai.scheduler/segment-topology-required-placement": RACK,
                "gpufleet.io/topology-balanced": "true",
            },
            {"slices": (Slices(RACK, 4),), "balanced": True},
        ),
        (
            {
                "kai.scheduler/segment-size": "4",
                "kai.scheduler/segment-topology-preferred-placement": RACK,
            },
            {"slices": (Slices(RACK, 4),), "slices_preferred": True},
        ),
        (
            {LAYERS: f'[{{"topology": "{BLOCK}", "size": "32"}}, {{"topology": "{RACK}", "size": 16}}]'},
            {"slices": (Slices(BLOCK, 32), Slices(RACK, 16))},
        ),
        ({"kueue.x-k8s.io/podset-unconstrained-topology": "true"}, {}),
    ],
)
def test_it_is_read_as_its_project_means_it(written: dict[str, str], expected: dict[str, object]) -> None:
    found = gang(GANG | written)
    fields = ("required_level", "preferred_level", "slices", "slices_preferred", "balanced")
    assert {one: value for one in fields if (value := getattr(found, one))} == expected


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({"kueue.x-k8s.io/podset-required-topology": ""}, "podset-required-topology"),
        ({"kueue.x-k8s.io/podset-required-topology": "a b"}, "podset-required-topology"),
        (
            {
                "kueue.x-k8s.io/podset-required-topology": RACK,
                "kai.scheduler/topology-required-placement": BLOCK,
            },
            "kai.scheduler/topology-required-placement",
        ),
        ({"kueue.x-k8s.io/podset-slice-size": "2"}, "podset-slice-size"),
        ({"kueue.x-k8s.io/podset-slice-required-topology": RACK}, "podset-slice-required-topology"),
        (
            {
                "kueue.x-k8s.io/podset-slice-required-topology": RACK,
                "kueue.x-k8s.io/podset-slice-size": "-2",
            },
            "podset-slice-size",
        ),
        ({"kai.scheduler/segment-topology-preferred-placement": RACK}, "segment-topology-preferred"),
        (
            {
                "kai.scheduler/segment-size": "4",
                "kueue.x-k8s.io/podset-slice-size": "2",
                "kai.scheduler/segment-topology-required-placement": RACK,
            },
            "segment-size",
        ),
        ({LAYERS: "[]"}, "constraints"),
        ({LAYERS: "rack"}, "constraints"),
        ({LAYERS: f'[{{"topology": "{RACK}"}}]'}, "constraints"),
        ({LAYERS: f'[{{"topology": "{RACK}", "size": 0}}]'}, r"constraints\]\[0\].size"),
        ({LAYERS: '[{"topology": "a b", "size": 1}]'}, r"constraints\]\[0\].topology"),
        ({LAYERS: f'[{{"topology": "{RACK}", "sizes": [1, 3]}}]'}, "sizes"),
        (
            {LAYERS: f'[{{"topology": "{BLOCK}", "size": 6}}, {{"topology": "{RACK}", "size": 4}}]'},
            r"constraints\]\[1\].size",
        ),
        ({LAYERS: str([{"topology": RACK, "size": 1}] * 4).replace("'", '"')}, "constraints"),
        (
            {
                LAYERS: f'[{{"topology": "{RACK}", "size": 2}}]',
                "kueue.x-k8s.io/podset-slice-size": "2",
            },
            "constraints",
        ),
        ({"gpufleet.io/topology-balanced": "yes"}, "topology-balanced"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_annotation(written: dict[str, str], field: str) -> None:
    with pytest.raises(ObjectError, match=field):
        gang(GANG | written)


def test_a_pod_may_repeat_what_its_group_says_but_not_contradict() -> None:
    shelf = put(
        Shelf(),
        resources.KAI_POD_GROUPS,
        "train",
        {
            "minMember": 2,
            "topologyConstraint": {"requiredTopologyLevel": BLOCK, "preferredTopologyLevel": RACK},
        },
    )
    group = {"pod-group-name": "train"}
    found = gang(group | {"kai.scheduler/topology-required-placement": BLOCK}, shelf)
    assert (found.required_level, found.preferred_level) == (BLOCK, RACK)
    with pytest.raises(ObjectError, match="two levels"):
        gang(group | {"kai.scheduler/topology-required-placement": RACK}, shelf)
