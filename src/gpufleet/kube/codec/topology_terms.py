"""Where the pods of a gang shall be, in the words of Kueue's and KAI's annotations on its pods.

A group's object may say it too (``pod_groups``); then pods may repeat it, but not contradict. A pod that
stands alone is in one domain whatever it asks for. ``gangs`` calls this for each member.
"""

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.gang_slices import field_of, read_level, read_slices
from gpufleet.kube.codec.gang_terms import GangTerms
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import TopologyLevelName
from gpufleet.model.model_errors import InputError

# Annotations that ask for a level of the topology, as a demand or as a preference.
LEVELS = (
    ("required_level", (keys.KUEUE_TOPOLOGY_REQUIRED, keys.KAI_TOPOLOGY_REQUIRED)),
    ("preferred_level", (keys.KUEUE_TOPOLOGY_PREFERRED, keys.KAI_TOPOLOGY_PREFERRED)),
)


def with_topology(pod: Pod, terms: GangTerms) -> GangTerms:
    """The terms with what the pod's annotations add. Raises InputError for what cannot be."""
    annotations = pod.metadata.annotations
    if not any(key in annotations for key in keys.TOPOLOGY_KEYS):
        return terms
    levels: dict[str, TopologyLevelName] = {}
    for name, names in LEVELS:
        for key in names:
            if key in annotations:
                level = read_level(annotations[key], field_of(key))
                _agree(levels.get(name) or getattr(terms, name), level, key)
                levels[name] = level
    slices, is_preferred = read_slices(annotations)
    if slices:
        terms = msgspec.structs.replace(terms, slices=slices, slices_preferred=is_preferred)
    if keys.TOPOLOGY_BALANCED in annotations:
        balanced = _flag(annotations[keys.TOPOLOGY_BALANCED], keys.TOPOLOGY_BALANCED)
        terms = msgspec.structs.replace(terms, balanced=balanced)
    return msgspec.structs.replace(terms, **levels)


def _agree(known: TopologyLevelName | None, level: TopologyLevelName, key: str) -> None:
    if known is not None and known != level:
        raise InputError(
            "two levels", field=field_of(key), value=level, expected=f"{harmless(known)}, as said elsewhere"
        )


def _flag(text: str, key: str) -> bool:
    if text not in {"true", "false"}:
        raise InputError("not a truth value", field=field_of(key), value=text, expected="true or false")
    return text == "true"
