"""Where the pods of a gang shall be, in the words of Kueue's and KAI's annotations on its pods.

A group's object may say it too (``pod_groups``); then pods may repeat it, but not contradict. A pod that
stands alone is in one domain whatever it asks for. ``gangs`` calls this for each member.
"""

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.counts import read_count
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.gang_terms import GangTerms
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.errors import InputError
from gpufleet.model.identifiers import TopologyLevelName
from gpufleet.model.label_syntax import check_label_key

LEVELS = (
    ("required_level", (keys.KUEUE_TOPOLOGY_REQUIRED, keys.KAI_TOPOLOGY_REQUIRED)),
    ("preferred_level", (keys.KUEUE_TOPOLOGY_PREFERRED, keys.KAI_TOPOLOGY_PREFERRED)),
    ("slice_level", (keys.KUEUE_TOPOLOGY_SLICE, keys.KAI_TOPOLOGY_SEGMENT)),
)
SLICE_SIZES = (keys.KUEUE_TOPOLOGY_SLICE_SIZE, keys.KAI_TOPOLOGY_SEGMENT_SIZE)
UNSERVED = {
    keys.KUEUE_TOPOLOGY_SLICES: "one kind of slice, by podset-slice-required-topology",
    keys.KAI_TOPOLOGY_SEGMENT_PREFERRED: "segment-topology-required-placement",
}
"""Wishes that cannot be kept, and what to write instead."""


def with_topology(pod: Pod, terms: GangTerms) -> GangTerms:
    """The terms with what the pod's annotations add. Raises InputError for what cannot be."""
    annotations = pod.metadata.annotations
    if not any(key in annotations for key in keys.TOPOLOGY_KEYS):
        return terms
    for key, instead in UNSERVED.items():
        if key in annotations:
            raise InputError("cannot be kept", field=_field(key), value=annotations[key], expected=instead)
    levels: dict[str, TopologyLevelName] = {}
    for name, names in LEVELS:
        for key in names:
            if key in annotations:
                level = _level(annotations[key], key)
                _agree(levels.get(name) or getattr(terms, name), level, key)
                levels[name] = level
    found: dict[str, TopologyLevelName | int | bool] = {**levels}
    for key in SLICE_SIZES:
        if key in annotations:
            found["slice_size"] = read_count(annotations[key], _field(key))
    if ("slice_size" in found) != ("slice_level" in found):
        missing = "slice_level" if "slice_size" in found else "slice_size"
        raise InputError(
            "a slice needs a level and a size", field=_field(_slice_key(annotations)), expected=missing
        )
    if keys.TOPOLOGY_BALANCED in annotations:
        found["balanced"] = _flag(annotations[keys.TOPOLOGY_BALANCED], keys.TOPOLOGY_BALANCED)
    return msgspec.structs.replace(terms, **found)


def _level(text: str, key: str) -> TopologyLevelName:
    check_label_key(text, _field(key))
    return TopologyLevelName(text)


def _agree(known: TopologyLevelName | None, level: TopologyLevelName, key: str) -> None:
    if known is not None and known != level:
        raise InputError(
            "two levels", field=_field(key), value=level, expected=f"{harmless(known)}, as said elsewhere"
        )


def _flag(text: str, key: str) -> bool:
    if text not in {"true", "false"}:
        raise InputError("not a truth value", field=_field(key), value=text, expected="true or false")
    return text == "true"


def _slice_key(annotations: dict[str, str]) -> str:
    slices = (*SLICE_SIZES, *LEVELS[2][1])
    return next(key for key in slices if key in annotations)


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"
