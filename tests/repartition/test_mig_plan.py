"""The plan of a cluster: who waits, what is in use, which cards are left out, and how it is shown."""

import datetime as dt
import json
from typing import Any

import msgspec
import pytest

from gpufleet.cli.mig_output import lines
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.picture import Picture
from gpufleet.devices.mig_parted import read_mig_configs
from gpufleet.kube import keys, resources
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.repartition.answer import RepartitionPlan
from gpufleet.repartition.command import (
    QUEUES_NOT_ASKED,
    WantedConfig,
    plan_of,
    plan_of_config,
    plan_of_given,
)
from gpufleet.repartition.given_layouts import read_given
from tests.conventions.project import ROOT

CONFIGS = """
version: v1
mig-configs:
  all-disabled:
    - {devices: all, mig-enabled: false}
  all-balanced:
    - device-filter: "0x233010DE"
      devices: all
      mig-enabled: true
      mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}
  second-alone:
    - {devices: [1], mig-enabled: true, mig-devices: {7g.80gb: 1}}
"""
AT = dt.datetime(2026, 11, 29, 10, tzinfo=dt.UTC)
Written = dict[str, Any]


def a_node(name: str = "gpu-1", labels: dict[str, str] | None = None, **spec: object) -> Written:
    metadata = {"name": name, "labels": {"zone": "a", **(labels or {})}}
    return {"kind": "Node", "metadata": metadata, "spec": spec}


def a_report(*devices: Written, holders: tuple[Written, ...] = (), node: str = "gpu-1") -> Written:
    return {
        "kind": "NodeDevices",
        "metadata": {"name": node},
        "spec": {"devices": list(devices), "holders": list(holders)},
    }


def a_device(
    name: str, *instances: str, sharing: str = "mig", model: str = "H100-80GB", **more: object
) -> Written:
    """A card with instances from text: "3g.40gb@4"."""
    pairs = [one.split("@") for one in instances]
    layout = [{"profile": profile, "start": int(start)} for profile, start in pairs]
    return {"id": name, "model": model, "sharing": sharing, "migInstances": layout, **more}


def a_pod(name: str, *profiles: str, node: str = "", grant: str = "", **spec: object) -> Written:
    """A pod with one container for each profile ("2g.20gb", or "gpu" for a whole card)."""
    containers = [
        {
            "name": f"c{number}",
            "resources": {"limits": {f"nvidia.com/{'gpu' if one == 'gpu' else f'mig-{one}'}": "1"}},
        }
        for number, one in enumerate(profiles)
    ]
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": name,
        "annotations": {keys.GRANT: grant} if grant else {},
    }
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, "nodeName": node, **spec}}


def planned(*objects: Written) -> RepartitionPlan:
    """The plan for the pods of these objects that wait."""
    return plan_of(pictured(*objects), Settings(identity="test"), AT, lambda _: None)


def configured(name: str, *objects: Written) -> RepartitionPlan:
    """The plan for a config of the file above."""
    config = WantedConfig(read_mig_configs(CONFIGS, "config.yaml"), name)
    return plan_of_config(config, pictured(*objects), Settings(identity="test"), AT, lambda _: None)


def given(layouts: list[str], *objects: Written) -> RepartitionPlan:
    """The plan for layouts that are given."""
    return plan_of_given(
        read_given(layouts), pictured(*objects), Settings(identity="test"), AT, lambda _: None
    )


def pictured(*objects: Written) -> Picture:
    """A picture of these objects."""
    kinds = {"Node": (resources.NODES, Node), "Pod": (resources.PODS, Pod)}
    kinds["NodeDevices"] = (resources.NODE_DEVICES, NodeDevices)
    picture = Picture()
    for written in objects:
        kind, form = kinds[written["kind"]]
        found: Any = msgspec.convert(written, form)
        picture.objects.setdefault(kind, {})[found.metadata.namespace, found.metadata.name] = found
    return picture


def test_a_card_is_cut_beside_what_is_in_use() -> None:
    held = {"device": "GPU-a", "podUID": "other", "kind": "mig", "migProfile": "3g.40gb", "migStart": 4}
    device = a_device("GPU-a", "3g.40gb@4", "1g.10gb@2")
    found = planned(a_node(), a_report(device, holders=(held,)), a_pod("waits", "2g.20gb"))
    page = (ROOT / "docs" / "mig.md").read_text(encoding="utf-8")
    shown = page.partition("$ gpufleet mig plan\n")[2].partition("```")[0]
    assert list(lines(found)) == shown.splitlines()
    assert found.notes == (QUEUES_NOT_ASKED,)


def test_a_pod_that_was_bound_has_its_instance_before_it_runs() -> None:
    """With a grant the one of its place; without one, every unused one of its profile."""
    device = a_device("GPU-a", "3g.40gb@0", "3g.40gb@4")
    instance = {"id": "GPU-a", "kind": "mig", "gpuMilli": 428, "migProfile": "3g.40gb", "migStart": 4}
    granted = json.dumps({"v": 1, "epoch": 1, "containers": {"c0": [instance]}})
    waits = a_pod("waits", "3g.40gb")
    found = planned(a_node(), a_report(device), a_pod("bound", "3g.40gb", node="gpu-1", grant=granted), waits)
    assert [(one.start, one.exists) for one in found.instances] == [(0, True)]
    found = planned(a_node(), a_report(device), a_pod("bound", "3g.40gb", node="gpu-1"), waits)
    assert [one.pod for one in found.unserved] == ["team/waits"]


def test_the_most_urgent_pod_is_served() -> None:
    pods = [a_pod("late", "7g.80gb"), a_pod("urgent", "7g.80gb", priority=10)]
    found = planned(a_node(), a_report(a_device("GPU-a")), *pods)
    assert [one.pod for one in found.instances] == ["team/urgent"]
    assert [one.pod for one in found.unserved] == ["team/late"]


@pytest.mark.parametrize(
    "other",
    [
        a_pod("gated", "1g.10gb", schedulingGates=[{"name": "later"}]),
        a_pod("bound", "1g.10gb", node="elsewhere"),
        a_pod("whole", "gpu"),
        a_pod("shared", "1g.10gb.shared"),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_pods_that_wait_for_no_instance_cut_nothing(other: Written) -> None:
    found = planned(a_node(), a_report(a_device("GPU-a")), other)
    assert list(lines(found)) == ["No pod waits for a MIG instance.", "Nothing was changed."]


def test_a_pod_gets_a_card_of_a_node_that_it_accepts() -> None:
    nodes = [
        a_node("gpu-1", unschedulable=True),
        a_node("gpu-2", taints=[{"key": "own", "effect": "NoSchedule"}]),
    ]
    reports = [a_report(a_device(f"GPU-{name}"), node=name) for name in ("gpu-1", "gpu-2")]
    tolerations = [{"key": "own", "operator": "Exists"}]
    tolerant = a_pod("tolerant", "1g.10gb", tolerations=tolerations)
    found = planned(*nodes, *reports, tolerant, a_pod("plain", "1g.10gb"))
    assert [(one.pod, one.node) for one in found.instances] == [("team/tolerant", "gpu-2")]
    assert found.unserved[0].reason == "no card that it may use can be cut into 1g.10gb"
    elsewhere = a_pod("elsewhere", "1g.10gb", nodeSelector={"zone": "b"})
    assert not planned(a_node(), a_report(a_device("GPU-a")), elsewhere).instances


def test_a_whole_card_is_cut_where_it_is_idle() -> None:
    """An A100 is reset for it; a card that a pod has, or was bound to, stays."""
    report = a_report(a_device("GPU-a", sharing="whole", model="A100-80GB"))
    found = planned(a_node(), report, a_pod("waits", "3g.40gb"))
    assert [step.action for step in found.cards[0].steps] == ["enable-mig-with-reset", "make"]
    bound = a_pod("bound", "gpu", node="gpu-1")
    assert not planned(a_node(), report, bound, a_pod("waits", "3g.40gb")).instances
    holder = {"device": "GPU-a", "foreign": "process 7"}
    held = a_report(a_device("GPU-a", sharing="whole"), holders=(holder,))
    assert planned(a_node(), held, a_pod("waits", "3g.40gb")).unserved[0].reason == (
        "of 1 card with 3g.40gb, 1 in use as a whole"
    )


def test_cards_of_which_not_all_is_known_are_left_out() -> None:
    devices = [
        a_device("GPU-a", "3g.40gb@1"),
        a_device("GPU-b", sharing="shares"),
        a_device("GPU-c", health="unhealthy", healthReason="Xid 79"),
        a_device("GPU-d::1g.10gb@4", sharing="whole"),
        a_device("GPU-e", model="L4", sharing="whole"),
    ]
    found = planned(a_node(), a_report(*devices), a_pod("waits", "1g.10gb"))
    assert [(one.card, one.reason.partition(":")[0]) for one in found.left_out] == [
        ("GPU-a", "its report has a layout that its board does not have"),
        ("GPU-b", "it is shared (shares)"),
        ("GPU-c", "it is unhealthy"),
        ("GPU-d::1g.10gb@4", "it is offered in parts that go by the name of whole GPUs"),
    ]
    unready = a_node() | {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    found = planned(unready, a_report(devices[0]))
    assert [one.reason for one in found.left_out] == ["the node is not ready"]


def test_a_pod_that_cannot_be_read_is_told() -> None:
    bad = a_pod("bad", "1g.10gb")
    bad["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] = "many"
    found = planned(a_node(), a_report(a_device("GPU-a")), bad)
    assert found.notes[0].startswith("1 waiting pod could not be read: team/bad: ")


def test_a_config_of_mig_parted_is_planned_around_what_is_in_use() -> None:
    held = {"device": "GPU-a", "podUID": "other", "kind": "mig", "migProfile": "3g.40gb", "migStart": 4}
    devices = [
        a_device("GPU-a", "3g.40gb@4", "2g.20gb@2"),
        a_device("GPU-b", sharing="whole"),
        a_device("GPU-c", sharing="whole", model="A100-80GB"),
    ]
    found = configured(
        "all-balanced", a_node(), a_report(*devices, holders=(held,)), a_pod("waits", "7g.80gb")
    )
    text = list(lines(found))
    assert [one.card for one in found.cards] == ["GPU-a", "GPU-b"]
    assert found.cards[0].after == ("1g.10gb@0", "1g.10gb@1", "2g.20gb@2", "3g.40gb@4")
    assert text[0] == "2 cards would be cut anew:"
    assert text[-1] == "Nothing was changed."
    found = configured("all-disabled", a_node(), a_report(*devices, holders=(held,)))
    assert [(one.card, one.reason) for one in found.left_out] == [
        ("GPU-a", "layout: 3g.40gb at 4 of GPU-a is in use; expected a layout with all instances in use")
    ]


def test_numbers_of_a_config_count_the_cards_of_a_node() -> None:
    devices = [a_device(f"GPU-{name}") for name in "abc"]
    found = configured("second-alone", a_node(), a_report(*devices))
    assert [(one.card, one.after) for one in found.cards] == [("GPU-b", ("7g.80gb@0",))]
    again = configured("second-alone", a_node(), a_report(devices[0], a_device("GPU-b", "7g.80gb@0")))
    assert list(lines(again)) == ["No card would be cut anew for second-alone.", "Nothing was changed."]


def test_a_filter_that_cannot_be_told_is_said() -> None:
    report = a_report(a_device("GPU-a", sharing="whole", model="H800"))
    found = configured("all-balanced", a_node(), report)
    assert [one.reason for one in found.left_out] == ["the PCI id of H800 is not known here"]


def test_without_a_name_each_node_has_the_config_of_its_label() -> None:
    labels = {"nvidia.com/mig.config": "all-balanced", "nvidia.com/mig.config.state": "failed"}
    nodes = [
        a_node("gpu-1", labels),
        a_node("gpu-2"),
        a_node("gpu-3", {"nvidia.com/mig.config": "all-balance"}),
    ]
    reports = [a_report(a_device(f"GPU-{one}"), node=f"gpu-{one}") for one in (1, 2, 3)]
    found = configured("", *nodes, *reports)
    assert [one.card for one in found.cards] == ["GPU-1"]
    assert found.notes == ("the config all-balanced of gpu-1 is said to be: failed",)
    (left,) = found.left_out
    assert left.node == "gpu-3"
    assert "no such config, found 'all-balance'; expected did you mean all-balanced" in left.reason
    unchanged = configured("", a_node(), reports[0])
    assert next(lines(unchanged)) == "No card would be cut anew for the labels nvidia.com/mig.config."


def test_a_node_of_the_mig_manager_is_left_alone() -> None:
    node = a_node("gpu-1", {"nvidia.com/gpu.deploy.mig-manager": "true"})
    found = planned(node, a_report(a_device("GPU-a")), a_pod("waits", "1g.10gb"))
    assert not found.cards
    assert [(one.node, one.reason) for one in found.left_out] == [
        ("gpu-1", "NVIDIA's MIG Manager changes its layouts")
    ]
    off = a_node("gpu-1", {"nvidia.com/gpu.deploy.mig-manager": "false"})
    assert planned(off, a_report(a_device("GPU-a")), a_pod("waits", "1g.10gb")).cards


@pytest.mark.parametrize("is_special", [False, True])
def test_a_bound_pod_with_claims_may_have_any_instance_until_it_is_reported(is_special: bool) -> None:
    devices = (a_device("GPU-a", "1g.10gb@0", "1g.10gb@4"),)
    waits = a_pod("waits", "4g.40gb")
    claims = [{"name": "one", "resourceClaimName": "one"}]
    with_claims = a_pod("bound", node="gpu-1", resourceClaims=claims)
    bound = a_pod("bound", node="gpu-1") if is_special else with_claims
    if is_special:
        # It asked for a card by number, and has what a claim gave it.
        bound["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "one"}}
    assert [one.pod for one in planned(a_node(), a_report(*devices), bound, waits).unserved] == ["team/waits"]
    holder = {"device": "GPU-a", "podUID": "bound", "kind": "mig", "migProfile": "1g.10gb", "migStart": 4}
    reported = a_report(*devices, holders=(holder,))
    assert [one.pod for one in planned(a_node(), reported, bound, waits).instances] == ["team/waits"]


def test_given_layouts_are_planned_around_what_is_in_use() -> None:
    """With places they are as given; without, what is in use stays, and the rest goes beside it."""
    held = {"device": "GPU-a", "podUID": "other", "kind": "mig", "migProfile": "3g.40gb", "migStart": 4}
    devices = [a_device("GPU-a", "3g.40gb@4"), a_device("GPU-b", "1g.10gb@6")]
    objects = a_node(), a_report(*devices, holders=(held,))
    found = given(["GPU-a=3g.40gb,2g.20gb,1g.10gb", "GPU-b=whole"], *objects)
    cut, whole = found.cards
    assert whole.wish is None
    assert cut.wish is not None
    assert "3g.40gb@4" in cut.wish
    assert sorted(one.partition("@")[0] for one in cut.wish) == ["1g.10gb", "2g.20gb", "3g.40gb"]
    assert [one.wish for one in given(["GPU-b=3g.40gb@0"], *objects).cards] == [("3g.40gb@0",)]
    with pytest.raises(MigPlanError, match=r"3g\.40gb at 4 of GPU-a is in use"):
        given(["GPU-a=whole"], *objects)
    with pytest.raises(MigPlanError, match="no report of a node has such a card"):
        given(["GPU-c=whole"], *objects)


def test_nodes_that_are_not_named_keep_their_cards() -> None:
    nodes = [a_node("gpu-1"), a_node("gpu-2")]
    reports = [a_report(a_device(f"GPU-{one}"), node=f"gpu-{one}") for one in (1, 2)]
    picture = pictured(*nodes, *reports, a_pod("waits", "1g.10gb"))
    settings = Settings(identity="test")
    found = plan_of(picture, settings, AT, lambda _: None, nodes=("gpu-2",))
    assert [one.node for one in found.cards] == ["gpu-2"]
    with pytest.raises(MigPlanError, match="there is no such node"):
        plan_of(picture, settings, AT, lambda _: None, nodes=("gpu-3",))
