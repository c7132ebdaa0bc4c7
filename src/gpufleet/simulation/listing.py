"""Reads: one object, pages of many, and what is served at all."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Container
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gpufleet.kube.transport import Response
from gpufleet.simulation.object_kinds import ObjectKind
from gpufleet.simulation.object_selectors import Predicate, field_predicate, label_predicate
from gpufleet.simulation.object_store import KindKey, Name, ObjectStore
from gpufleet.simulation.refusal import (
    Cause,
    JsonObject,
    NoSuchPath,
    bad_request,
    expired,
    invalid,
    not_found,
    too_large_revision,
)
from gpufleet.simulation.request_target import Target

TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
LATEST = -1
"""The version in a token that goes on after a compaction, as Kubernetes writes it: the newest there is."""

VERSION = "v1.37.0"
ENDING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
"""What may still be done with a kind while its definition is being deleted."""


class ContinueToken(msgspec.Struct, frozen=True):
    """Where the next page begins: after this key, at this revision (-1: whatever is latest)."""

    v: str
    rv: int
    start: str


def predicate_of(kind: ObjectKind, target: Target) -> Predicate | None:
    """The two selectors as one test, None where there are none. Raises Refusal (400)."""
    tests = [
        test
        for test in (
            field_predicate(kind.plural, target.options.get("fieldSelector", "")),
            label_predicate(target.options.get("labelSelector", "")),
        )
        if test is not None
    ]
    if not tests:
        return None
    return lambda value: all(test(value) for test in tests)


def get(store: ObjectStore, kind: ObjectKind, target: Target, seen: int) -> JsonObject:
    """One object. ``resourceVersion=0`` takes what this server happens to know. Raises Refusal."""
    name = (target.namespace, target.name)
    value = store.one_at_revision(kind.key, name, _read_revision(store, target, seen))
    if value is None:
        raise not_found(kind.group, kind.plural, target.name)
    return value


def _read_revision(store: ObjectStore, target: Target, seen: int) -> int:
    """At which revision a read without a continue token is answered."""
    asked = target.number("resourceVersion")
    if asked is None:
        return store.revision
    if asked > store.revision:
        raise too_large_revision(asked, store.revision)
    # What a client asks for at least, a lagging server waits for.
    return max(seen, asked)


def list_objects(store: ObjectStore, kind: ObjectKind, target: Target, seen: int) -> bytes:
    """A page of objects. Raises Refusal: 400, 410 on a token of a compacted revision, 422, 504."""
    predicate = predicate_of(kind, target)
    limit = target.number("limit") or 0
    start, revision = _page_start(store, target, seen)
    found = (
        (name, value)
        for name, value in store.at_revision(kind.key, revision)
        if (not target.namespace or name[0] == target.namespace)
        and _token_key(name, target) >= start
        and (predicate is None or predicate(value))
    )
    page = list(islice(found, limit)) if limit else list(found)
    rest = list(found)
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if rest:
        # The first key after the page's last one.
        token = ContinueToken("meta.k8s.io/v1", revision, _token_key(page[-1][0], target) + "\0")
        metadata["continue"] = _encode_token(token)
        # As the API server, which does not count the rest where a selector chooses.
        if predicate is None:
            metadata["remainingItemCount"] = len(rest)
    group_version = f"{target.group}/{target.version}" if target.group else target.version
    value = {
        "kind": f"{kind.kind}List",
        "apiVersion": group_version,
        "metadata": metadata,
        "items": [_item(value, kind, group_version) for _, value in page],
    }
    return msgspec.json.encode(value)


def _item(value: JsonObject, kind: ObjectKind, group_version: str) -> JsonObject:
    """Items of built-in kinds do not repeat their type."""
    if kind.custom:
        return {**value, "apiVersion": group_version}
    return {field: found for field, found in value.items() if field not in {"kind", "apiVersion"}}


def _token_key(name: Name, target: Target) -> str:
    return name[1] if target.namespace or not name[0] else f"{name[0]}/{name[1]}"


def _page_start(store: ObjectStore, target: Target, seen: int) -> tuple[str, int]:
    text = target.options.get("continue", "")
    match = target.options.get("resourceVersionMatch", "")
    if text:
        if target.options.get("resourceVersion", "") not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        return _continued(store, _decode_token(text))
    if match and not target.options.get("resourceVersion"):
        words = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        cause = Cause("FieldValueForbidden", "resourceVersionMatch", words)
        raise invalid("meta.k8s.io", "ListOptions", "", cause)
    asked = target.number("resourceVersion")
    # With a limit and no match a version means exactly that one, as Kubernetes has had it since it has pages.
    exact = match == "Exact" or (match == "" and asked not in {None, 0} and target.number("limit"))
    if exact and asked is not None:
        if asked < store.compacted:
            raise expired(TOO_OLD)
        if asked > store.revision:
            raise too_large_revision(asked, store.revision)
        return "", asked
    return "", _read_revision(store, target, seen)


def _continued(store: ObjectStore, token: ContinueToken) -> tuple[str, int]:
    if token.rv == LATEST:
        return token.start, store.revision
    # The answer carries a token for a list that goes on at the newest version, for clients that can do with
    # it.
    if token.rv < store.compacted:
        raise expired(CONTINUE_TOO_OLD, _encode_token(ContinueToken(token.v, LATEST, token.start)))
    return token.start, token.rv


def _encode_token(token: ContinueToken) -> str:
    return urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _decode_token(text: str) -> ContinueToken:
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=ContinueToken)
    except (Base64Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error


def discover(
    kinds: dict[tuple[str, str, str], ObjectKind], ending: Container[KindKey], target: str
) -> Response:
    """Health, version and the lists of what is served. Raises Refusal (404)."""
    path = urlsplit(target).path.strip("/")
    if path in {"healthz", "livez", "readyz"}:
        return Response(200, {"content-type": "text/plain; charset=utf-8"}, b"ok")
    return Response(
        200, {"content-type": "application/json"}, msgspec.json.encode(_discovered(kinds, ending, path))
    )


def _discovered(kinds: dict[tuple[str, str, str], ObjectKind], ending: Container[KindKey], path: str) -> Any:
    if path == "version":
        return {"major": "1", "minor": "37", "gitVersion": VERSION}
    groups: dict[str, list[str]] = {}
    for group, version, _ in kinds:
        if group and version not in groups.setdefault(group, []):
            groups[group].append(version)
    parts = path.split("/")
    if path == "apis":
        listed = [_group(*one) for one in groups.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], groups[parts[1]])}
    wanted = ("", parts[1]) if parts[0] == "api" and len(parts) == 2 else tuple(parts[1:])
    found = [kind for where, kind in kinds.items() if where[:2] == wanted and parts[0] in {"api", "apis"}]
    if not found:
        raise NoSuchPath
    resources = [
        {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced, "verbs": _verbs(kind, ending)}
        for kind in found
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "/".join(filter(None, wanted)),
        "resources": resources,
    }


def _verbs(kind: ObjectKind, ending: Container[KindKey]) -> tuple[str, ...]:
    return ENDING_VERBS if kind.key in ending else (*ENDING_VERBS, "patch", "create", "update")


def _group(name: str, versions: list[str]) -> JsonObject:
    spoken = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": spoken, "preferredVersion": spoken[0]}
