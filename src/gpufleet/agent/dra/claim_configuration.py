"""Configurations of claims for our drivers: which are honoured, and the words in which others are refused.

A claim that asks for sharing which a card does not have here must not start as if it had it. Understood are
the kinds of NVIDIA's driver, in ``resource.nvidia.com/v1beta1``, as far as they ask for nothing but what a
card does by itself.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.kube.objects.resource_claims import WrittenAllocatedConfiguration, WrittenResult
from gpufleet.model.model_errors import InputError

API_VERSION = "resource.nvidia.com/v1beta1"
KINDS = ("GpuConfig", "MigDeviceConfig")
"""Kinds of NVIDIA's driver for whole cards and for instances."""

TIME_SLICING = "TimeSlicing"
DEFAULT_INTERVAL = "Default"
"""The length of turns that a card has by itself."""

FROM_CLAIM = "FromClaim"


class TimeSlicing(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long turns are."""

    interval: str = DEFAULT_INTERVAL


class SharingRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How several containers use one card."""

    strategy: str = TIME_SLICING
    time_slicing_config: TimeSlicing | None = None
    mps_config: msgspec.Raw = msgspec.Raw(b"")


class DeviceConfiguration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a claim or a class asks of devices."""

    api_version: str
    kind: str
    sharing: SharingRequest | None = None


_DECODER = msgspec.json.Decoder(DeviceConfiguration)


def check_configuration(
    driver: str, result: WrittenResult, configurations: Iterable[WrittenAllocatedConfiguration]
) -> None:
    """Refuse what cannot be honoured for a device. The last that names its request counts, claims' after
    classes'. Raises InputError.
    """
    chosen: WrittenAllocatedConfiguration | None = None
    for one in configurations:
        concerned = not one.requests or not {result.request, base_request(result.request)}.isdisjoint(
            one.requests
        )
        if one.opaque is None or one.opaque.driver != driver or not concerned:
            continue
        if chosen is None or one.source == FROM_CLAIM or chosen.source != FROM_CLAIM:
            chosen = one
    if chosen is not None and chosen.opaque is not None:
        _check(bytes(chosen.opaque.parameters))


def base_request(name: str) -> str:
    """The request of a result, also where one of its alternatives was taken ("gpu/large" is of "gpu")."""
    return name.partition("/")[0]


def _check(parameters: bytes) -> None:
    try:
        wish = _DECODER.decode(parameters)
    except msgspec.DecodeError as error:
        expected = f"a {' or '.join(KINDS)} of {API_VERSION}"
        raise InputError(str(error), field="config.opaque.parameters", expected=expected) from error
    if wish.api_version != API_VERSION or wish.kind not in KINDS:
        expected = f"{' or '.join(KINDS)} of {API_VERSION}"
        value = f"{wish.api_version} {wish.kind}"
        raise InputError("a kind that is not honoured", field="kind", value=value, expected=expected)
    sharing = wish.sharing
    if sharing is None:
        return
    if sharing.strategy != TIME_SLICING or bytes(sharing.mps_config):
        expected = f"{TIME_SLICING}; cards shared by MPS are offered by the device plugin"
        raise InputError(
            "sharing that claims do not have here",
            field="sharing.strategy",
            value=sharing.strategy,
            expected=expected,
        )
    turns = sharing.time_slicing_config
    if turns is not None and turns.interval != DEFAULT_INTERVAL:
        raise InputError(
            "turns of another length are a setting of the whole card",
            field="sharing.timeSlicingConfig.interval",
            value=turns.interval,
            expected=DEFAULT_INTERVAL,
        )
