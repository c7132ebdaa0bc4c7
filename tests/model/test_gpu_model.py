"""The catalogue is consistent, and every spelling finds its model and no other."""

import pytest

from gpufleet.model.gpu_catalogue import CATALOGUE, GpuModel, Vendor
from gpufleet.model.gpu_model import find, matching, nearest_name, unknown


def test_names_are_unique_and_rows_complete() -> None:
    assert len({model.name for model in CATALOGUE}) == len(CATALOGUE) >= 40
    for model in CATALOGUE:
        assert model.labels
        assert model.architecture
        assert model.source[-4:].isdigit()
        assert model.memory_mib is not None
        assert 6 * 1024 <= model.memory_mib <= 288 * 1024
        assert bool(model.compute_target) == (model.vendor is not Vendor.INTEL)


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: str(model.name))
def test_every_name_and_label_finds_exactly_its_model(model: GpuModel) -> None:
    for spelling in model.labels:
        assert find(spelling) == model
    assert find(model.name) == model
    assert matching(model.family)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-INVALID", "A100-80GB"),
        ("Tesla-T4-SHARED", "T4"),
        ("a100 80gb", "A100-80GB"),
        ("nvidia-l4", "L4"),
        ("L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA-RTX-6000-Ada-Generation", "RTX-6000-Ada"),
        ("Quadro RTX 6000", "Quadro-RTX-6000"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("amd mi210", "MI210"),
        ("Intel(R) Data Center GPU Max 1550", "Max-1550"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    found = find(spelling)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("code", "memory_mib"),
    [("P100", 16384), ("T4", 16384), ("V100M16", 16384), ("V100M32", 32768), ("A10", 24576)],
)
def test_codes_of_the_openb_trace(code: str, memory_mib: int) -> None:
    found = find(code)
    assert found is not None
    assert found.memory_mib == memory_mib


@pytest.mark.parametrize("code", ["G1", "G2", "G3", "", "-", "Voodoo2", "A100-60GB", "x" * 100_000])
def test_what_is_no_model(code: str) -> None:
    assert find(code) is None
    assert matching(code) == ()


def test_a_family_of_several_sizes_is_not_guessed() -> None:
    assert find("A100") is None
    assert [model.name for model in matching("A100")] == ["A100-40GB", "A100-80GB"]
    assert [model.name for model in matching("v100")] == ["V100-16GB", "V100-32GB"]
    assert [model.name for model in matching("H20")] == ["H20"]


def test_unknown_models_keep_their_name_and_what_is_known() -> None:
    assert unknown("G2").memory_mib is None
    secret = unknown("G3", 32768)
    assert (secret.name, secret.vendor, secret.memory_mib) == ("G3", Vendor.UNKNOWN, 32768)


@pytest.mark.parametrize(
    ("misspelt", "name"),
    [
        ("A100-80G", "A100-80GB"),
        ("NVIDIA-A100-SMX4-40GB", "A100-40GB"),
        ("MI300", "MI300X"),
        ("teslat4", "T4"),
        ("qqqqqqqq", None),
    ],
)
def test_nearest_name(misspelt: str, name: str | None) -> None:
    assert nearest_name(misspelt) == name
