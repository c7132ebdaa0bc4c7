"""Quotas that are set in a picture of a cluster, written as people would write them into the FleetQueue."""

import msgspec

from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.fleet_queues import read_fleet_queue
from gpufleet.kube.codec.quota_amounts import read_amount, read_resource
from gpufleet.kube.objects.fleet_queues import FleetQueue, QuotaSpec
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import listed
from gpufleet.whatif.request import QUOTA_EXPECTED, SET_QUOTA, SetQuota

FIELDS = {
    "nominal": "nominal",
    "borrowing": "borrowing_limit",
    "borrowinglimit": "borrowing_limit",
    "lending": "lending_limit",
    "lendinglimit": "lending_limit",
    "hard": "hard_limit",
    "hardlimit": "hard_limit",
}
"""What may stand behind the resource, in lower case."""

WORDS = {
    "nominal": "nominal",
    "borrowing_limit": "borrowing limit",
    "lending_limit": "lending limit",
    "hard_limit": "hard limit",
}
NO_LIMIT = "none"
"""The word that takes a limit away."""


def check_set_quota(wanted: SetQuota) -> None:
    """Find what is wrong in a quota whatever queues there are. Raises InputError.

    Names of queues and of resources may have dots: what stands behind any of them may be the resource.
    """
    path, field = _resource_and_field(wanted.path)
    parts = path.split(".")
    candidates = [".".join(parts[place:]) for place in range(1, len(parts))]
    problems: list[InputError] = []
    for resource in candidates or [wanted.path.rpartition(".")[2]]:
        try:
            _value(read_resource(resource, f"{SET_QUOTA} {wanted.path}"), field, wanted)
        except InputError as error:
            problems.append(error)
        else:
            return
    raise problems[-1]


def set_quota(picture: Picture, wanted: SetQuota) -> str:
    """Change the queue. Returns what was and what is. Raises InputError for what cannot be."""
    queue, rest = _queue(picture, wanted.path)
    text, field = _resource_and_field(rest)
    resource = read_resource(text, f"{SET_QUOTA} {wanted.path}")
    value = _value(resource, field, wanted)
    quotas = list(queue.spec.quotas)
    place = next((place for place, one in enumerate(quotas) if _same(one, resource)), len(quotas))
    if place == len(quotas):
        quotas.append(QuotaSpec(str(resource)))
    before = getattr(quotas[place], field)
    quotas[place] = msgspec.structs.replace(quotas[place], **{field: value})
    spec = msgspec.structs.replace(queue.spec, quotas=tuple(quotas))
    changed = msgspec.structs.replace(queue, spec=spec)
    # Read for its errors alone: what the API server would refuse is told before anything is judged.
    read_fleet_queue(changed)
    picture.objects[resources.FLEET_QUEUES]["", queue.metadata.name] = changed
    name = harmless(queue.metadata.name)
    none = "0" if field == "nominal" else "none"
    was, now = none if before is None else before, none if value is None else value
    return f"queue {name}: {WORDS[field]} of {resource} {now} instead of {was}"


def _value(resource: QuotaResource, field: str, wanted: SetQuota) -> str | None:
    """What the quota shall have; None for no limit. Raises InputError for what is no amount."""
    if wanted.value.lower() == NO_LIMIT and field != "nominal":
        return None
    read_amount(resource, wanted.value, f"{SET_QUOTA} {wanted.path}")
    return wanted.value


def _same(one: QuotaSpec, resource: str) -> bool:
    try:
        return read_resource(one.resource, "resource") == resource
    except InputError:
        return False


def _queue(picture: Picture, path: str) -> tuple[FleetQueue, str]:
    """The queue with the longest name that the path begins with, and the rest behind the dot."""
    queues = picture.objects.get(resources.FLEET_QUEUES, {})
    ends = [place for place, letter in enumerate(path) if letter == "."]
    for end in reversed(ends):
        found: FleetQueue | None = queues.get(("", path[:end]))
        if found is not None:
            return found, path[end + 1 :]
    names = sorted(name for _, name in queues)
    if not names:
        expected = "a cluster with FleetQueues; describe one in a file and --submit it"
        raise InputError("there are no queues", field=SET_QUOTA, value=path, expected=expected)
    near = next((near for end in ends if (near := nearest(path[:end], names)) is not None), None)
    expected = f"such as {listed(names)}" if near is None else f"did you mean {harmless(near)}?"
    raise InputError("no such queue", field=SET_QUOTA, value=path, expected=f"{QUOTA_EXPECTED}; {expected}")


def _resource_and_field(rest: str) -> tuple[str, str]:
    resource, dot, last = rest.rpartition(".")
    field = FIELDS.get(last.lower().replace("-", "").replace("_", ""))
    return (resource, field) if dot and field is not None else (rest, "nominal")
