"""An API server in memory: requests in, answers out, as a kube-apiserver gives them.

It answers at once and keeps no time of its own; ``network`` adds the way there, ``watching`` the
streams. What it refuses, and in which words, is held against a real server by the same test cases.
Not simulated: rights (RBAC), conflicts of server-side apply, JSON patches, conversions between versions.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Request, Response
from gpufleet.simulation import deletion, eviction, listing, object_patch, object_rules, pod_rules
from gpufleet.simulation.admission_policies import Policies
from gpufleet.simulation.object_kinds import BUILT_IN, CUSTOM, ObjectKind
from gpufleet.simulation.object_store import KindKey, Name, ObjectStore
from gpufleet.simulation.refusal import (
    Cause,
    JsonObject,
    NoSuchPath,
    Refusal,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    method_not_allowed,
    not_found,
    unknown_path,
    unsupported_media_type,
)
from gpufleet.simulation.request_target import Target, read_target

JSON_HEADERS = {"content-type": "application/json"}
FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCHES = {"application/apply-patch+yaml", "application/apply-patch+json"}
PODS: KindKey = ("", "pods")


class Answered(msgspec.Struct, frozen=True):
    """One request as the server saw it, for the judge."""

    at_s: float
    user: str
    method: str
    target: str
    code: int
    body: bytes


class ApiServer:
    """One API server and what it stores."""

    def __init__(self, clock: Clock, random: Random, policies: Policies | None = None) -> None:
        self.clock = clock
        self.random = random
        self.policies = Policies() if policies is None else policies
        self.store = ObjectStore()
        self.answered: list[Answered] = []
        self.kinds: dict[tuple[str, str, str], ObjectKind] = {}
        # Each watch asks at each write whether its kind is still served.
        self._served: set[KindKey] = set()
        self.ending: set[KindKey] = set()
        for kind in (*BUILT_IN, *CUSTOM):
            self.serve(kind)
        for name in FIRST_NAMESPACES:
            self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def serve(self, kind: ObjectKind) -> None:
        """Serve one kind more, as a CustomResourceDefinition makes a server do."""
        for version in kind.versions:
            self.kinds[kind.group, version, kind.plural] = kind
        self._served.add(kind.key)

    def withdraw(self, group: str, plural: str) -> None:
        """Serve a kind no more: its URL answers 404, and its watches end."""
        self.kinds = {where: kind for where, kind in self.kinds.items() if kind.key != (group, plural)}
        self.ending.discard((group, plural))
        self._served.discard((group, plural))
        self.store.wake()

    def end(self, kind: ObjectKind, user: str = "system:apiserver") -> None:
        """End a kind as by deleting its CustomResourceDefinition: no object is taken, and all go."""
        self.ending.add(kind.key)
        for name in sorted(self.store.all(kind.key)):
            self.store.put(kind.key, name, None, at_s=self.clock.monotonic_s(), user=user)

    def serves(self, kind: ObjectKind) -> bool:
        """Whether a kind is served."""
        return kind.key in self._served

    def add(self, value: JsonObject, user: str = "system:masters") -> JsonObject:
        """Create an object that the test or scenario asks for. Raises Refusal."""
        group, _, version = value["apiVersion"].rpartition("/")
        kind = next(
            kind
            for (found, spoken, _), kind in self.kinds.items()
            if (found, spoken) == (group, version) and kind.kind == value["kind"]
        )
        namespace = value["metadata"].get("namespace", "default") if kind.namespaced else ""
        target = Target(group, version, kind.plural, namespace)
        return self._create(kind, target, msgspec.json.encode(value), user)

    def answer(self, request: Request, user: str, seen: int | None = None) -> Response:
        """The whole answer to anything but a watch. ``seen``: the last revision this server knows of."""
        try:
            response = self._answer(request, user, self.store.revision if seen is None else seen)
        except (Refusal, NoSuchPath) as refusal:
            response = refused(refusal)
        self.note(request, user, response.status)
        return response

    def note(self, request: Request, user: str, code: int) -> None:
        """Keep a request for the judge."""
        at_s = self.clock.monotonic_s()
        self.answered.append(Answered(at_s, user, request.method, request.target, code, request.body))

    def kind_at(self, target: Target | None) -> ObjectKind:
        """The kind of a URL. Raises Refusal."""
        kind = self.kinds.get((target.group, target.version, target.plural)) if target is not None else None
        if kind is not None:
            return kind
        # A group or version that is not served is answered in plain text, a kind within a served one with a
        # Status.
        if target is None or not any(found[:2] == (target.group, target.version) for found in self.kinds):
            raise NoSuchPath
        raise unknown_path()

    def _answer(self, request: Request, user: str, seen: int) -> Response:
        target = read_target(request.target)
        if target is None:
            return listing.discover(self.kinds, self.ending, request.target)
        if target.plural == "bindings" and request.method == "POST":
            target = _bound_pod(target, request.body)
        kind = self.kind_at(target)
        verb: Callable[[], tuple[int, bytes]] | None = {
            "GET": lambda: self._read(kind, target, seen),
            "POST": lambda: (201, encode(self._post(kind, target, request.body, user))),
            "PUT": lambda: self._put(kind, target, request.body, user),
            "PATCH": lambda: self._patch(kind, target, request, user),
            "DELETE": lambda: (200, encode(self._delete(kind, target, request.body, user))),
        }.get(request.method)
        if verb is None:
            raise method_not_allowed("the server does not allow this method on the requested resource")
        code, body = verb()
        return Response(code, dict(JSON_HEADERS), body)

    def _read(self, kind: ObjectKind, target: Target, seen: int) -> tuple[int, bytes]:
        if target.name and target.subresource in {"", "status"}:
            value = listing.get(self.store, kind, target, seen)
            return 200, encode(as_version(value, target, kind))
        if target.name:
            raise unknown_path()
        return 200, listing.list_objects(self.store, kind, target, seen)

    def _post(self, kind: ObjectKind, target: Target, body: bytes, user: str) -> JsonObject:
        match target.subresource:
            case "" if not target.name:
                return self._create(kind, target, body, user)
            case "binding" if kind.key == PODS:
                return self._bind(target, _decode(body), user)
            case "eviction" if kind.key == PODS:
                return eviction.evict(self, target, _decode(body), user)
        raise method_not_allowed("the server does not allow this method on the requested resource")

    def _create(self, kind: ObjectKind, target: Target, body: bytes, user: str) -> JsonObject:
        if kind.key in self.ending:
            raise method_not_allowed("create not allowed while custom resource definition is terminating")
        value = object_rules.read_body(body, kind, target)
        name = object_rules.settle_name(value, kind, target, self.random)
        self._check_namespace(kind, target, name)
        value = object_rules.prepare_new(value, kind, self.random, self.clock.now())
        if kind.key == PODS:
            self._settle_priority(value)
            self.policies.check_pod(value, None, user)
        if self.store.get(kind.key, (target.namespace, name)) is not None:
            raise already_exists(kind.group, kind.plural, name)
        return self.write(kind, (target.namespace, name), value, user, dry_run=target.dry_run)

    def _check_namespace(self, kind: ObjectKind, target: Target, name: str) -> None:
        if not kind.namespaced:
            return
        namespace = self.store.get(("", "namespaces"), ("", target.namespace))
        if namespace is None:
            raise not_found("", "namespaces", target.namespace)
        if "deletionTimestamp" in namespace["metadata"]:
            words = (
                f"unable to create new content in namespace {target.namespace} because it is being terminated"
            )
            raise forbidden(kind.group, kind.plural, name, words)

    def _settle_priority(self, pod: JsonObject) -> None:
        """The number behind a pod's priority class, as the Priority admission plugin resolves it."""
        name = pod["spec"].get("priorityClassName")
        # Every cluster has these two without a PriorityClass that a run would have to make.
        if not name or name in {"system-node-critical", "system-cluster-critical"}:
            return
        found = self.store.get(("scheduling.k8s.io", "priorityclasses"), ("", name))
        if found is None:
            words = f"no PriorityClass with name {name} was found"
            raise forbidden("", "pods", pod["metadata"]["name"], words)
        pod["spec"]["priority"] = found["value"]

    def _put(self, kind: ObjectKind, target: Target, body: bytes, user: str) -> tuple[int, bytes]:
        _check_replaceable(kind, target)
        value = object_rules.read_body(body, kind, target)
        object_rules.check_url_name(value, target)
        old = self.store.get(kind.key, (target.namespace, target.name))
        if old is None and kind.put_creates:
            return 201, encode(self._create(kind, target, msgspec.json.encode(value), user))
        if old is None:
            raise not_found(kind.group, kind.plural, target.name)
        if kind.namespaced:
            value["metadata"].setdefault("namespace", target.namespace)
        changed = object_rules.prepare_changed(value, old, kind, target.subresource, patched=False)
        return 200, encode(as_version(self._replace(kind, target, changed, old, user), target, kind))

    def _patch(self, kind: ObjectKind, target: Target, request: Request, user: str) -> tuple[int, bytes]:
        _check_replaceable(kind, target)
        patch = _decode(request.body)
        old = self.store.get(kind.key, (target.namespace, target.name))
        if request.content_type in APPLY_PATCHES:
            if "fieldManager" not in target.options:
                cause = Cause(
                    "FieldValueRequired", "fieldManager", "Required value: is required for apply patch"
                )
                raise invalid("meta.k8s.io", "PatchOptions", "", cause)
            if old is None and not target.subresource:
                return 201, encode(self._create(kind, target, request.body, user))
        if old is None:
            raise not_found(kind.group, kind.plural, target.name)
        if request.content_type == MERGE_PATCH:
            value = object_patch.merge(old, patch)
        # Custom resources know no strategic merge.
        elif request.content_type in {STRATEGIC_PATCH, *APPLY_PATCHES} and not (
            kind.custom and request.content_type == STRATEGIC_PATCH
        ):
            value = object_patch.strategic_merge(old, patch)
        else:
            raise unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            )
        object_rules.check_url_name(value, target)
        changed = object_rules.prepare_changed(value, old, kind, target.subresource, patched=True)
        return 200, encode(as_version(self._replace(kind, target, changed, old, user), target, kind))

    def _replace(
        self, kind: ObjectKind, target: Target, new: JsonObject, old: JsonObject, user: str
    ) -> JsonObject:
        if kind.key == PODS:
            self.policies.check_pod(new, old, user)
        # A write that changes nothing is not stored: the object keeps its version, and no watch tells of it.
        if new == old:
            return old
        name = (target.namespace, target.name)
        # As soon as the last finalizer of an object is gone that is being deleted, the object is.
        if object_rules.ends_with_this_change(new):
            if not target.dry_run:
                self.store.put(kind.key, name, None, at_s=self.clock.monotonic_s(), user=user)
            return new
        return self.write(kind, name, new, user, dry_run=target.dry_run)

    def _bind(self, target: Target, binding: JsonObject, user: str) -> JsonObject:
        binding.setdefault("metadata", {}).setdefault("name", "")
        order = pod_rules.read_binding(binding, target.name)
        self.policies.check_binding(binding, user, self.store, self.clock.monotonic_s())
        name = (target.namespace, target.name)
        pod = self.store.get(PODS, name)
        if pod is None:
            raise not_found("", "pods", target.name)
        bound = pod_rules.bind(pod, order, self.clock.now())
        self.write(self.kinds["", "v1", "pods"], name, bound, user, dry_run=target.dry_run)
        return success(201)

    def _delete(self, kind: ObjectKind, target: Target, body: bytes, user: str) -> JsonObject:
        if not target.name or target.subresource:
            raise method_not_allowed("the server does not allow this method on the requested resource")
        options = deletion.read_options(body, target)
        return self.delete(kind, (target.namespace, target.name), options, user)

    def delete(self, kind: ObjectKind, name: Name, options: deletion.DeleteOptions, user: str) -> JsonObject:
        """Delete, or begin to. Raises Refusal."""
        old = self.store.get(kind.key, name)
        if old is None:
            raise not_found(kind.group, kind.plural, name[1])
        options.check(old, kind)
        gone = deletion.marked(old, kind, options, self.clock.now())
        if gone != old:
            # A write of its own, even where the object vanishes with the next.
            gone = self.write(kind, name, gone, user, dry_run=options.dry_run)
        if not deletion.is_over(gone):
            return gone
        if not options.dry_run:
            gone = self.store.put(kind.key, name, None, at_s=self.clock.monotonic_s(), user=user)
        return gone if kind.returns_deleted else success(200, old, kind)

    def write(
        self, kind: ObjectKind, name: Name, value: JsonObject, user: str, *, dry_run: bool = False
    ) -> JsonObject:
        """Store an object that passed all rules."""
        if dry_run:
            return value
        return self.store.put(kind.key, name, value, at_s=self.clock.monotonic_s(), user=user)


def _bound_pod(target: Target, body: bytes) -> Target:
    """The older URL of a Binding names no pod; the Binding does."""
    name = (_decode(body).get("metadata") or {}).get("name") or ""
    return msgspec.structs.replace(target, plural="pods", name=name, subresource="binding")


def _check_replaceable(kind: ObjectKind, target: Target) -> None:
    if not target.name:
        raise method_not_allowed("the server does not allow this method on the requested resource")
    if target.subresource not in ({"", "status"} if kind.status else {""}):
        raise unknown_path()


def _decode(body: bytes) -> JsonObject:
    try:
        value: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding: {error}") from error
    if not isinstance(value, dict):
        raise bad_request("error decoding: the body is no JSON object")
    return value


def as_version(value: JsonObject, target: Target, kind: ObjectKind) -> JsonObject:
    """The object under the version that the URL asks for."""
    if len(kind.versions) == 1:
        return value
    return {**value, "apiVersion": f"{target.group}/{target.version}"}


def encode(value: JsonObject) -> bytes:
    """An object on the wire."""
    return msgspec.json.encode(value)


def success(code: int, gone: JsonObject | None = None, kind: ObjectKind | None = None) -> JsonObject:
    """The Status of a request that worked."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if gone is None or kind is None:
        return {**status, "code": code}
    details = {"name": gone["metadata"]["name"], "kind": kind.plural, "uid": gone["metadata"]["uid"]}
    if kind.group:
        details["group"] = kind.group
    return {**status, "details": details}


def refused(refusal: Refusal | NoSuchPath) -> Response:
    """A refusal as an answer."""
    if isinstance(refusal, NoSuchPath):
        return Response(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")
    headers = dict(JSON_HEADERS)
    if refusal.retry_after_s is not None:
        headers["retry-after"] = str(refusal.retry_after_s)
    return Response(refusal.code, headers, encode(refusal.status()))
