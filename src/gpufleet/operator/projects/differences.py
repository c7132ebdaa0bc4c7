"""Whether an object of a project is as it must be; ``project_controller`` writes where it is not.

What others added stays and is no difference. What was written last is told by a digest on the object: where
the project says something else by now, the object is written anew, and what it says no more is taken away. A
list counts whole, since the API server keeps lists whole.
"""

from typing import Any

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import FLEET_QUEUES, LIMIT_RANGES, RESOURCE_QUOTAS
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity
from gpufleet.operator.projects.wanted_objects import WantedObject

_IN_AMOUNTS = (RESOURCE_QUOTAS, LIMIT_RANGES, FLEET_QUEUES)


class ProjectObject(Structure, frozen=True):
    """An object that belongs to a project, of any of its kinds."""

    metadata: Metadata
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    rules: tuple[dict[str, Any], ...] = ()
    role_ref: dict[str, Any] = msgspec.field(default_factory=dict)
    subjects: tuple[dict[str, Any], ...] = ()


def differs(wanted: WantedObject, found: ProjectObject) -> bool:
    """Whether anything that the project says is not there."""
    body, metadata = wanted.body, found.metadata
    if not _has(body["metadata"]["labels"], metadata.labels, amounts=False):
        return True
    if not _has(body["metadata"]["annotations"], metadata.annotations, amounts=False):
        return True
    amounts = wanted.kind in _IN_AMOUNTS
    if "spec" in body and not _has(body["spec"], found.spec, amounts=amounts):
        return True
    if "rules" in body and body["rules"] != list(found.rules):
        return True
    if "roleRef" not in body:
        return False
    return bool(body["roleRef"] != found.role_ref or body["subjects"] != list(found.subjects))


def _has(wanted: Any, found: Any, *, amounts: bool) -> bool:
    if isinstance(wanted, dict):
        # What is empty is not sent back by the API server.
        return isinstance(found or {}, dict) and all(
            _has(value, (found or {}).get(key), amounts=amounts) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return len(wanted) == len(found or ()) and all(
            _has(one, other, amounts=amounts) for one, other in zip(wanted, found or (), strict=True)
        )
    return bool(wanted == found or (amounts and _is_same_amount(wanted, found)))


def _is_same_amount(wanted: object, found: object) -> bool:
    """The API server writes amounts in a form of its own: 1024Mi is 1Gi."""
    try:
        return parse_quantity(str(wanted)) == parse_quantity(str(found))
    except InputError:
        return False
