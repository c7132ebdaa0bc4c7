"""The configurations that people are given to begin with are good ones, and mean what they say."""

import re

import pytest

from gpufleet.devices.sharing.any_format import NodeSharing, read_node_sharing
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mps, TimeSlice
from tests.conventions.project import ROOT
from tests.devices.fleets import fleet_of

EXAMPLES = ROOT / "examples" / "sharing"
EIGHT = fleet_of("model: H100-80GB, count: 8")
FILES = sorted(EXAMPLES.glob("*.yaml"))


def sharing(name: str, pool: str = "default") -> NodeSharing:
    return read_node_sharing((EXAMPLES / name).read_bytes(), [EIGHT], pool, name)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("whole.yaml", Exclusive()),
        ("time-slice.yaml", TimeSlice(4)),
        ("mps.yaml", Mps(4, 16384, 25)),
        ("fractions.yaml", Fractions(10)),
        ("nvidia-time-slicing.yaml", TimeSlice(10)),
        ("nvidia-mps.yaml", Mps(10, 8192, 10)),
    ],
)
def test_an_example_of_one_mode_shares_every_gpu_so(name: str, mode: object) -> None:
    found = sharing(name)
    assert [plan.mode for plan in found.plans.values()] == [mode] * 8
    assert found.notices == ()


def test_the_example_of_instances_places_them() -> None:
    (mode,) = {plan.mode.layout for plan in sharing("mig.yaml").plans.values() if isinstance(plan.mode, Mig)}
    assert mode is not None
    assert sorted(one.profile for one in mode) == ["1g.10gb"] * 3 + ["3g.40gb"]


@pytest.mark.parametrize(
    ("pool", "kinds"),
    [
        ("training", [Exclusive] * 4 + [Mps] * 2 + [Fractions] * 2),
        ("notebooks", [TimeSlice] * 8),
        ("elsewhere", [Exclusive] * 8),
    ],
)
def test_the_mixed_example_has_another_mix_for_each_pool(pool: str, kinds: list[type]) -> None:
    assert [type(plan.mode) for plan in sharing("mixed.yaml", pool).plans.values()] == kinds


def test_every_example_is_read_here_and_the_page_shows_the_mixed_one() -> None:
    tested = set(
        re.findall(r'"([a-z-]+\.yaml)"', (ROOT / "tests/devices/test_sharing_examples.py").read_text())
    )
    assert {path.name for path in FILES} == tested
    page = (ROOT / "docs" / "sharing.md").read_text(encoding="utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    body = (EXAMPLES / "mixed.yaml").read_text(encoding="utf-8").partition("\n")[2]
    assert shown == body
