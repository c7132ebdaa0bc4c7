"""Ids of devices say which card, which instance and which replica they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.device_id import DeviceName, MigPlace, device_name, hardware_of
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId

CARD = DeviceId("GPU-5b7c2f9e-9a51-5d3f-8a0c-0c5f6c3f7e10")
CARDS = st.sampled_from([CARD, DeviceId("0000:03:00.0-0x56c0"), DeviceId("n/0")])
PLACES = st.none() | st.builds(
    MigPlace, st.sampled_from(["1g.5gb", "1g.10gb+me", "1g.24gb-me", "1g.24gb+me.all"]), st.integers(0, 7)
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GPU-0", DeviceName(DeviceId("GPU-0"))),
        ("GPU-0::3", DeviceName(DeviceId("GPU-0"), None, 3)),
        ("GPU-0::1g.10gb@4", DeviceName(DeviceId("GPU-0"), MigPlace("1g.10gb", 4))),
        ("GPU-0::1g.10gb@4::12", DeviceName(DeviceId("GPU-0"), MigPlace("1g.10gb", 4), 12)),
    ],
)
def test_an_id_says_what_it_is(text: str, name: DeviceName) -> None:
    assert device_name(DeviceId(text)) == name
    assert name.id == text


@given(CARDS, PLACES, st.none() | st.integers(0, 999))
def test_every_name_survives_as_an_id_that_fits(card: DeviceId, place: MigPlace | None, replica: int) -> None:
    name = DeviceName(card, place, replica)
    assert device_name(name.id) == name
    assert len(name.id) <= 63


@pytest.mark.parametrize("text", ["GPU-0::x", "::", "GPU-0::1g.10gb@8", "GPU-0::1g.10gb", "GPU-0::", ""])
def test_what_follows_no_rule_is_a_card(text: str) -> None:
    assert device_name(DeviceId(text)) == DeviceName(DeviceId(text))


def test_replicas_of_one_instance_or_card_are_one_piece_of_hardware() -> None:
    names = ("GPU-0::0", "GPU-0::1", "GPU-0", "GPU-0::1g.5gb@0::0", "GPU-0::1g.5gb@0", "GPU-0::1g.5gb@1")
    assert [hardware_of(DeviceId(one)) for one in names] == [
        *["GPU-0"] * 3,
        *["GPU-0::1g.5gb@0"] * 2,
        "GPU-0::1g.5gb@1",
    ]


def test_a_grant_names_the_device_by_card_and_place() -> None:
    whole, share = GrantedDevice(DeviceId("GPU-0::2")), GrantedDevice(DeviceId("GPU-0"), GrantKind.SHARE, 500)
    mig = GrantedDevice(DeviceId("GPU-0::1"), GrantKind.MIG, 142, None, "1g.10gb", 4)
    assert [one.device for one in (whole, share, mig)] == ["GPU-0::2", "GPU-0", "GPU-0::1g.10gb@4::1"]
    assert [one.undivided for one in (whole, share, mig)] == [True, False, True]
