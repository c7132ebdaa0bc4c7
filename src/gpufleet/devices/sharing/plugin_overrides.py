"""What the device plugin's command line and environment say in place of its config file.

A value on the command line goes before one of the environment, and that before the file's. The names
are the plugin's own: ``MIG_STRATEGY`` is ``--mig-strategy``. Values become those of the file before it
is read, so that each is checked once and named by its field.
"""

from collections.abc import Mapping

from gpufleet.devices.device_errors import SharingError

# By environment variable: the field, and what kind of value it is.
_FIELDS = {
    "MIG_STRATEGY": ("flags.migStrategy", "text"),
    "FAIL_ON_INIT_ERROR": ("flags.failOnInitError", "switch"),
    "MPS_ROOT": ("flags.mpsRoot", "text"),
    "NVIDIA_DRIVER_ROOT": ("flags.nvidiaDriverRoot", "text"),
    "DRIVER_ROOT": ("flags.nvidiaDriverRoot", "text"),
    "NVIDIA_DEV_ROOT": ("flags.nvidiaDevRoot", "text"),
    "GDRCOPY_ENABLED": ("flags.gdrcopyEnabled", "switch"),
    "GDS_ENABLED": ("flags.gdsEnabled", "switch"),
    "MOFED_ENABLED": ("flags.mofedEnabled", "switch"),
    "USE_NODE_FEATURE_API": ("flags.useNodeFeatureAPI", "switch"),
    "DEVICE_DISCOVERY_STRATEGY": ("flags.deviceDiscoveryStrategy", "text"),
    "PASS_DEVICE_SPECS": ("flags.plugin.passDeviceSpecs", "switch"),
    "DEVICE_LIST_STRATEGY": ("flags.plugin.deviceListStrategy", "text"),
    "DEVICE_ID_STRATEGY": ("flags.plugin.deviceIDStrategy", "text"),
    "CDI_ANNOTATION_PREFIX": ("flags.plugin.cdiAnnotationPrefix", "text"),
    "NVIDIA_CTK_PATH": ("flags.plugin.nvidiaCTKPath", "text"),
    "NVIDIA_CDI_HOOK_PATH": ("flags.plugin.nvidiaCTKPath", "text"),
    "CONTAINER_DRIVER_ROOT": ("flags.plugin.containerDriverRoot", "text"),
    "SHARED_DEVICES_ALLOCATION_POLICY": ("flags.plugin.sharedDevicesAllocationPolicy", "text"),
    "ONESHOT": ("flags.gfd.oneshot", "switch"),
    "NO_TIMESTAMP": ("flags.gfd.noTimestamp", "switch"),
    "SLEEP_INTERVAL": ("flags.gfd.sleepInterval", "text"),
    "OUTPUT_FILE": ("flags.gfd.outputFile", "text"),
    "MACHINE_TYPE_FILE": ("flags.gfd.machineTypeFile", "text"),
    "IMEX_CHANNEL_IDS": ("imex.channelIDs", "numbers"),
    "IMEX_REQUIRED": ("imex.required", "switch"),
}
# What Go's strconv.ParseBool takes, by which NVIDIA's plugin reads them.
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}


def overridden(
    plain: object, environment: Mapping[str, str], arguments: Mapping[str, str], where: str
) -> object:
    """The file's values with those of the environment, then those of the command line, in their place."""
    if plain is not None and not isinstance(plain, dict):
        return plain
    found: dict[str, object] = dict(plain or {})
    named = {name.lower().replace("_", "-"): name for name in _FIELDS}
    given = [(name, value) for name, value in environment.items() if name in _FIELDS and value]
    # Arguments last, so that they replace what variables said.
    given += [(named[name], value) for name, value in arguments.items() if name in named]
    for name, value in given:
        field, kind = _FIELDS[name]
        _set(found, field.split("."), _value(value, kind, field, where))
    return found


def _set(values: dict[str, object], path: list[str], value: object) -> None:
    inner = values.get(path[0])
    if len(path) == 1:
        values[path[0]] = value
    elif inner is None or isinstance(inner, dict):
        # A copy, so that the values of the file stay as they were read.
        below: dict[str, object] = dict(inner or {})
        _set(below, path[1:], value)
        values[path[0]] = below


def _value(text: str, kind: str, field: str, where: str) -> object:
    if kind == "switch" and text in _TRUE | _FALSE:
        return text in _TRUE
    if kind == "switch":
        raise SharingError("not a switch", field=field, value=text, expected="true or false", where=where)
    if kind == "numbers":
        parts = [part.strip() for part in text.split(",")]
        # What is no number stays text, and is refused by the name of its field.
        return [int(part) if part.isascii() and part.isdecimal() else part for part in parts]
    return text
