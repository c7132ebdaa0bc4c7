"""The four systems by the names that people type, and which kinds each is read from."""

from collections.abc import Callable, Iterable

import msgspec

from gpufleet.migration import elastic_quota, kai, kueue, volcano
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.queues import Draft
from gpufleet.migration.sources import Source


class System(msgspec.Struct, frozen=True):
    """One system. ``needs_nodes``: what the fleet has is a part of its quota. ``needs_namespaces``: they say
    which work may use a queue.
    """

    title: str
    groups: tuple[str, ...]
    kinds: tuple[str, ...]
    convert: Callable[[Iterable[Source], FieldNotes], tuple[Draft, ...]]
    needs_nodes: bool = False
    needs_namespaces: bool = False


SYSTEMS = {
    "kueue": System("Kueue", (kueue.GROUP,), kueue.KINDS, kueue.convert, needs_namespaces=True),
    "kai": System("KAI", (kai.GROUP,), kai.KINDS, kai.convert, needs_nodes=True, needs_namespaces=True),
    "volcano": System(
        "Volcano", (volcano.GROUP,), volcano.KINDS, volcano.convert, needs_nodes=True, needs_namespaces=True
    ),
    "elasticquota": System(
        "scheduler-plugins",
        (elastic_quota.GROUP, elastic_quota.OLD_GROUP),
        elastic_quota.KINDS,
        elastic_quota.convert,
    ),
}
