"""How objects end: preconditions, grace periods, finalizers."""

from datetime import datetime
from typing import Any

import msgspec

from gpufleet.simulation import pod_rules
from gpufleet.simulation.object_kinds import ObjectKind
from gpufleet.simulation.refusal import JsonObject, bad_request, conflict
from gpufleet.simulation.request_target import Target


class DeleteOptions(msgspec.Struct, frozen=True):
    """What a DELETE may say."""

    grace_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    def check(self, old: JsonObject, kind: ObjectKind) -> None:
        """The preconditions hold. Raises Refusal (409)."""
        metadata = old["metadata"]
        for field, asked, found, hint in (
            ("UID", self.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", self.resource_version, metadata["resourceVersion"], "modified"),
        ):
            if asked is not None and asked != found:
                words = (
                    f"the {field} in the precondition ({asked}) does not match the {field} in record "
                    f"({found}). The object might have been {hint}"
                )
                # The real server too puts the kind here where the resource is due.
                raise conflict(kind.group, kind.kind, metadata["name"], words)


def read_options(body: bytes, target: Target) -> DeleteOptions:
    """Options from the body or, as far as the URL has them, from there."""
    grace_s = target.number("gracePeriodSeconds")
    if not body:
        return DeleteOptions(grace_s, dry_run=target.dry_run)
    try:
        said: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding: {error}") from error
    return options_of(said if isinstance(said, dict) else {}, dry_run=target.dry_run, grace_s=grace_s)


def options_of(said: JsonObject, *, dry_run: bool = False, grace_s: int | None = None) -> DeleteOptions:
    """The options of a DeleteOptions object."""
    preconditions = said.get("preconditions") or {}
    asked_s = said.get("gracePeriodSeconds")
    return DeleteOptions(
        grace_s if asked_s is None else asked_s,
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        dry_run or bool(said.get("dryRun")),
    )


def marked(old: JsonObject, kind: ObjectKind, options: DeleteOptions, now: datetime) -> JsonObject:
    """The object as its deletion marks it; the same where it is marked already, or needs no mark."""
    finalizers = bool(old["metadata"].get("finalizers"))
    ending = "deletionTimestamp" in old["metadata"]
    # Only pods have a time of grace; other objects vanish at once unless a finalizer holds them.
    if kind.key != ("", "pods"):
        return pod_rules.being_deleted(old, 0, now) if finalizers and not ending else old
    had_s = old["metadata"].get("deletionGracePeriodSeconds") if ending else None
    # A second deletion may shorten the time of grace and never lengthens it.
    if ending and had_s and (options.grace_s is None or options.grace_s >= had_s):
        return old
    if ending and not had_s:
        return old
    return pod_rules.being_deleted(old, pod_rules.grace_period_s(old, options.grace_s), now)


def is_over(marked_object: JsonObject) -> bool:
    """Whether nothing holds the object any more: no finalizer, no grace."""
    metadata = marked_object["metadata"]
    return not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")
