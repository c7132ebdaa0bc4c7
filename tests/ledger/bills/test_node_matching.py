"""Nodes are found by what their providers call them, in bills and on nodes."""

import pytest

from gpufleet.ledger.bills.bill_lines import BilledResource
from gpufleet.ledger.bills.node_matching import MatchedNode, NodeMatching

SET = "/subscriptions/11-AA/resourceGroups/MC_rg/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu"
OCID = "ocid1.instance.oc1.eu-frankfurt-1.abcdef"
NODES = {
    "aws": "aws:///eu-central-1a/i-0abc",
    "gke": "gce://a-project/europe-west4-a/gke-gpu-1",
    "aks-0": f"azure://{SET}/virtualMachines/0".replace("11-AA", "11-aa"),
    "aks-1": f"azure://{SET}/virtualMachines/1",
    "oke": OCID,
    "bare": "",
}


@pytest.mark.parametrize(
    ("resource", "uids"),
    [
        (BilledResource("i-0abc"), ("aws",)),
        (BilledResource("arn:aws:ec2:eu-central-1:123456789012:instance/i-0abc"), ("aws",)),
        (BilledResource("i-0ab"), ()),
        (BilledResource(SET.lower()), ("aks-0", "aks-1")),
        (BilledResource(f"{SET}/virtualMachines/1"), ("aks-1",)),
        (BilledResource(f"{SET}-other"), ()),
        (
            BilledResource(
                "//compute.googleapis.com/projects/1/zones/europe-west4-a/instances/987",
                "gke-gpu-1",
                "europe-west4-a",
            ),
            ("gke",),
        ),
        (BilledResource("", "gke-gpu-1", "europe-west4-b"), ()),
        (BilledResource(OCID), ("oke",)),
        (BilledResource(), ()),
        (BilledResource("arn:aws:s3:::bucket"), ()),
    ],
)
def test_a_line_is_for_the_nodes_that_its_resource_names(
    resource: BilledResource, uids: tuple[str, ...]
) -> None:
    matching = NodeMatching(MatchedNode(uid, provider_id) for uid, provider_id in NODES.items())
    assert matching.nodes_of(resource) == uids


@pytest.mark.parametrize(
    ("resource", "uids"),
    [
        (BilledResource("//compute.googleapis.com/projects/a/instances/gpu-1", "gpu-1", "west-b"), ("a-b",)),
        (BilledResource("//compute.googleapis.com/projects/b/zones/west-a/instances/gpu-1"), ("b-a",)),
        (BilledResource("//compute.googleapis.com/projects/c/zones/west-a/instances/gpu-1"), ()),
        # Of a bill that tells no zone either machine may be meant, and both share the line.
        (BilledResource("//compute.googleapis.com/projects/a/instances/gpu-1"), ("a-a", "a-b")),
        (BilledResource("", "gpu-1", "west-b"), ("a-b",)),
    ],
)
def test_instances_of_google_with_one_name_are_told_apart_by_project_and_zone(
    resource: BilledResource, uids: tuple[str, ...]
) -> None:
    places = {"a-a": "a/west-a", "a-b": "a/west-b", "b-a": "b/west-a"}
    matching = NodeMatching(MatchedNode(uid, f"gce://{place}/gpu-1") for uid, place in places.items())
    assert matching.nodes_of(resource) == uids
