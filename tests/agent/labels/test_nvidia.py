"""NVIDIA's labels. The expected ones are those of the published tests of its labeller
(k8s-device-plugin, internal/lm) and of the outputs in its documentation.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from gpufleet.agent.labels.nvidia import family, nvidia_labels
from gpufleet.agent.labels.values import Labels
from gpufleet.devices.facts import Driver
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mode, Mps, TimeSlice
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.label_syntax import is_label_key, is_label_value
from tests.agent.labels.nodes import a_cut_gpu, a_gpu, a_node, an_instance, engines

PUBLISHED = Path(__file__).parent / "published"
SINGLE = Mig(None, as_gpus=True)
AMPERE = {"compute.major": "8", "compute.minor": "0", "family": "ampere"}


def of_gpus(labels: Labels) -> Labels:
    """The labels of whole GPUs and of instances in their place, without the prefix."""
    prefix = "nvidia.com/gpu."
    others = ("machine", "mode", "clique")
    return {
        name.removeprefix(prefix): value
        for name, value in labels.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in others
    }


def gpu_labels(count: int, replicas: int, product: str, strategy: str = "none", memory: int = 300) -> Labels:
    """What every node with GPUs has."""
    return {
        "count": str(count),
        "replicas": str(replicas),
        "product": product,
        "sharing-strategy": strategy,
        "memory": str(memory),
    }


def test_a_node_without_gpus_has_no_labels() -> None:
    assert nvidia_labels(a_node()) == {}


def test_whole_gpus() -> None:
    assert of_gpus(nvidia_labels(a_node(a_gpu()))) == gpu_labels(1, 1, "MOCKMODEL") | AMPERE


@pytest.mark.parametrize("count", [1, 2])
def test_turns_are_told_by_replicas_and_by_the_product(count: int) -> None:
    node = a_node(*(a_gpu(index, TimeSlice(2)) for index in range(count)))
    expected = gpu_labels(count, 2, "MOCKMODEL-SHARED", "time-slicing") | AMPERE
    assert of_gpus(nvidia_labels(node)) == expected


def test_a_resource_with_another_name_leaves_the_product_as_it_is() -> None:
    found = of_gpus(nvidia_labels(a_node(a_gpu(0, TimeSlice(2), renamed=True))))
    assert found == gpu_labels(1, 2, "MOCKMODEL", "time-slicing") | AMPERE


def test_clients_of_mps() -> None:
    labels = nvidia_labels(a_node(a_gpu(0, Mps(4, 1000, 25))))
    assert of_gpus(labels) == gpu_labels(1, 4, "MOCKMODEL-SHARED", "mps") | AMPERE
    assert labels["nvidia.com/mps.capable"] == "true"


@pytest.mark.parametrize("count", [1, 2])
def test_cut_gpus_are_not_shared_and_have_no_replicas(count: int) -> None:
    node = a_node(*(a_cut_gpu(index, mode=Exclusive()) for index in range(count)))
    assert of_gpus(nvidia_labels(node)) == gpu_labels(count, 0, "MOCKMODEL")


def test_whole_gpus_beside_cut_ones_say_how_they_are_shared() -> None:
    node = a_node(a_cut_gpu(0, mode=Exclusive()), a_gpu(1, TimeSlice(2)))
    expected = gpu_labels(2, 2, "MOCKMODEL-SHARED", "time-slicing") | AMPERE
    assert of_gpus(nvidia_labels(node)) == expected


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ([Exclusive(), TimeSlice(4)], {"sharing-strategy": "mixed", "product": "MOCKMODEL"}),
        ([TimeSlice(2), TimeSlice(4)], {"sharing-strategy": "mixed", "product": "MOCKMODEL"}),
        ([Fractions(10)], {"sharing-strategy": "fractions", "product": "MOCKMODEL", "replicas": "0"}),
    ],
)
def test_what_the_published_labeller_cannot_share_is_told_without_a_number_that_is_wrong(
    modes: list[Mode], expected: Labels
) -> None:
    found = of_gpus(nvidia_labels(a_node(*(a_gpu(index, mode) for index, mode in enumerate(modes)))))
    assert {name: found.get(name) for name in ("sharing-strategy", "product", "replicas")} == {
        "replicas": None,
        **expected,
    }


def test_instances_in_place_of_gpus() -> None:
    size: dict[str, Any] = {
        "memory_mib": 100,
        "multiprocessors": 12,
        "engines": engines(13, 14, 15, 16, 17),
    }
    gpus = [a_cut_gpu(index, an_instance("1g.100gb", index, **size), mode=SINGLE) for index in range(2)]
    labels = nvidia_labels(a_node(*gpus))
    assert labels["nvidia.com/mig.strategy"] == "single"
    assert of_gpus(labels) == gpu_labels(2, 1, "MOCKMODEL-MIG-1g.100gb", memory=100) | {
        "multiprocessors": "12",
        "slices.gi": "1",
        "slices.ci": "1",
        "engines.copy": "13",
        "engines.decoder": "14",
        "engines.encoder": "15",
        "engines.jpeg": "16",
        "engines.ofa": "17",
    }


def test_instances_in_place_of_gpus_are_shared_too() -> None:
    mode = Mig(None, {"1g.100gb": 2}, as_gpus=True)
    found = of_gpus(nvidia_labels(a_node(a_cut_gpu(0, an_instance("1g.100gb", memory_mib=100), mode=mode))))
    assert (found["product"], found["replicas"]) == ("MOCKMODEL-MIG-1g.100gb-SHARED", "2")
    assert found["sharing-strategy"] == "time-slicing"


@pytest.mark.parametrize(
    "gpus",
    [
        [a_cut_gpu(0, mode=SINGLE)],
        [a_cut_gpu(0, an_instance("1g.100gb"), an_instance("3g.100gb", 1), mode=SINGLE)],
        [a_cut_gpu(0, an_instance("1g.100gb"), mode=SINGLE), a_gpu(1)],
        [a_cut_gpu(0, an_instance("1g.100gb"), mode=SINGLE), a_gpu(1), a_cut_gpu(2, mode=SINGLE)],
    ],
    ids=["empty", "two profiles", "a whole GPU", "a whole GPU and an empty one"],
)
def test_instances_that_cannot_stand_for_gpus_are_invalid(gpus: list[Any]) -> None:
    found = of_gpus(nvidia_labels(a_node(*gpus)))
    counts = {name: found[name] for name in ("count", "replicas", "memory", "product")}
    assert counts == {"count": "0", "replicas": "0", "memory": "0", "product": "MOCKMODEL-MIG-INVALID"}


def test_instances_under_their_own_names() -> None:
    small = {"memory_mib": 9984, "multiprocessors": 16, "engines": engines(1, 1, 0, 1, 0)}
    large = {"memory_mib": 20096, "multiprocessors": 32, "engines": engines(2, 2, 0, 2, 0)}
    instances = (
        an_instance("1g.10gb", 0, **small),
        an_instance("1g.10gb", 1, **small),
        an_instance("2g.20gb", 2, **large),
    )
    labels = nvidia_labels(a_node(a_cut_gpu(0, *instances, product="NVIDIA H100 80GB HBM3")))
    # As the documentation of NVIDIA's operator shows them for all-balanced on an H100.
    published = {
        "mig.strategy": "mixed",
        "mig.capable": "true",
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "gpu.replicas": "0",
        "mig-1g.10gb.count": "2",
        "mig-1g.10gb.engines.copy": "1",
        "mig-1g.10gb.engines.decoder": "1",
        "mig-1g.10gb.engines.encoder": "0",
        "mig-1g.10gb.engines.jpeg": "1",
        "mig-1g.10gb.engines.ofa": "0",
        "mig-1g.10gb.memory": "9984",
        "mig-1g.10gb.multiprocessors": "16",
        "mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "mig-1g.10gb.replicas": "1",
        "mig-1g.10gb.sharing-strategy": "none",
        "mig-1g.10gb.slices.ci": "1",
        "mig-1g.10gb.slices.gi": "1",
        "mig-2g.20gb.count": "1",
        "mig-2g.20gb.engines.copy": "2",
        "mig-2g.20gb.engines.decoder": "2",
        "mig-2g.20gb.engines.encoder": "0",
        "mig-2g.20gb.engines.jpeg": "2",
        "mig-2g.20gb.engines.ofa": "0",
        "mig-2g.20gb.memory": "20096",
    }
    expected = {f"nvidia.com/{name}": value for name, value in published.items()}
    assert {name: labels.get(name) for name in expected} == expected


def test_a_plus_in_a_profile_is_a_dot_in_the_name_and_nothing_in_the_value() -> None:
    labels = nvidia_labels(a_node(a_cut_gpu(0, an_instance("1g.10gb+me"))))
    assert labels["nvidia.com/mig-1g.10gb.me.product"] == "MOCKMODEL-MIG-1g.10gbme"


def test_a_part_of_an_instance_tells_both_its_slices() -> None:
    labels = nvidia_labels(a_node(a_cut_gpu(0, an_instance("1c.3g.40gb"))))
    assert labels["nvidia.com/mig-1c.3g.40gb.slices.ci"] == "1"
    assert labels["nvidia.com/mig-1c.3g.40gb.slices.gi"] == "3"


@pytest.mark.parametrize(
    ("version", "revision"), [("455.06", ""), ("550.54.14", "14")], ids=["two numbers", "three numbers"]
)
def test_versions_of_driver_and_cuda(version: str, revision: str) -> None:
    driver = Driver(Vendor.NVIDIA, version, "11.1")
    labels = nvidia_labels(a_node(a_gpu(), drivers=(driver,)))
    major, minor = version.split(".")[:2]
    expected = {
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver-version.full": version,
        "cuda.runtime.major": "11",
        "cuda.runtime.minor": "1",
        "cuda.runtime-version.major": "11",
        "cuda.runtime-version.minor": "1",
        "cuda.runtime-version.full": "11.1",
    }
    found = {name.removeprefix("nvidia.com/"): value for name, value in labels.items() if "/cuda." in name}
    assert found == expected


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((3, 7), "kepler"),
        ((5, 2), "maxwell"),
        ((6, 1), "pascal"),
        ((7, 0), "volta"),
        ((7, 5), "turing"),
        ((8, 6), "ampere"),
        ((8, 9), "ada-lovelace"),
        ((9, 0), "hopper"),
        ((10, 0), "blackwell"),
        ((12, 0), "blackwell"),
        ((13, 0), "rubin"),
        ((99, 0), "undefined"),
    ],
)
def test_families(capability: tuple[int, int], name: str) -> None:
    assert family(capability) == name


@pytest.mark.parametrize(
    ("pci_class", "mode"),
    [(0x030000, "graphics"), (0x030200, "compute"), (0x040000, "unknown"), (None, None)],
)
def test_mode_by_the_class_on_the_bus(pci_class: int | None, mode: str | None) -> None:
    assert nvidia_labels(a_node(a_gpu(pci_class=pci_class))).get("nvidia.com/gpu.mode") == mode


def test_a_clique_is_told_where_all_gpus_are_in_it() -> None:
    clique = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"
    same = nvidia_labels(a_node(a_gpu(0, clique=clique), a_gpu(1, clique=clique)))
    other = nvidia_labels(a_node(a_gpu(0, clique=clique), a_gpu(1, clique="other.1")))
    assert same["nvidia.com/gpu.clique"] == clique
    assert "nvidia.com/gpu.clique" not in other


@pytest.mark.parametrize(
    ("machine", "label"), [("NVIDIA DGX-2H", "NVIDIA-DGX-2H"), ("", "unknown"), ("ÄÖ", "unknown")]
)
def test_machine(machine: str, label: str) -> None:
    assert nvidia_labels(a_node(a_gpu()), machine)["nvidia.com/gpu.machine"] == label


def test_of_several_products_the_most_frequent_is_told() -> None:
    node = a_node(
        a_gpu(0, product="Tesla T4"), a_gpu(1, product="NVIDIA A10"), a_gpu(2, product="NVIDIA A10")
    )
    found = of_gpus(nvidia_labels(node))
    assert (found["product"], found["count"]) == ("NVIDIA-A10", "2")


def test_what_is_not_known_has_no_label() -> None:
    labels = nvidia_labels(a_node(a_gpu(memory_mib=None, compute_capability=None)))
    assert not {"memory", "family", "compute.major"} & set(of_gpus(labels))
    assert not [name for name in labels if "vgpu" in name or "/cuda." in name]


def test_a_long_product_is_cut_and_not_what_stands_behind_it() -> None:
    product = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
    mode = Mig(None, {"1g.24gb": 2})
    labels = nvidia_labels(a_node(a_cut_gpu(0, an_instance("1g.24gb"), mode=mode, product=product)))
    value = labels["nvidia.com/mig-1g.24gb.product"]
    assert value.endswith("-MIG-1g.24gb-SHARED")
    assert all(is_label_key(name) and is_label_value(text) for name, text in labels.items())


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_all_names_of_the_published_outputs_are_there_and_no_others(strategy: str) -> None:
    """The names in the files against which NVIDIA's labeller is tested, one each line."""
    size: dict[str, Any] = {"memory_mib": 9984, "multiprocessors": 16, "engines": engines(1, 1, 0, 1, 0)}
    whole: dict[str, Any] = {"compute_capability": (9, 0), "pci_class": 0x030200, "product": "NVIDIA H100"}
    cut: dict[str, Any] = {**whole, "mig_enabled": True, "mig": (an_instance("1g.10gb", **size),)}
    gpus = {
        "none": a_gpu(0, **whole),
        "single": a_gpu(0, SINGLE, **cut),
        "mixed": a_gpu(0, Mig(None), **cut),
    }
    node = a_node(gpus[strategy], drivers=(Driver(Vendor.NVIDIA, "550.54.14", "12.4"),))
    expected = (PUBLISHED / f"gfd-{strategy}.txt").read_text(encoding="ascii").split()
    assert sorted({*nvidia_labels(node, "machine"), "nvidia.com/gfd.timestamp"}) == sorted(expected)
    assert all(re.fullmatch(r"[a-z0-9./-]+", name) for name in expected)
