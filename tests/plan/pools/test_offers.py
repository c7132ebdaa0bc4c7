"""What Karpenter may buy: NodePools and NodeOverlays as a catalogue, at the prices of a table."""

from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import main
from gpufleet.cluster.settings import Settings
from gpufleet.kube.objects.node_overlays import NodeOverlay
from gpufleet.kube.objects.node_pools import NodePool
from gpufleet.model.model_errors import InputError
from gpufleet.plan.command import Question, plan_of
from gpufleet.plan.instance_types import read_catalogue
from gpufleet.plan.pools.offers import Offers, PoolObjects, offers_of
from gpufleet.whatif.request import Request
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.kube.wire_objects import decoded
from tests.plan.test_planning import bought, on_h100
from tests.whatif.test_whatif import files

TYPES = """\
instance_type,gpus,gpu_model,cpus,memory_gib,price,currency,provider,region,zone,capacity_type
p5.48xlarge,8,H100-80GB,192,2048,55,USD,aws,us-east-1,,
p5.48xlarge,8,H100-80GB,192,2048,20,USD,aws,us-east-1,,spot
p5.4xlarge,1,H100-80GB,16,256,7,USD,aws,us-east-1,,
g6.48xlarge,8,L4,192,768,13,USD,aws,us-east-1,,
Standard_NC40ads_H100_v5,1,H100-94GB,40,320,6,USD,azure,eastus,,
"""
TABLE = read_catalogue(TYPES, "types.csv")
TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
CAPACITY = "karpenter.sh/capacity-type"


def one_of(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def pool(name: str, *requirements: dict[str, Any], **spec: Any) -> NodePool:
    template = {
        "metadata": {"labels": spec.pop("labels", {})},
        "spec": {"requirements": list(requirements), "taints": spec.pop("taints", [])},
    }
    status = {"resources": spec.pop("used", {})}
    body = {"metadata": {"name": name}, "spec": {"template": template, **spec}, "status": status}
    found: NodePool = decoded(body, NodePool)
    return found


def overlay(name: str, *requirements: dict[str, Any], ready: str = "True", **spec: Any) -> NodeOverlay:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    body = {
        "metadata": {"name": name},
        "spec": {"requirements": list(requirements), **spec},
        "status": status,
    }
    found: NodeOverlay = decoded(body, NodeOverlay)
    return found


def offered(
    *found: NodePool, overlays: tuple[NodeOverlay, ...] = (), without: tuple[str, ...] = ()
) -> Offers:
    return offers_of(TABLE, PoolObjects(found, overlays, "pools.yaml"), without)


def names(offers: Offers) -> list[tuple[str, str, str]]:
    return [(one.name, one.zone, one.capacity_type) for one in offers.catalogue.types]


def prices(offers: Offers) -> list[float]:
    return [one.price_micro / 1e6 for one in offers.catalogue.types]


def test_requirements_choose_types_in_each_zone_that_the_pool_names() -> None:
    family = one_of("karpenter.k8s.aws/instance-family", "p5")
    found = offered(
        pool(
            "h100",
            family,
            one_of(ZONE, "us-east-1a", "us-east-1b", "eu-west-1a"),
            one_of(CAPACITY, "on-demand"),
            {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["1"]},
        )
    )
    assert names(found) == [
        ("p5.48xlarge", "us-east-1a", "on-demand"),
        ("p5.48xlarge", "us-east-1b", "on-demand"),
    ]


def test_what_one_provider_says_of_its_instances_holds_for_none_of_another() -> None:
    assert names(offered(pool("aws", one_of("karpenter.k8s.aws/instance-gpu-name", "l4")))) == [
        ("g6.48xlarge", "", "on-demand")
    ]
    azure = pool("azure", one_of("karpenter.azure.com/sku-family", "N"))
    assert names(offered(azure)) == [("Standard_NC40ads_H100_v5", "", "on-demand")]


def test_nodes_have_the_labels_and_taints_of_the_pool() -> None:
    taint = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    (one,) = offered(
        pool(
            "l4", one_of(TYPE, "g6.48xlarge"), one_of("team", "vision"), labels={"tier": "a"}, taints=[taint]
        )
    ).catalogue.types
    labels = dict(one.labels)
    assert (labels["team"], labels["tier"], labels["karpenter.sh/nodepool"]) == ("vision", "a", "l4")
    assert labels[CAPACITY] == "on-demand"
    assert [(taint.key, taint.value, taint.effect) for taint in one.taints] == [("gpu", "true", "NoSchedule")]


@pytest.mark.parametrize(
    ("spec", "price"),
    [
        ({"price": "40.5"}, 40.5),
        ({"priceAdjustment": "-10%"}, 49.5),
        ({"priceAdjustment": "+2.5"}, 57.5),
        ({"priceAdjustment": "+5%"}, 57.75),
    ],
)
def test_an_overlay_changes_the_price_of_what_it_is_about(spec: dict[str, str], price: float) -> None:
    gpus = pool(
        "gpus", one_of(CAPACITY, "on-demand"), one_of("karpenter.k8s.aws/instance-category", "p", "g")
    )
    change = overlay("contract", one_of(TYPE, "p5.48xlarge"), **spec)
    assert prices(offered(gpus, overlays=(change,))) == [price, 7, 13]


def test_the_overlay_of_the_highest_weight_counts_and_then_the_later_name() -> None:
    gpus = pool("gpus", one_of(TYPE, "p5.4xlarge"))
    low, high = overlay("z", price="1", weight=1), overlay("a", price="2", weight=9)
    assert prices(offered(gpus, overlays=(low, high))) == [2]
    assert prices(offered(gpus, overlays=(overlay("a", price="3"), overlay("b", price="4")))) == [4]


def test_an_overlay_that_is_not_applied_or_not_understood_is_told() -> None:
    gpus = pool("gpus", one_of(TYPE, "p5.4xlarge"))
    found = offered(gpus, overlays=(overlay("off", price="1", ready="False"), overlay("bad", price="free")))
    assert prices(found) == [7]
    assert [note for note in found.notes if "off" in note or "bad" in note] == list(found.notes[:2])


@pytest.mark.parametrize("amount", ["0", "-1", "65", "1500m"])
def test_an_overlay_with_a_number_of_gpus_that_no_node_has_is_refused(amount: str) -> None:
    gpus = pool("gpus", one_of(TYPE, "p5.4xlarge"))
    wrong = overlay("more", capacity={"nvidia.com/gpu": amount})
    words = rf"NodeOverlay more, spec\.capacity\[nvidia\.com/gpu\]: .*found '?\"?{amount}.*from 1 to 64"
    with pytest.raises(InputError, match=words):
        offered(gpus, overlays=(wrong,))


def test_an_overlay_with_a_negative_amount_of_another_resource_is_refused() -> None:
    gpus = pool("gpus", one_of(TYPE, "p5.4xlarge"))
    with pytest.raises(InputError, match=r"spec\.capacity\[example\.com/disk\]: a negative amount"):
        offered(gpus, overlays=(overlay("more", capacity={"example.com/disk": "-1"}),))


def test_capacity_of_an_overlay_is_on_the_nodes() -> None:
    gpus = pool("gpus", one_of(TYPE, "p5.4xlarge"))
    more = overlay("fuse", capacity={"smarter-devices/fuse": "20", "nvidia.com/gpu": "2"})
    (one,) = offered(gpus, overlays=(more,)).catalogue.types
    assert (one.amounts, one.gpus) == ((("smarter-devices/fuse", "20"),), 2)


def test_what_offers_nothing_is_refused_or_told() -> None:
    cpu = pool("cpu", one_of("karpenter.k8s.aws/instance-category", "c", "m"))
    with pytest.raises(InputError, match=r"no NodePool of pools\.yaml offers one"):
        offered(cpu)
    static = pool("static", replicas=4)
    strange = pool("strange", one_of(TYPE, "p9.48xlarge", "g6.48xlarge"), weight=5)
    found = offered(static, strange, pool("gpus"), without=("gpus",))
    assert names(found) == [("g6.48xlarge", "", "on-demand")]
    assert found.notes == (
        "NodePool static has 4 nodes, whatever waits: left out",
        "NodePool strange allows p9.48xlarge, of which no price is known: not planned",
    )


def planned(found: Offers, *work: dict[str, Any]) -> Any:
    request = Request((), (), (), files(*work), "default", ())
    question = Question(request, found.catalogue, 0.0, found.left, found.notes)
    return plan_of(question, Fleet().picture, Settings(identity="test"), AT, lambda _: None)


def test_a_plan_buys_no_more_than_the_limits_of_a_pool_leave() -> None:
    """One pod of eight GPUs and two of one need 10; the limit leaves 8 beside the 8 that are used."""
    limits, used = {"nvidia.com/gpu": "16"}, {"nvidia.com/gpu": "8"}
    gpus = pool("gpus", one_of(CAPACITY, "on-demand"), limits=limits, used=used)
    plan = planned(offered(gpus), on_h100("big", pods=1, gpus=8), on_h100("small", pods=2, gpus=1))
    assert sum(one.count * one.gpus for one in plan.nodes) == 8
    assert plan.pods_helped < plan.pods_late
    assert any("limits of NodePool gpus bound this plan" in note for note in plan.notes)


def test_work_beyond_the_limits_of_one_pool_is_bought_from_another() -> None:
    first = pool("a", one_of(TYPE, "p5.48xlarge"), one_of(CAPACITY, "spot"), limits={"nodes": "1"})
    second = pool("b", one_of(TYPE, "p5.48xlarge"), one_of(CAPACITY, "on-demand"))
    plan = planned(offered(first, second), on_h100("train", pods=2, gpus=8, gang=True))
    assert [(one.pool, one.count) for one in plan.nodes] == [("a", 1), ("b", 1)]
    assert bought(plan) == {"p5.48xlarge": 1}


def test_work_that_does_not_tolerate_a_pool_is_not_helped_by_it() -> None:
    taint = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    plan = planned(offered(pool("gpus", taints=[taint])), on_h100("train", pods=1, gpus=8))
    assert (plan.nodes, plan.pods_helped) == ((), 0)


def test_a_file_of_pools_is_read_with_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = tmp_path / "tasks.csv"
    tasks.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,duration_s\none,1000,1024,8,1000,0,600\n"
    )
    pools = tmp_path / "pools.yaml"
    pools.write_text(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpus}\n"
        "spec: {template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, "
        "values: [g5.48xlarge]}]}}}\n"
        "---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: contract}\n"
        'spec: {priceAdjustment: "-50%"}\n'
    )
    line = ["plan", "--history", str(tasks), "--wait", "p100=0s", "--pools", str(pools)]
    assert main(line) == 0
    said = capsys.readouterr().out
    # Half of 16.288, the list price of g5.48xlarge.
    assert "g5.48xlarge" in said
    assert "8.144" in said
    assert "NodePool gpus" in said
