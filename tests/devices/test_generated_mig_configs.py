"""Configs that mig-parted makes of the hardware, as its documentation names and fills them."""

import pytest

from gpufleet.devices.generated_mig_configs import generated_layout
from gpufleet.devices.mig_parted import WantedLayout
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig_boards import BOARDS


@pytest.mark.parametrize(
    ("board", "name", "counts"),
    [
        ("H100-80GB", "all-balanced", {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
        ("A30", "all-balanced", {"1g.6gb": 2, "2g.12gb": 1}),
        ("H100-80GB", "all-1g.10gb", {"1g.10gb": 7}),
        ("H100-80GB", "all-1g.20gb", {"1g.20gb": 4}),
        ("H100-80GB", "all-1g.10gb.me", {"1g.10gb+me": 1}),
        ("A100-40GB", "all-3g.20gb", {"3g.20gb": 2}),
        ("H100-80GB", "all-enabled", {}),
        ("H100-80GB", "all-disabled", None),
    ],
)
def test_a_config_of_the_hardware(board: str, name: str, counts: dict[str, int] | None) -> None:
    geometry = BOARDS[GpuModelName(board)]
    assert generated_layout(name, geometry) == WantedLayout(counts)
    each = [geometry.profile(one) for one, count in (counts or {}).items() for _ in range(count)]
    assert geometry.placed(each) is not None


@pytest.mark.parametrize("name", ["all-1g.5gb", "balanced", "all-", "mine"])
def test_a_name_that_the_hardware_has_not(name: str) -> None:
    assert generated_layout(name, BOARDS[GpuModelName("H100-80GB")]) is None
