"""What a server does to an object before it is stored: system fields, defaults, and what may not change."""

import re
from datetime import UTC, datetime
from random import Random
from uuid import UUID

import msgspec

from gpufleet.simulation import pod_rules
from gpufleet.simulation.object_kinds import ObjectKind
from gpufleet.simulation.refusal import (
    Cause,
    JsonObject,
    bad_request,
    conflict,
    invalid,
    precondition_failed,
)
from gpufleet.simulation.request_target import Target

NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
NAME_LENGTH = 253
"""The API server's limit, from DNS."""

ANNOTATIONS_BYTES = 256 * 1024
"""The API server's limit for all annotations of an object together."""

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
GENERATED_BASE_LENGTH = 63 - 5
"""The server cuts the prefix so that it and five random letters have at most 63 characters."""

CHANGED = "the object has been modified; please apply your changes to the latest version and try again"
WITHOUT_GENERATION = {
    "nodes",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "services",
    "volumeattachments",
    "resourceclaims",
}
PROTECTED = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}
SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def timestamp(at: datetime) -> str:
    """A time as objects carry it: whole seconds of UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_body(body: bytes, kind: ObjectKind, target: Target) -> JsonObject:
    """The object of a request, its type checked against the URL."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error
    if not isinstance(value, dict):
        raise bad_request("the object provided is unrecognized: it is no JSON object")
    group_version = f"{target.group}/{target.version}" if target.group else target.version
    said = value.setdefault("apiVersion", group_version)
    if said != group_version:
        raise bad_request(
            f"the API version in the data ({said}) does not match the expected API version ({group_version})"
        )
    if value.setdefault("kind", kind.kind) != kind.kind:
        raise bad_request(f'{value["kind"]} in version "{target.version}" cannot be handled as a {kind.kind}')
    metadata = value.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("json: cannot unmarshal metadata into an object's metadata")
    return value


def settle_name(value: JsonObject, kind: ObjectKind, target: Target, random: Random) -> str:
    """The name of a new object: given, or generated from its prefix."""
    metadata = value["metadata"]
    said = metadata.get("namespace") or target.namespace
    if kind.namespaced and said != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if kind.namespaced:
        metadata["namespace"] = target.namespace
    else:
        metadata.pop("namespace", None)
    name: str = metadata.get("name") or ""
    prefix: str = metadata.get("generateName") or ""
    if not name and prefix:
        name = prefix[:GENERATED_BASE_LENGTH] + "".join(random.choices(SUFFIX_LETTERS, k=5))
    if not name:
        cause = Cause(
            "FieldValueRequired", "metadata.name", "Required value: name or generateName is required"
        )
        raise invalid(kind.group, kind.kind, "", cause)
    metadata["name"] = name
    check_metadata(value, kind)
    return name


def check_metadata(value: JsonObject, kind: ObjectKind) -> None:
    """Name and annotations within what the server takes."""
    metadata = value["metadata"]
    name = metadata["name"]
    if len(name) > NAME_LENGTH or not NAME.match(name):
        words = f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case letters'
        raise invalid(kind.group, kind.kind, name, Cause("FieldValueInvalid", "metadata.name", words))
    for field in ("annotations", "labels"):
        found = metadata.get(field) or {}
        if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
            raise bad_request(f"json: cannot unmarshal into field ObjectMeta.metadata.{field} of type string")
    size = sum(len(key) + len(text) for key, text in (metadata.get("annotations") or {}).items())
    if size > ANNOTATIONS_BYTES:
        words = f"Too long: may not be more than {ANNOTATIONS_BYTES} bytes"
        raise invalid(kind.group, kind.kind, name, Cause("FieldValueTooLong", "metadata.annotations", words))


def prepare_new(value: JsonObject, kind: ObjectKind, random: Random, now: datetime) -> JsonObject:
    """System fields and defaults of a new object."""
    metadata = value["metadata"]
    for field in (*SYSTEM_FIELDS, "resourceVersion", "managedFields", "selfLink"):
        metadata.pop(field, None)
    metadata["uid"] = str(UUID(int=random.getrandbits(128), version=4))
    metadata["creationTimestamp"] = timestamp(now)
    if kind.status and kind.plural not in WITHOUT_GENERATION:
        metadata["generation"] = 1
    if kind.plural in PROTECTED:
        metadata["finalizers"] = [*(metadata.get("finalizers") or []), PROTECTED[kind.plural]]
    # What a client says of a status at creation is dropped, but for the kinds that have always kept it.
    if kind.status and not kind.keeps_status:
        value.pop("status", None)
    if kind.initial_phase:
        value["status"] = {"phase": kind.initial_phase}
    if kind.key == ("", "pods"):
        pod_rules.prepare_new(value, now)
    return value


def prepare_changed(
    new: JsonObject, old: JsonObject, kind: ObjectKind, subresource: str, *, patched: bool
) -> JsonObject:
    """The object as it would be stored in place of the old one. Raises Refusal."""
    metadata, before = dict(new["metadata"]), old["metadata"]
    new = {**new, "metadata": metadata}
    _check_versions(metadata, before, kind, patched=patched)
    # Only the server sets these, whatever a client sends.
    for field in SYSTEM_FIELDS:
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    # As before, so that a write that changes nothing equals what is stored; a real change gets its own.
    metadata["resourceVersion"] = before["resourceVersion"]
    if kind.status and subresource == "status":
        kept = {**old, "metadata": before if kind.custom else {**metadata, **_owners(before)}}
        new = {**kept, "status": new.get("status", {})}
    elif kind.status:
        new = {**new, "status": old["status"]} if "status" in old else _without(new, "status")
        # The generation counts changes of what is wanted, not of what is so.
        if new.get("spec") != old.get("spec") and "generation" in metadata:
            metadata["generation"] += 1
    if kind.key == ("", "pods") and subresource != "status":
        pod_rules.check_changed(new, old)
    check_metadata(new, kind)
    _check_finalizers(new, old, kind)
    return new


def _without(value: JsonObject, field: str) -> JsonObject:
    return {key: found for key, found in value.items() if key != field}


def _owners(metadata: JsonObject) -> JsonObject:
    return {"ownerReferences": metadata["ownerReferences"]} if "ownerReferences" in metadata else {}


def _check_versions(metadata: JsonObject, before: JsonObject, kind: ObjectKind, *, patched: bool) -> None:
    name, group, plural = before["name"], kind.group, kind.plural
    uid = metadata.get("uid") or before["uid"]
    if uid != before["uid"]:
        if patched:
            words = f'Invalid value: "{uid}": field is immutable'
            raise invalid(group, kind.kind, name, Cause("FieldValueInvalid", "metadata.uid", words))
        raise conflict(
            group, plural, name, precondition_failed(kind.plural, before, "UID", uid, before["uid"])
        )
    version = metadata.get("resourceVersion") or ""
    if version and version != before["resourceVersion"]:
        raise conflict(group, plural, name, CHANGED)
    if not version and not kind.unconditional:
        words = "Invalid value: 0: must be specified for an update"
        # The real server too puts the resource here where a kind is due.
        cause = Cause("FieldValueInvalid", "metadata.resourceVersion", words)
        raise invalid(group, plural, name, cause)


def _check_finalizers(new: JsonObject, old: JsonObject, kind: ObjectKind) -> None:
    if "deletionTimestamp" not in old["metadata"]:
        return
    had = set(old["metadata"].get("finalizers") or [])
    added = sorted(set(new["metadata"].get("finalizers") or []) - had)
    if added:
        words = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in added)}}}"
        )
        cause = Cause("FieldValueForbidden", "metadata.finalizers", words)
        raise invalid(kind.group, kind.kind, old["metadata"]["name"], cause)


def ends_with_this_change(new: JsonObject) -> bool:
    """Whether the last finalizer of an object that is being deleted is gone, so that it vanishes."""
    metadata = new["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def check_url_name(value: JsonObject, target: Target) -> None:
    """The object of a PUT or PATCH is the one of its URL."""
    name = value["metadata"].get("name") or ""
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    namespace = value["metadata"].get("namespace") or target.namespace
    if target.namespace and namespace != target.namespace:
        raise bad_request(
            f"the namespace of the object ({namespace}) does not match the namespace on the request "
            f"({target.namespace})"
        )
