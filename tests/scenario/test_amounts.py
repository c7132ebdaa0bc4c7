"""Lengths of time and amounts of scenario files."""

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.scenario.amounts import mebibytes, microseconds, quota_amount


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0s", 0),
        ("90s", 90_000_000),
        ("1h30m", 5_400_000_000),
        ("1.5s", 1_500_000),
        ("250ms", 250_000),
        ("2d", 172_800_000_000),
    ],
)
def test_a_length_of_time_is_exact(text: str, expected: int) -> None:
    assert microseconds(text, "at") == expected


@pytest.mark.parametrize("text", ["", "5", "5 m", "-1s", "1e3s", "m", "1y", "1m x", "٣s"])
def test_anything_else_is_refused_with_the_field(text: str) -> None:
    with pytest.raises(InputError, match="steps") as refused:
        microseconds(text, "steps[0].at")
    assert "1h30m" in str(refused.value)


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [
        ("gpu", 8, 8000),
        ("gpu", "0.5", 500),
        ("gpu/H100", 2, 2000),
        ("cpu", "1500m", 1500),
        ("memory", "1Gi", 1 << 30),
        ("gpu-memory", "80Gi", 80 * 1024),
        ("gpu-memory", 100, 100),
        ("cost", "2.5", 2500),
        ("mig-slices", 7, 7),
        ("example.com/widget", 3, 3),
    ],
)
def test_quotas_are_counted_in_the_units_of_the_model(
    resource: str, amount: int | str, expected: int
) -> None:
    assert quota_amount(resource, amount, "quotas") == expected


def test_memory_of_a_gpu_rounds_up_to_mib() -> None:
    assert mebibytes("1000001", "gpuMemory") == 1
    assert mebibytes("1Gi", "gpuMemory") == 1024
