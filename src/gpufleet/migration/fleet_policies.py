"""FleetPolicies in the making, and how the rest of an operator's object is accounted for.

A converter maps what a FleetPolicy can say. ``tell_rest`` gives every other field of the object its reason by
a table of paths, the longest that fits; what no table knows is noted as unknown by ``FieldNotes.finish``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpufleet.kube.codec.fleet_policies import read_fleet_policy
from gpufleet.kube.objects.fleet_policies import FleetPolicy
from gpufleet.migration.field_notes import FieldNotes, leaves
from gpufleet.migration.queues import FROM
from gpufleet.migration.sources import Source
from gpufleet.model.model_errors import InputError

DIGEST = re.compile(r"sha256:[a-f0-9]{64}")
REASON_OF_TAG = (
    "refused: an image by tag may be another one tomorrow; set driver.image to REPOSITORY@sha256:DIGEST"
)


@dataclass
class PolicyDraft:
    """A FleetPolicy in the making; empty parts are left out."""

    name: str
    made_of: str
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: list[dict[str, Any]] = field(default_factory=list)
    driver: dict[str, str] = field(default_factory=dict)
    runtime: dict[str, str] = field(default_factory=dict)
    sharing_config: str = ""
    mig_layout: str = ""
    rollout: dict[str, Any] = field(default_factory=dict)


def policy_manifest(draft: PolicyDraft) -> dict[str, Any]:
    """The FleetPolicy as it is written. Raises InputError where the API server would refuse it."""
    selector = {"matchLabels": draft.match_labels, "matchExpressions": draft.match_expressions}
    spec = {
        "nodeSelector": {name: part for name, part in selector.items() if part},
        "driver": draft.driver,
        "runtime": draft.runtime,
        "sharingConfig": draft.sharing_config,
        "migLayout": draft.mig_layout,
        "rollout": draft.rollout,
    }
    found = {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "FleetPolicy",
        "metadata": {"name": draft.name, "annotations": {FROM: draft.made_of}},
        "spec": {name: part for name, part in spec.items() if part or name == "nodeSelector"},
    }
    try:
        read_fleet_policy(msgspec.convert(found, FleetPolicy))
    except msgspec.ValidationError as problem:
        raise InputError(str(problem), where=f"FleetPolicy {draft.name}") from None
    return found


def image_by_digest(source: Source, *path: str) -> str | None:
    """The image of a block with repository, image and version, if its version is a digest."""
    repository, image, version = (source.text(*path, part) for part in ("repository", "image", "version"))
    if not DIGEST.fullmatch(version) or not image:
        return None
    return f"{repository}/{image}@{version}" if repository else f"{image}@{version}"


def tell_rest(source: Source, notes: FieldNotes, reasons: Mapping[str, str]) -> None:
    """Give each field that no converter spoke of the reason of the longest path that leads to it."""
    for path in leaves(source.body.get("spec", {}), "spec"):
        if notes.has_spoken_of(source, path):
            continue
        prefix = max((one for one in reasons if is_below(path, one)), key=len, default=None)
        if prefix is not None:
            notes.lost(source, path, reasons[prefix])
    notes.finish(source)


def is_below(path: str, prefix: str) -> bool:
    """Whether a path is this one or leads through it."""
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}["))
