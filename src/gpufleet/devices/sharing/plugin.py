"""The config file v1 of NVIDIA's device plugin, read whole.

Every field is honoured, or said to have no effect with the reason, or refused with the reason; an
unknown one is refused, since it is most likely a known one misspelt. ``plugin_config`` is the value,
``plugin_plans`` makes plans of it, ``chosen`` finds the text in a ConfigMap.
"""

import math
import re
from collections.abc import Mapping

import msgspec

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.documents import Notice, converted
from gpufleet.devices.sharing.plan import REPLICAS_MAX, Spot
from gpufleet.devices.sharing.plugin_config import (
    PLUGIN_DEFAULT,
    Discovery,
    PluginConfig,
    Replicated,
    Replication,
)
from gpufleet.devices.sharing.plugin_overrides import overridden
from gpufleet.devices.sharing.plugin_text import (
    DiscoveryFlagsText,
    FlagsText,
    ImexText,
    PluginConfigText,
    PluginFlagsText,
    ReplicatedsText,
    SharingText,
)
from gpufleet.devices.yaml_text import read_yaml

# The only version that NVIDIA's plugin knows.
VERSION = "v1"
PREFIX = "nvidia.com/"
NAME_MAX = 63
"""What NVIDIA's plugin allows a resource's name, prefix included."""

# As the flags of NVIDIA's device plugin name them.
LIST_STRATEGIES = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")

# A GPU's index, an instance's, a GPU's UUID, an instance's in either form.
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_DEVICE = re.compile(rf"[0-9]+|[0-9]+:[0-9]+|GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/[0-9]+/[0-9]+")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

_WITHOUT_EFFECT = {
    "flags.failOnInitError": "the agent never ends for that: it says what is wrong and tries again",
    "flags.plugin.nvidiaCTKPath": "the agent writes CDI files itself",
    "flags.gfd.oneshot": "labels come from the agent, which goes on",
    "flags.gfd.outputFile": "labels go into a NodeFeature or onto the Node, and into no file",
    "flags.useNodeFeatureAPI": "it is used wherever the cluster serves it",
    "resources.gpus": "the plugin switched names of one's own off as well",
    "resources.mig": "the plugin switched names of one's own off as well",
    "health.disabled": "the agent judges health by its own catalogue, with a way back",
    "health.eventTypes": "the agent judges health by its own catalogue, with a way back",
    "health.ignoredXIDs": "the agent judges health by its own catalogue, with a way back",
    "health.criticalXIDs": "the agent judges health by its own catalogue, with a way back",
}


def read_plugin_config(
    text: str | bytes,
    where: str = "",
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    default: PluginConfig = PLUGIN_DEFAULT,
) -> PluginConfig:
    """The settings of a text, with those of ``default`` where it is silent.

    Raises SharingError naming the field; an empty text is refused too.
    """
    plain = read_yaml(text, where, SharingError)
    if plain is None:
        raise Spot(where, "").refuse("the file is empty", expected=f"version: {VERSION}")
    # As in NVIDIA's plugin: arguments go before variables, and these before the file.
    values = overridden(plain, environment or {}, arguments or {}, where)
    config = converted(values, PluginConfigText, where, SharingError)
    if config.version not in (None, "", VERSION):
        raise Spot(where, "version").refuse("unknown version", config.version, VERSION)
    if config.flags is not None and config.flags.device_discovery_strategy == "tegra":
        spot = Spot(where, "flags.deviceDiscoveryStrategy")
        raise spot.refuse(
            "boards of Tegra have no driver library that tells devices", "tegra", "auto or nvml"
        )
    # What the plugin knows and the agent does otherwise is told, not refused: the file stays usable.
    notices = [Notice(field, reason) for field, reason in _WITHOUT_EFFECT.items() if _is_said(values, field)]
    replication = _replication(config.sharing or SharingText(), where, notices)
    strategy = None if config.flags is None else config.flags.mig_strategy
    if replication is not None and replication.mps and strategy == "mixed":
        raise Spot(where, "sharing.mps").refuse(
            "not together with MIG", "migStrategy mixed", "none or single"
        )
    settings = _settings(config, where, default)
    if replication is not None and replication.mps and not settings.mps_root:
        raise Spot(where, "flags.mpsRoot").refuse("MPS needs a folder", expected="a path")
    return msgspec.structs.replace(settings, replication=replication, notices=tuple(notices))


def _settings(config: PluginConfigText, where: str, default: PluginConfig) -> PluginConfig:
    """What the file says outside of ``sharing``."""
    flags, imex = config.flags or FlagsText(), config.imex or ImexText()
    plugin = flags.plugin or PluginFlagsText()
    strategies = default.list_strategies
    if plugin.device_list_strategy is not None:
        spot = Spot(where, "flags.plugin.deviceListStrategy")
        strategies = _strategies(plugin.device_list_strategy, spot)
    channels = imex.channel_ids or ()
    # NVIDIA's plugin refuses other channels, too.
    if channels not in {(), (0,)}:
        raise Spot(where, "imex.channelIDs").refuse("not these channels", list(channels), "[] or [0]")
    driver_root = _given(flags.nvidia_driver_root, default.driver_root)
    return PluginConfig(
        mig_strategy=_given(flags.mig_strategy, default.mig_strategy),
        mps_root=_given(flags.mps_root, default.mps_root),
        driver_root=driver_root,
        dev_root=_given(flags.nvidia_dev_root, driver_root),
        gdrcopy=bool(flags.gdrcopy_enabled),
        gds=bool(flags.gds_enabled),
        mofed=bool(flags.mofed_enabled),
        node_feature_api=bool(flags.use_node_feature_api),
        pass_device_specs=bool(plugin.pass_device_specs),
        list_strategies=strategies,
        ids_by_index=plugin.device_id_strategy == "index",
        cdi_annotation_prefix=_given(plugin.cdi_annotation_prefix, default.cdi_annotation_prefix),
        container_driver_root=_given(plugin.container_driver_root, default.container_driver_root),
        packed=plugin.shared_devices_allocation_policy == "packed",
        discovery=_discovery(flags.gfd or DiscoveryFlagsText(), where),
        imex_channels=channels,
        imex_required=bool(imex.required),
    )


def _discovery(text: DiscoveryFlagsText, where: str) -> Discovery:
    default = Discovery()
    every_s = default.every_s
    if text.sleep_interval is not None:
        every_s = _seconds(text.sleep_interval, Spot(where, "flags.gfd.sleepInterval"))
    return Discovery(
        not text.no_timestamp,
        every_s,
        _given(text.output_file, default.output_file),
        _given(text.machine_type_file, default.machine_type_file),
    )


def _given(value: str | None, default: str) -> str:
    return default if value is None else value


def _replication(sharing: SharingText, where: str, notices: list[Notice]) -> Replication | None:
    if sharing.time_slicing is not None and sharing.mps is not None:
        raise Spot(where, "sharing").refuse("timeSlicing and mps", expected="one of them")
    mps = sharing.mps is not None
    text = sharing.mps or sharing.time_slicing
    if text is None:
        return None
    spot = Spot(where, "sharing.mps" if mps else "sharing.timeSlicing")
    if not text.resources:
        raise spot.at("resources").refuse("no resources", expected="at least one")
    one_at_most = text.fail_requests_greater_than_one
    return Replication(
        mps,
        _replicated(text, mps=mps, spot=spot.at("resources"), notices=notices),
        bool(text.rename_by_default),
        # NVIDIA's plugin refuses more than one replica under MPS unless the file allows it.
        mps if one_at_most is None else one_at_most,
    )


def _replicated(
    text: ReplicatedsText, *, mps: bool, spot: Spot, notices: list[Notice]
) -> tuple[Replicated, ...]:
    found: dict[str, Replicated] = {}
    for at, one in enumerate(text.resources):
        here = Spot(spot.where, f"{spot.field}[{at}]")
        name = _resource_name(one.name, here.at("name"))
        if name in found:
            raise here.at("name").refuse("named twice", name, "each resource once")
        if mps and name != f"{PREFIX}gpu":
            raise here.at("name").refuse("MPS shares whole GPUs only", name, f"{PREFIX}gpu")
        if not 2 <= one.replicas <= REPLICAS_MAX:
            expected = f"2 to {REPLICAS_MAX}"
            raise here.at("replicas").refuse("not a number of replicas", one.replicas, expected)
        if one.rename is not None:
            _resource_name(one.rename, here.at("rename"))
            notices.append(Notice(f"{here.field}.rename", "as in the plugin, only renameByDefault renames"))
        if one.devices != "all":
            _check_devices(one.devices, here.at("devices"))
            notices.append(Notice(f"{here.field}.devices", "as in the plugin, all devices are replicated"))
        found[name] = Replicated(name, one.replicas)
    return tuple(found.values())


def _resource_name(name: str, spot: Spot) -> str:
    """The full name of a resource; the prefix may be left out."""
    full = name if name.startswith(PREFIX) else PREFIX + name
    if len(full) > NAME_MAX or not _NAME.fullmatch(full.removeprefix(PREFIX)):
        raise spot.refuse("no name of a resource", name, f"{PREFIX}gpu, or {PREFIX}mig-1g.10gb")
    return full


def _check_devices(devices: str | int | tuple[int | str, ...], spot: Spot) -> None:
    """Refuses what the plugin would refuse, although the value has no effect there either."""
    if isinstance(devices, str):
        raise spot.refuse("not devices", devices, "all, a count, or a list")
    if isinstance(devices, int):
        if devices < 1:
            raise spot.refuse("not a count of devices", devices, "1 or more")
        return
    for device in devices:
        if not _DEVICE.fullmatch(str(device)):
            raise spot.refuse("no device", device, "an index, gpu:instance, or a UUID")


def _strategies(given: str | tuple[str, ...], spot: Spot) -> tuple[str, ...]:
    """One name, several with commas, or a list of them."""
    parts = given.split(",") if isinstance(given, str) else given
    found = tuple(dict.fromkeys(part.strip() for part in parts))
    unknown = next((one for one in found if one not in LIST_STRATEGIES), None)
    if not found or unknown is not None:
        raise spot.refuse("no strategy", unknown, f"one or more of {', '.join(LIST_STRATEGIES)}")
    return found


def _seconds(given: str | int, spot: Spot) -> float:
    """A duration as Go writes it ("1h30m"), a number of nanoseconds, or "infinite"."""
    if isinstance(given, int):
        seconds = given / 1e9
    elif given == "infinite":
        return math.inf
    else:
        parts = _DURATION.findall(given)
        # ``findall`` passes over what does not match, so its parts must make up the whole text.
        if not parts or "".join(number + unit for number, unit in parts) != given:
            raise spot.refuse("not a duration", given, "as in 60s, 1h30m, or infinite")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds <= 0:
        raise spot.refuse("not a duration", given, "more than 0")
    return seconds


def _is_said(values: object, field: str) -> bool:
    """Whether a field of the file has a value."""
    for name in field.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values is not None
