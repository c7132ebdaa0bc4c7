"""Which of several configurations in a ConfigMap a node gets, as NVIDIA's config manager chooses.

The node's label ``nvidia.com/device-plugin.config`` names the key. Without it the default that the
operator set counts, and without that the fallbacks in their order: the key ``default``, the key ``any``, the
only key there is, or the empty configuration.
"""

from collections.abc import Iterable

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.sharing.plan import Spot
from gpufleet.model.fleet_policy import SHARING_CONFIG_LABEL
from gpufleet.model.label_advice import nearest

CONFIG_LABEL = SHARING_CONFIG_LABEL
POOL_LABEL = "gpufleet.io/pool"
"""The label that says which pool of a config of gpufleet's own a node is in."""

NAMED = "default"
FALLBACKS = ("named", "single")
"""The fallback strategies of the chart of NVIDIA's device plugin."""

ANY = "any"
"""The key of NVIDIA's guides to its operator, which have an administrator declare it as the default."""

FOUND_FALLBACKS = ("named", ANY, "single", "empty")
"""Those for a ConfigMap that is found by its name: nothing beside it says what its default is."""


def chosen_key(
    keys: Iterable[str], label: str = "", default: str = "", fallbacks: Iterable[str] = FALLBACKS
) -> str | None:
    """The key to read; None for the empty configuration. Raises SharingError where none is to be had."""
    # A mounted ConfigMap has links of the kubelet's own beside its keys.
    names = sorted(key for key in keys if not key.startswith(".."))
    if not names:
        raise SharingError("the ConfigMap has no configuration", expected="a key for each configuration")
    for field, wanted in ((CONFIG_LABEL, label), ("default configuration", default)):
        if wanted in names:
            return wanted
        if wanted:
            raise _missing(field, wanted, names)
    for fallback in fallbacks:
        if fallback == "named" and NAMED in names:
            return NAMED
        if fallback == ANY and ANY in names:
            return ANY
        if fallback == "single" and len(names) == 1:
            return names[0]
        if fallback == "empty":
            return None
        if fallback not in {"named", ANY, "single"}:
            raise Spot("", "fallbacks").refuse("no fallback", fallback, "named, any, single or empty")
    expected = f"a label {CONFIG_LABEL} on the node with one of {', '.join(names)}"
    raise SharingError("no configuration is chosen and no fallback applies", expected=expected)


def _missing(field: str, wanted: str, names: list[str]) -> SharingError:
    meant = nearest(wanted, names)
    expected = f"one of {', '.join(names)}" + (f"; did you mean {meant}?" if meant else "")
    return Spot("", field).refuse("no such configuration", wanted, expected)
