"""Pools of nodes as text: what is read, and what a slip is told."""

import pytest

from gpufleet.localkube.pools import cut, read_pools
from gpufleet.localkube.simulated_nodes import gpu_model, node, offered, report
from gpufleet.model.model_errors import InputError


def test_nodes_of_several_pools_are_numbered_through() -> None:
    pools = read_pools(("10:H100-80GB", "2:MI300X:4", "3:none"))
    assert [(one.first, one.count, one.gpus_per_node) for one in pools] == [
        (1, 10, 8),
        (11, 2, 4),
        (13, 3, 0),
    ]
    assert [offered(one) for one in pools] == [{"nvidia.com/gpu": 8}, {"amd.com/gpu": 4}, {}]


def test_a_pool_of_instances_offers_them_instead_of_whole_gpus() -> None:
    (pool,) = read_pools(("4:A100-80GB:2:3g.40gb,2x1g.10gb",))
    assert offered(pool) == {"nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-1g.10gb": 4}
    made = node("gpu-001", pool)
    assert made["metadata"]["labels"]["nvidia.com/mig.strategy"] == "mixed"
    assert made["metadata"]["labels"]["nvidia.com/mig-1g.10gb.count"] == "4"
    assert "nvidia.com/gpu" not in made["status"]["allocatable"]
    assert "gpufleet.io/gpu-share" not in made["status"]["allocatable"]
    devices = report("local", "gpu-001", pool)["spec"]["devices"]
    assert [device["sharing"] for device in devices] == ["mig", "mig"]
    assert sorted(one["profile"] for one in devices[0]["migInstances"]) == ["1g.10gb", "1g.10gb", "3g.40gb"]


@pytest.mark.parametrize(
    ("model", "text", "starts"),
    [
        # An 80 GB board has eight memory slices: 3g takes four of them from 0 or 4, 4g the first four.
        ("A100-80GB", "7x1g.10gb", [0, 1, 2, 3, 4, 5, 6]),
        ("H100-80GB", "4g.40gb,3g.40gb", [0, 4]),
        ("A100-40GB", "3g.20gb, 2g.10gb, 2x1g.5gb", [0, 1, 2, 4]),
        ("A30", "2x2g.12gb", [0, 2]),
    ],
)
def test_instances_find_places_that_do_not_overlap(model: str, text: str, starts: list[int]) -> None:
    assert [one.start for one in cut(gpu_model(model), text, "--mig")] == starts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10", r"no pool of nodes.*NODES:MODEL"),
        ("x:H100-80GB", r"the number of nodes is x"),
        (":H100-80GB", r"the number of nodes is missing"),
        ("0:H100-80GB", r"the number of nodes is 0.*1 to 10000"),
        ("1:H100-80GB:65", r"the number of GPUs of a node is 65.*1 to 64"),
        ("1:H1000-80GB", r"--pool: no such model of GPU.*did you mean H100"),
        ("1:none:8", r"a pool without GPUs.*1:none"),
        ("1:L4:8:1g.5gb", r"cannot be cut by MIG.*A100-80GB"),
        ("1:A100-80GB:8:1g.5gb", r"no MIG profile of A100-80GB.*1g\.10gb"),
        ("1:A100-80GB:8:4g.40gb,4g.40gb", r"do not fit on one A100-80GB.*1 x 4g\.40gb"),
        ("1:A100-80GB:8:", r"no MIG profile|do not fit"),
        ("1:A100-80GB:8:7g.80gb,1g.10gb", r"do not fit on one A100-80GB"),
    ],
)
def test_a_slip_is_told_with_the_way_out(text: str, words: str) -> None:
    with pytest.raises(InputError, match=f"(?s){words}"):
        read_pools((text,))


def test_more_nodes_than_are_measured_are_refused() -> None:
    with pytest.raises(InputError, match="at most 10000 together"):
        read_pools(("6000:H100-80GB", "6000:L4"))
