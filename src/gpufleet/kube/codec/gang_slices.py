"""The slices in which a gang comes, in the words of Kueue's and KAI's annotations.

One kind of slice is a level and a size. Kueue's ``podset-slice-required-topology-constraints`` has up to
three, from the wider level to the narrower, as JSON: ``[{"topology": "rack", "size": 16}, ...]``. KAI calls
slices segments and lets them be preferred. ``topology_terms`` puts them with the rest.
"""

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.counts import read_count
from gpufleet.model.gang import Slices
from gpufleet.model.identifiers import TopologyLevelName
from gpufleet.model.label_syntax import check_label_key
from gpufleet.model.model_errors import InputError

LAYERS_MAX = 3
"""A pod names at most so many levels of slices: Kueue takes no more."""

# Annotations that divide a gang into slices: at which level of the topology, and of how many members.
LEVEL_KEYS = (keys.KUEUE_TOPOLOGY_SLICE, keys.KAI_TOPOLOGY_SEGMENT, keys.KAI_TOPOLOGY_SEGMENT_PREFERRED)
SIZE_KEYS = (keys.KUEUE_TOPOLOGY_SLICE_SIZE, keys.KAI_TOPOLOGY_SEGMENT_SIZE)


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One level of slices, as an entry of Kueue's JSON list."""

    topology: str
    size: int | str


def read_slices(annotations: dict[str, str]) -> tuple[tuple[Slices, ...], bool]:
    """The slices, and whether they are only preferred; () if there are none. Raises InputError."""
    found = [key for key in (*LEVEL_KEYS, *SIZE_KEYS) if key in annotations]
    layers = annotations.get(keys.KUEUE_TOPOLOGY_SLICES)
    if layers is not None:
        if found:
            raise InputError(
                "slices are described twice",
                field=field_of(keys.KUEUE_TOPOLOGY_SLICES),
                expected=f"this or {found[0]}, not both",
            )
        return _layers(layers, field_of(keys.KUEUE_TOPOLOGY_SLICES)), False
    return _one_layer(annotations, found) if found else ((), False)


def _one_layer(annotations: dict[str, str], found: list[str]) -> tuple[tuple[Slices, ...], bool]:
    levels = {key: read_level(annotations[key], field_of(key)) for key in LEVEL_KEYS if key in annotations}
    sizes = {key: read_count(annotations[key], field_of(key)) for key in SIZE_KEYS if key in annotations}
    for what, known in (("level", levels), ("size", sizes)):
        if not known:
            raise InputError(
                "a slice needs a level and a size", field=field_of(found[0]), expected=f"a {what}"
            )
        if len(set(known.values())) > 1:
            *_, last = known
            raise InputError(f"two {what}s of slices", field=field_of(last), value=annotations[last])
    slices = Slices(next(iter(levels.values())), next(iter(sizes.values())))
    return (slices,), list(levels) == [keys.KAI_TOPOLOGY_SEGMENT_PREFERRED]


def _layers(text: str, field: str) -> tuple[Slices, ...]:
    try:
        layers = msgspec.json.decode(text, type=list[Layer])
    except msgspec.MsgspecError as problem:
        raise InputError(
            f"no list of layers: {problem}", field=field, expected='[{"topology": LEVEL, "size": PODS}, ...]'
        ) from None
    if not 1 <= len(layers) <= LAYERS_MAX:
        raise InputError(
            "not a number of layers", field=field, value=len(layers), expected=f"1 to {LAYERS_MAX}"
        )
    found: list[Slices] = []
    for number, layer in enumerate(layers):
        where = f"{field}[{number}]"
        size = read_count(str(layer.size), f"{where}.size")
        if found and found[-1].size % size:
            raise InputError(
                "layers do not divide one another",
                field=f"{where}.size",
                value=size,
                expected=f"a divisor of {found[-1].size}, the size before",
            )
        found.append(Slices(read_level(layer.topology, f"{where}.topology"), size))
    return tuple(found)


def read_level(text: str, field: str) -> TopologyLevelName:
    """The level that a node label names. Raises InputError for what is no label."""
    check_label_key(text, field)
    return TopologyLevelName(text)


def field_of(key: str) -> str:
    """Where an annotation stands in a pod."""
    return f"metadata.annotations[{key}]"
