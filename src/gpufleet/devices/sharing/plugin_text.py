"""The config file v1 of NVIDIA's device plugin as types: every field, by its name in YAML.

A field that is null counts as left out, as it does there. ``plugin`` says what each is worth here.
"""

from typing import Literal

import msgspec


class PluginFlagsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part ``flags.plugin`` of the file."""

    pass_device_specs: bool | None = msgspec.field(default=None, name="passDeviceSpecs")
    device_list_strategy: str | tuple[str, ...] | None = msgspec.field(
        default=None, name="deviceListStrategy"
    )
    device_id_strategy: Literal["uuid", "index"] | None = msgspec.field(default=None, name="deviceIDStrategy")
    cdi_annotation_prefix: str | None = msgspec.field(default=None, name="cdiAnnotationPrefix")
    nvidia_ctk_path: str | None = msgspec.field(default=None, name="nvidiaCTKPath")
    container_driver_root: str | None = msgspec.field(default=None, name="containerDriverRoot")
    shared_devices_allocation_policy: Literal["distributed", "packed"] | None = msgspec.field(
        default=None, name="sharedDevicesAllocationPolicy"
    )


class DiscoveryFlagsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """``flags.gfd``, of the feature discovery."""

    oneshot: bool | None = None
    no_timestamp: bool | None = None
    sleep_interval: str | int | None = None
    output_file: str | None = None
    machine_type_file: str | None = None


class FlagsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part ``flags`` of the file."""

    mig_strategy: Literal["none", "single", "mixed"] | None = msgspec.field(default=None, name="migStrategy")
    fail_on_init_error: bool | None = msgspec.field(default=None, name="failOnInitError")
    mps_root: str | None = msgspec.field(default=None, name="mpsRoot")
    nvidia_driver_root: str | None = msgspec.field(default=None, name="nvidiaDriverRoot")
    nvidia_dev_root: str | None = msgspec.field(default=None, name="nvidiaDevRoot")
    gdrcopy_enabled: bool | None = msgspec.field(default=None, name="gdrcopyEnabled")
    gds_enabled: bool | None = msgspec.field(default=None, name="gdsEnabled")
    mofed_enabled: bool | None = msgspec.field(default=None, name="mofedEnabled")
    use_node_feature_api: bool | None = msgspec.field(default=None, name="useNodeFeatureAPI")
    device_discovery_strategy: Literal["auto", "nvml", "tegra"] | None = msgspec.field(
        default=None, name="deviceDiscoveryStrategy"
    )
    plugin: PluginFlagsText | None = None
    gfd: DiscoveryFlagsText | None = None


class NamedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A name for the GPUs, or the instances, of products that match a pattern."""

    pattern: str
    name: str


class ResourcesText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part ``resources`` of the file."""

    gpus: tuple[NamedText, ...] | None = None
    mig: tuple[NamedText, ...] | None = None


class ReplicatedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replicated resource. ``devices`` is "all", a count, or a list of indices and UUIDs."""

    name: str
    replicas: int
    rename: str | None = None
    devices: str | int | tuple[int | str, ...] = "all"


class ReplicatedsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The parts ``sharing.timeSlicing`` and ``sharing.mps`` of the file."""

    resources: tuple[ReplicatedText, ...]
    rename_by_default: bool | None = None
    fail_requests_greater_than_one: bool | None = None


class SharingText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The part ``sharing`` of the file."""

    time_slicing: ReplicatedsText | None = None
    mps: ReplicatedsText | None = None


class ImexText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part ``imex`` of the file."""

    channel_ids: tuple[int, ...] | None = msgspec.field(default=None, name="channelIDs")
    required: bool | None = None


class HealthText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part ``health`` of the file, of the newest releases."""

    disabled: bool | None = None
    event_types: tuple[str, ...] | None = msgspec.field(default=None, name="eventTypes")
    ignored_xids: tuple[int, ...] | None = msgspec.field(default=None, name="ignoredXIDs")
    critical_xids: str | tuple[int, ...] | None = msgspec.field(default=None, name="criticalXIDs")


class PluginConfigText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole config file of NVIDIA's device plugin."""

    version: str | None = None
    flags: FlagsText | None = None
    resources: ResourcesText | None = None
    sharing: SharingText | None = None
    imex: ImexText | None = None
    health: HealthText | None = None
