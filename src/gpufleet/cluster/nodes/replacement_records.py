"""The places that are kept for moved pods, as a condition of the node on which they are: the next leader and
``explain`` read them there.

The pod that left is gone by the time at which the next leader reads, so its description is written down with
its place, as JSON like that of an event log. Only the node and the scheduler may write the condition, and a
node that lies keeps nothing but its own room. What stands there is checked by the engine all the same
(``engine.defragment.replacements``).
"""

from collections.abc import Iterable

import msgspec

from gpufleet.engine.instruction import ReplacementPlace
from gpufleet.kube.codec.lasting_conditions import Said
from gpufleet.kube.objects.node import PLACES_KEPT, Node
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.visible import visible_text

VERSION = 1
"""Of this form; a reader passes over what has another."""

BYTES_MAX = 64 * 1024
"""Of a message: some hundred pods, and little beside the 1.5 MiB that the API server stores of an object."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the message."""

    v: int
    places: tuple[ReplacementPlace, ...]


def written(places: Iterable[ReplacementPlace]) -> Said:
    """The condition of a node, with as many of the places as there is room for, the first ones first."""
    kept, size = list[ReplacementPlace](), len(_encoded(()))
    for one in places:
        text = visible_text(_encoded((one,)))
        # A strange name is not read back as it was, once it is made visible.
        if size + len(text) <= BYTES_MAX and _decoded(text) == (one,):
            kept.append(one)
            size += len(text)
    if not kept:
        return Said("False", "NoPlacesKept", "no place is kept for a pod that is moved")
    return Said("True", "PlacesKept", _encoded(tuple(kept)))


def read(node: Node) -> tuple[ReplacementPlace, ...]:
    """What a node's condition says; nothing where there is none, or of what is not of its form."""
    said = next((one for one in node.status.conditions if one.type == PLACES_KEPT), None)
    if said is None or said.status != "True":
        return ()
    name = NodeName(node.metadata.name)
    return tuple(one for one in _decoded(said.message) if one.node == name)


def victims_of(said: Said) -> frozenset[PodUid]:
    """The pods that leave for a place that such a condition names."""
    return frozenset(one.victim for one in _decoded(said.message)) if said.status == "True" else frozenset()


def _encoded(places: tuple[ReplacementPlace, ...]) -> str:
    return msgspec.json.encode(Record(VERSION, places)).decode()


def _decoded(message: str) -> tuple[ReplacementPlace, ...]:
    # Before it is decoded: a node may write as much as the API server takes.
    if len(message) > BYTES_MAX:
        return ()
    try:
        found = msgspec.json.decode(message, type=Record)
    # A node may write anything, also what is nested too deep to be read.
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()
    return found.places if found.v == VERSION else ()
