"""Config files of mig-parted: all of the format is read, and what cannot be is refused with its place."""

import pytest

from gpufleet.devices.mig_parted import MigConfigError, WantedLayout, read_mig_configs, wanted_layout

# The shape of the default config of NVIDIA's GPU operator, shortened.
TEXT = """
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}
  all-balanced:
    - device-filter: ["0x20B010DE", "0x20B110DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.5gb": 2
        "2g.10gb": 1
        "3g.20gb": 1
    - device-filter: "0x233010DE"
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.10gb": 2
        "2g.20gb": 1
        "3g.40gb": 1
  custom:
    - devices: [0, 1]
      mig-enabled: false
    - devices: [1]
      mig-enabled: true
      mig-devices: {"1g.10gb+me": 1, "1g.10gb": 6}
"""
H100 = frozenset({0x233010DE})
A100 = frozenset({0x20B010DE})


def test_a_config_is_for_the_cards_of_its_filter_and_numbers() -> None:
    configs = read_mig_configs(TEXT, "config.yaml")
    balanced = configs.named("all-balanced")
    assert wanted_layout(balanced, 0, H100) == WantedLayout({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1})
    assert wanted_layout(balanced, 0, A100) == WantedLayout({"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1})
    assert wanted_layout(balanced, 0, frozenset({0x26B910DE})) is None
    assert wanted_layout(configs.named("all-disabled"), 7, H100) == WantedLayout(None)
    assert wanted_layout(configs.named("all-enabled"), 7, H100) == WantedLayout({})


def test_of_several_entries_the_last_one_counts() -> None:
    custom = read_mig_configs(TEXT, "config.yaml").named("custom")
    assert wanted_layout(custom, 0, H100) == WantedLayout(None)
    assert wanted_layout(custom, 1, H100) == WantedLayout({"1g.10gb+me": 1, "1g.10gb": 6})
    assert wanted_layout(custom, 2, H100) is None


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{devices: some, mig-enabled: true}", "c.yaml, mig-configs"),
        ("{devices: all}", "missing required field `mig-enabled`"),
        ("{devices: all, mig-enable: true}", "mig-enable"),
        ("{devices: [-1], mig-enabled: true}", "mig-configs.one[0].devices: a negative number"),
        ("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}", "instances without MIG mode"),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 9}}",
            "not a count, found 9; expected 0 to 8",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1c.2g.10gb: 2}}",
            "compute instances that have a part",
        ),
        ("{devices: all, mig-enabled: true, device-filter: H100}", "no device, found 'H100'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(entry: str, says: str) -> None:
    with pytest.raises(MigConfigError) as refused:
        read_mig_configs(f"version: v1\nmig-configs: {{one: [{entry}]}}", "c.yaml")
    assert says in str(refused.value)


def test_another_version_and_an_unknown_name_are_refused() -> None:
    with pytest.raises(MigConfigError, match="version"):
        read_mig_configs("version: v2\nmig-configs: {}", "c.yaml")
    with pytest.raises(MigConfigError, match="did you mean all-balanced"):
        read_mig_configs(TEXT, "c.yaml").named("all-balance")
