"""Which models and datasets a pod says that it reads, from its annotations.

``gpufleet.io/data: model/ORG/NAME@REVISION, dataset/NAME``; ``gpufleet.io/data-size: 141Gi`` where no node
tells the size; ``gpufleet.io/data-policy: Require`` where the pod must not start without, ``WaitUpTo=10m``
where it waits so long.
"""

from collections.abc import Mapping

from gpufleet.kube import keys
from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.objects.node_data import DATA_KINDS
from gpufleet.model.data import NO_DATA, SIZE_MAX, DataAsk, DataNeeds, DataPolicy
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity

MAXIMUM_ASKS = 16
"""A pod reads a model and a few datasets; each is compared with the copies of all nodes."""

MAXIMUM_LENGTH = 4096
"""The length of the annotation, bounded before it is taken apart."""

EXPECTED = "model/ORG/NAME or dataset/NAME, with @REVISION if only that one will do"


def read_data_needs(annotations: Mapping[str, str]) -> DataNeeds:
    """What the pod reads. Raises InputError for what cannot be understood."""
    written = annotations.get(keys.DATA)
    if written is None:
        return NO_DATA
    field = _field(keys.DATA)
    if len(written) > MAXIMUM_LENGTH:
        expected = f"at most {MAXIMUM_LENGTH} characters"
        raise InputError("too long", field=field, value=written[:80], expected=expected)
    names = [one.strip() for one in written.split(",") if one.strip()]
    if not 1 <= len(names) <= MAXIMUM_ASKS:
        problem = f"{len(names)} names"
        raise InputError(problem, field=field, value=written[:80], expected=f"1 to {MAXIMUM_ASKS} names")
    asks = dict.fromkeys(read_ask(one, field) for one in names)
    policy, wait_us = _policy(annotations)
    return DataNeeds(_with_size(tuple(asks), annotations), policy, wait_us)


def read_ask(written: str, field: str) -> DataAsk:
    """One name of data, with its revision. Raises InputError."""
    name, at, revision = written.partition("@")
    kind, _, rest = name.partition("/")
    if kind not in DATA_KINDS or not rest or (at and not revision):
        raise InputError("not a name of data", field=field, value=written, expected=EXPECTED)
    return DataAsk(name, revision)


def _with_size(asks: tuple[DataAsk, ...], annotations: Mapping[str, str]) -> tuple[DataAsk, ...]:
    written = annotations.get(keys.DATA_SIZE)
    if written is None:
        return asks
    field = _field(keys.DATA_SIZE)
    if len(asks) > 1:
        problem = f"one size for {len(asks)} names"
        raise InputError(problem, field=field, value=written, expected="one name, or no size")
    size = parse_quantity(written, field=field).value()
    if not 0 < size <= SIZE_MAX:
        raise InputError("no size of data", field=field, value=written, expected="more than 0, at most 1Pi")
    return (DataAsk(asks[0].name, asks[0].revision, size),)


def _policy(annotations: Mapping[str, str]) -> tuple[DataPolicy, int | None]:
    """The policy, and how long to wait where it says so."""
    written = annotations.get(keys.DATA_POLICY, DataPolicy.PREFER.value)
    name, _, length = written.partition("=")
    if name == DataPolicy.WAIT_UP_TO.value:
        return DataPolicy.WAIT_UP_TO, read_duration(length, _field(keys.DATA_POLICY))
    if written not in (DataPolicy.PREFER.value, DataPolicy.REQUIRE.value):
        expected = "Prefer, Require or WaitUpTo=10m"
        raise InputError("not known", field=_field(keys.DATA_POLICY), value=written, expected=expected)
    return DataPolicy(written), None


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"
