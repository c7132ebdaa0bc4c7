"""The config file of NVIDIA's device plugin: read whole, with its defaults, its order and its refusals."""

import math
from pathlib import Path

import msgspec
import pytest

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.sharing import plugin_text
from gpufleet.devices.sharing.chosen import chosen_key
from gpufleet.devices.sharing.plan import Exclusive, Mig, Mps, TimeSlice
from gpufleet.devices.sharing.plugin import read_plugin_config
from gpufleet.devices.sharing.plugin_config import (
    FOUND_DEFAULT,
    Discovery,
    PluginConfig,
    Replicated,
    Replication,
)
from gpufleet.devices.sharing.plugin_plans import plugin_plans
from tests.devices.fleets import fleet_of

CORPUS = Path(__file__).parents[1] / "corpus" / "devices" / "device-plugin"
WHOLE = fleet_of("model: H100-80GB, count: 8")
CUT = fleet_of(
    "model: A100-40GB, mig: [{profile: 1g.5gb, start: 0}, {profile: 3g.20gb, start: 4}]",
    "model: A100-40GB",
)
ONES = fleet_of("model: A100-40GB, count: 2, mig: [{profile: 1g.5gb, start: 0}, {profile: 1g.5gb, start: 1}]")


def example(name: str) -> PluginConfig:
    return read_plugin_config((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"), name)


def plain(config: PluginConfig) -> PluginConfig:
    return msgspec.structs.replace(config, notices=())


def test_the_documented_file_says_the_defaults() -> None:
    config = example("flags")
    assert plain(config) == PluginConfig()
    assert [notice.field for notice in config.notices] == ["flags.failOnInitError"]


def test_empty_sections_are_left_out_sections() -> None:
    assert example("nothing") == PluginConfig()


def test_every_field_is_honoured_or_named_with_the_reason() -> None:
    config = example("every-field")
    assert plain(config) == PluginConfig(
        mig_strategy="single",
        mps_root="/var/mps",
        driver_root="/run/nvidia/driver",
        dev_root="/run/nvidia/dev",
        gdrcopy=True,
        gds=True,
        mofed=True,
        node_feature_api=True,
        pass_device_specs=True,
        list_strategies=("volume-mounts", "cdi-cri"),
        ids_by_index=True,
        cdi_annotation_prefix="cdi.example.com/",
        container_driver_root="/host",
        packed=True,
        discovery=Discovery(
            timestamp=False, every_s=90.0, output_file="/features/gfd", machine_type_file="/machine"
        ),
        replication=Replication(
            mps=False, resources=(Replicated("nvidia.com/gpu", 2),), renamed=True, one_at_most=True
        ),
        imex_channels=(0,),
        imex_required=True,
    )
    assert sorted(notice.field for notice in config.notices) == [
        "flags.failOnInitError",
        "flags.gfd.oneshot",
        "flags.gfd.outputFile",
        "flags.plugin.nvidiaCTKPath",
        "flags.useNodeFeatureAPI",
        "health.criticalXIDs",
        "health.disabled",
        "health.eventTypes",
        "health.ignoredXIDs",
        "resources.gpus",
        "resources.mig",
        "sharing.timeSlicing.resources[0].devices",
        "sharing.timeSlicing.resources[0].rename",
    ]
    assert all(notice.reason for notice in config.notices)


def test_the_example_with_every_field_has_every_field() -> None:
    text = (CORPUS / "every-field.yaml").read_text(encoding="utf-8")
    kinds = [kind for kind in vars(plugin_text).values() if isinstance(kind, type)]
    texts = [kind for kind in kinds if issubclass(kind, msgspec.Struct)]
    names = {field.encode_name for kind in texts for field in msgspec.structs.fields(kind)}
    assert {name for name in names if f"{name}:" not in text} == {"mps"}


def test_turns_are_taken_on_every_gpu() -> None:
    plans = plugin_plans(example("time-slicing"), WHOLE).plans
    assert [plan.uuid for plan in plans] == [gpu.uuid for gpu in WHOLE.gpus]
    assert {(plan.mode, plan.renamed, plan.one_at_most) for plan in plans} == {(TimeSlice(10), False, False)}


def test_renamed_replicas_and_one_at_most_are_kept() -> None:
    plans = plugin_plans(example("time-slicing-renamed"), WHOLE).plans
    assert {(plan.renamed, plan.one_at_most) for plan in plans} == {(True, True)}


def test_mps_gives_each_client_its_part_and_one_at_most() -> None:
    plan = plugin_plans(example("mps"), WHOLE).plans[0]
    assert (plan.mode, plan.renamed, plan.one_at_most) == (Mps(10, 8192, 10), True, True)


def test_mixed_replicates_each_profile_by_its_own_count() -> None:
    found = plugin_plans(example("mixed-a100"), CUT)
    assert found.plans[0].mode == Mig(None, {"1g.5gb": 2, "3g.20gb": 3})
    assert found.plans[1].mode == TimeSlice(8)
    assert [notice.field for notice in found.notices] == [
        "sharing.timeSlicing: nvidia.com/mig-2g.10gb",
        "sharing.timeSlicing: nvidia.com/mig-7g.40gb",
    ]


def test_strategy_none_shows_no_instances() -> None:
    plans = plugin_plans(read_plugin_config("version: v1"), CUT).plans
    assert [plan.mode for plan in plans] == [Exclusive(), Exclusive()]


SINGLE = "{flags: {migStrategy: single}, sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}}"


def test_strategy_single_offers_instances_as_gpus() -> None:
    plans = plugin_plans(read_plugin_config(SINGLE), ONES).plans
    assert {repr(plan.mode) for plan in plans} == {repr(Mig(None, {"1g.5gb": 3}, as_gpus=True))}
    assert plugin_plans(read_plugin_config(SINGLE), WHOLE).plans[0].mode == TimeSlice(3)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        (("model: A100-40GB, mig: [{profile: 1g.5gb, start: 0}]", "model: A100-40GB"), "is whole"),
        (("model: A100-40GB, mig: []",), "has no instance"),
        (
            ("model: A100-40GB, mig: [{profile: 1g.5gb, start: 0}, {profile: 3g.20gb, start: 4}]",),
            "1g.5gb, 3g.20gb",
        ),
    ],
)
def test_strategy_single_needs_one_profile_everywhere(groups: tuple[str, ...], problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        plugin_plans(read_plugin_config(SINGLE), fleet_of(*groups))


def test_mps_is_not_for_instances_nor_for_too_many_clients() -> None:
    mps = "{flags: {migStrategy: single}, sharing: {mps: {resources: [{name: gpu, replicas: %d}]}}}"
    with pytest.raises(SharingError, match="cut into instances"):
        plugin_plans(read_plugin_config(mps % 4), ONES)
    with pytest.raises(SharingError, match="2 to 48"):
        plugin_plans(read_plugin_config(mps % 49), WHOLE)
    with pytest.raises(SharingError, match="2 to 16"):
        plugin_plans(read_plugin_config(mps % 17), fleet_of("model: V100-32GB"))


def test_another_vendors_gpus_are_offered_as_they_are() -> None:
    found = plugin_plans(example("time-slicing"), fleet_of("model: MI300X"))
    assert found.plans[0].mode == Exclusive()
    assert "NVIDIA" in found.notices[0].reason


def test_the_command_line_goes_before_the_environment_and_that_before_the_file() -> None:
    text = "flags: {migStrategy: mixed, gdsEnabled: true, plugin: {deviceListStrategy: cdi-cri}}"
    environment = {"MIG_STRATEGY": "single", "GDS_ENABLED": "0", "IMEX_CHANNEL_IDS": "0", "PATH": "/bin"}
    config = read_plugin_config(text, "", environment, {"mig-strategy": "none"})
    assert (config.mig_strategy, config.gds, config.imex_channels) == ("none", False, (0,))
    assert config.list_strategies == ("cdi-cri",)
    several = read_plugin_config("version: v1", "", {"DEVICE_LIST_STRATEGY": "envvar,cdi-cri"})
    assert several.list_strategies == ("envvar", "cdi-cri")
    with pytest.raises(SharingError, match=r"flags\.gdsEnabled: not a switch"):
        read_plugin_config(text, "", {"GDS_ENABLED": "maybe"})


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("60s", 60.0), ("1h30m", 5400.0), ("500ms", 0.5), ("infinite", math.inf), (60_000_000_000, 60.0)],
)
def test_durations_are_those_of_go(duration: str | int, seconds: float) -> None:
    config = read_plugin_config(f"flags: {{gfd: {{sleepInterval: {duration}}}}}")
    assert config.discovery.every_s == seconds


def sharing(resource: str, kind: str = "timeSlicing") -> str:
    return f"sharing: {{{kind}: {{resources: [{{{resource}}}]}}}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: v2", "unknown version, found 'v2'; expected v1"),
        ("flags: {migStrategy: both}", "migStrategy: Invalid enum value"),
        ("flags: {deviceDiscoveryStrategy: tegra}", "auto or nvml"),
        ("flags: {failOnInitError: 'true'}", "failOnInitError: Expected `bool"),
        ("flags: {plugin: {deviceListStrategy: cdi}}", "no strategy, found 'cdi'"),
        ("flags: {plugin: {deviceListStrategy: []}}", "one or more of envvar"),
        ("flags: {plugin: {deviceListStrategy: 3}}", "deviceListStrategy"),
        ("{flags: {mpsRoot: ''}, " + sharing("name: gpu, replicas: 2", "mps") + "}", "needs a folder"),
        ("flags: {gfd: {sleepInterval: soon}}", "not a duration"),
        ("flags: {gfd: {sleepInterval: 0s}}", "more than 0"),
        ("imex: {channelIDs: [1]}", r"\[\] or \[0\]"),
        ("sharing: {timeSlicing: {}}", "missing required field `resources`"),
        ("sharing: {timeSlicing: {resources: []}}", "at least one"),
        (sharing("name: gpu"), "missing required field `replicas`"),
        (sharing("name: gpu, replicas: 1"), "2 to 1000"),
        (sharing("name: gpu, replicas: -1"), "2 to 1000"),
        (sharing("name: $gpu$, replicas: 2"), "no name of a resource"),
        (sharing(f"name: {'g' * 60}, replicas: 2"), "no name of a resource"),
        (sharing("name: gpu, replicas: 2, rename: $x$"), "rename: no name of a resource"),
        (sharing("name: gpu, replicas: 2, devices: some"), "all, a count, or a list"),
        (sharing("name: gpu, replicas: 2, devices: 0"), "1 or more"),
        (sharing("name: gpu, replicas: 2, devices: [-1]"), "gpu:instance"),
        (sharing("name: gpu, replicas: 2, devices: [GPU-UUID]"), "no device, found 'GPU-UUID'"),
        (
            sharing("name: gpu, replicas: 2, devices: [MIG-GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c]"),
            "no device",
        ),
        (sharing("name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 3"), "named twice"),
        (sharing("name: mig-1g.5gb, replicas: 2", "mps"), "whole GPUs only"),
        ("{flags: {migStrategy: mixed}, " + sharing("name: gpu, replicas: 2", "mps") + "}", "not together"),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}, timeSlicing: {resources: []}}",
            "one of them",
        ),
    ],
)
def test_what_the_plugin_refuses_is_refused_with_the_field(text: str, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        read_plugin_config(text)


def test_the_key_is_that_of_the_label_the_default_or_the_first_fallback() -> None:
    keys = ["a100", "default", "t4", "..data"]
    assert chosen_key(keys, "t4", "a100") == "t4"
    assert chosen_key(keys, "", "a100") == "a100"
    assert chosen_key(keys) == "default"
    assert chosen_key(["only", "..data"]) == "only"
    assert chosen_key(["a", "b"], fallbacks=("named", "single", "empty")) is None
    assert chosen_key(["a", "b"], fallbacks=("empty", "named")) is None


@pytest.mark.parametrize(
    ("keys", "label", "default", "fallbacks", "problem"),
    [
        (["a100", "t4"], "a10", "", (), "did you mean a100"),
        (["a100", "t4"], "", "zzz", (), "default configuration: no such .* one of a100, t4"),
        (["a100", "t4"], "", "", ("named", "single"), "no fallback applies"),
        (["a100"], "", "", ("first",), "named, any, single or empty"),
        (["..data"], "", "", (), "has no configuration"),
    ],
)
def test_no_key_is_an_error_that_says_which_there_are(
    keys: list[str], label: str, default: str, fallbacks: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(SharingError, match=problem):
        chosen_key(keys, label, default, fallbacks)


def test_a_text_without_a_strategy_leaves_cut_gpus_their_instances_where_that_is_the_default() -> None:
    turns = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    found = plugin_plans(read_plugin_config(turns, default=FOUND_DEFAULT), ONES)
    assert all(plan.mode == Mig(None) for plan in found.plans)
    (notice,) = found.notices
    assert "no device of that name, as its GPUs are cut into nvidia.com/mig-1g.5gb" in str(notice)
    said = "flags: {migStrategy: none}\n" + turns
    plans = plugin_plans(read_plugin_config(said, default=FOUND_DEFAULT), ONES).plans
    assert all(plan.mode == TimeSlice(4) for plan in plans)
