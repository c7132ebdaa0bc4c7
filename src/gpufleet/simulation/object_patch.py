"""Patches of objects: JSON merge (RFC 7386), and strategic merge for the lists that we meet.

Strategic merge joins lists of objects by a key that the Go types name (``patchMergeKey``); a list that is not
in the table is replaced as a whole. Server-side apply is taken as a strategic merge by one owner: conflicts
between owners are not simulated.
"""

from typing import Any

from gpufleet.simulation.refusal import JsonObject

MERGE_KEYS = {
    "metadata.ownerReferences": "uid",
    "spec.containers": "name",
    "spec.initContainers": "name",
    "spec.ephemeralContainers": "name",
    "spec.volumes": "name",
    "spec.imagePullSecrets": "name",
    "spec.schedulingGates": "name",
    "spec.resourceClaims": "name",
    "spec.topologySpreadConstraints": "topologyKey",
    "spec.containers.env": "name",
    "spec.containers.ports": "containerPort",
    "spec.containers.volumeMounts": "mountPath",
    "spec.initContainers.env": "name",
    "status.conditions": "type",
    "status.addresses": "type",
    "status.podIPs": "ip",
    "status.hostIPs": "ip",
    "status.resourceClaimStatuses": "name",
}
SETS = {"metadata.finalizers"}


def merge(before: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic_merge(before: JsonObject, patch: JsonObject, path: str = "") -> JsonObject:
    """Objects merge, lists with a merge key merge by it; ``$patch`` replaces or deletes."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(before)
    for key, value in patch.items():
        # They order elements and clear alternatives of a union, of which no patch of ours depends.
        if key.startswith(("$setElementOrder/", "$retainKeys")):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or [] if item not in value]
            continue
        here = f"{path}.{key}" if path else key
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            old = merged.get(key)
            if value.get("$patch") == "delete":
                merged.pop(key, None)
            else:
                merged[key] = strategic_merge(old if isinstance(old, dict) else {}, value, here)
        elif isinstance(value, list):
            merged[key] = _merge_list(merged.get(key) or [], value, here)
        else:
            merged[key] = value
    return merged


def _merge_list(before: list[Any], patch: list[Any], path: str) -> list[Any]:
    if path in SETS:
        return before + [item for item in patch if item not in before]
    merge_key = MERGE_KEYS.get(path)
    if merge_key is None:
        return patch
    merged = {item.get(merge_key): item for item in before}
    added: dict[Any, Any] = {}
    for item in patch:
        key = item.get(merge_key)
        if item.get("$patch") == "delete":
            merged.pop(key, None)
        elif item.get("$patch") == "replace":
            merged = {}
        elif key in merged:
            merged[key] = strategic_merge(merged[key], item, path)
        else:
            added[key] = strategic_merge({}, item, path)
    # New items stand first, as the server orders them.
    return [*added.values(), *merged.values()]
