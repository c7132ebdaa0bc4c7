"""Controllers that questions are about, and why a controller made fewer pods than it should.

A pod that a quota or an admission policy refuses never exists; only its controller's events tell.
"""

import re
from collections.abc import Iterable

import msgspec

from gpufleet.explain.answer import Finding
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import Kind
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.phrases import listed
from gpufleet.model.quantity import parse_quantity

NOTE_MAX = 500
"""An Event's note may hold a whole admission message; a person reads the beginning."""

FAILED_CREATE = "FailedCreate"
"""The reason of Events in which a controller says that it could not make a pod."""

# The API server's words for a pod that a ResourceQuota refuses; they are in no field.
QUOTA = re.compile(
    r"exceeded quota: (?P<quota>\S+), requested: (?P<requested>\S+), "
    r"used: (?P<used>\S+), limited: (?P<limited>\S+)"
)
MUST_SAY = re.compile(r"failed quota: (?P<quota>[^:\s]+): must specify (?P<what>.+)")
# Controllers that make pods themselves; for each the kind that a name is looked up in.
KINDS: dict[str, Kind] = {
    "job": resources.JOBS,
    "deployment": resources.DEPLOYMENTS,
    "statefulset": resources.STATEFUL_SETS,
    "replicaset": resources.REPLICA_SETS,
    "daemonset": resources.DAEMON_SETS,
}


class OwnerSpec(Structure, frozen=True):
    """How many pods are wanted."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False


class OwnerCondition(Structure, frozen=True):
    """A condition of a controller."""

    type: str
    status: str
    reason: str = ""
    message: str = ""

    @property
    def is_refusal(self) -> bool:
        """True if it says why pods could not be made."""
        return self.type == "ReplicaFailure" and self.status == "True" and bool(self.message)


class OwnerStatus(Structure, frozen=True):
    """How far it is."""

    conditions: tuple[OwnerCondition, ...] = ()


class Owner(Structure, frozen=True):
    """A controller, whatever its kind."""

    metadata: Metadata
    spec: OwnerSpec = OwnerSpec()
    status: OwnerStatus = OwnerStatus()

    @property
    def wanted(self) -> int:
        """How many pods there should be at once."""
        if self.spec.suspend:
            return 0
        if self.spec.parallelism is not None:
            completions = self.spec.completions
            return self.spec.parallelism if completions is None else min(self.spec.parallelism, completions)
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def done(self) -> str:
        """How a Job that is over ended, "Complete" or "Failed"; empty for one that is not."""
        over = [one.type for one in self.status.conditions if one.status == "True"]
        return next((one for one in over if one in {"Complete", "Failed"}), "")


class Regarding(Structure, frozen=True):
    """The object that an Event is about."""

    name: str = ""
    uid: str = ""


class EventRead(Structure, frozen=True):
    """An Event of events.k8s.io, as far as it is read."""

    metadata: Metadata
    reason: str = ""
    note: str = ""
    regarding: Regarding = Regarding()


class Owned(msgspec.Struct, frozen=True):
    """A controller and those between it and its pods (the ReplicaSets of a Deployment), and its events."""

    kind: str
    owner: Owner
    uids: frozenset[str]
    events: tuple[EventRead, ...] = ()


def why_no_pods(owned: Owned, existing: int) -> Finding:
    """Why there are fewer pods than the controller wants."""
    owner = owned.owner
    if owner.done:
        return Finding("ended", f"it is over: {owner.done}")
    if owner.spec.suspend:
        return Finding("suspended", "it is suspended, so it makes no pods", _resume(owned))
    if owner.wanted == 0:
        return Finding("no-replicas", "it is asked for no pods", ("scale it up",))
    notes = [event.note for event in owned.events if event.reason == FAILED_CREATE]
    # Events are forgotten after an hour; a ReplicaSet and its Deployment keep the last refusal.
    notes = notes or [one.message for one in owner.status.conditions if one.is_refusal]
    if notes:
        return refusal(notes[-1])
    if existing >= owner.wanted:
        return Finding("", "")
    why = "its controller has not made its pods yet, and no event says why"
    return Finding("no-pods", why, ("wait a moment; then see whether kube-controller-manager runs",))


def _resume(owned: Owned) -> tuple[str, ...]:
    labels = owned.owner.metadata.labels
    queue = labels.get("kueue.x-k8s.io/queue-name")
    name, namespace = harmless(owned.owner.metadata.name), harmless(owned.owner.metadata.namespace)
    resume = f'kubectl patch {owned.kind} {name} -n {namespace} -p \'{{"spec":{{"suspend":false}}}}\''
    if queue is None:
        return (resume,)
    kueues = f"Kueue resumes it when its queue {harmless(queue)} admits it"
    return (kueues, f"where Kueue does not run, nothing resumes it: {resume}")


def refusal(note: str) -> Finding:
    """Why the API server refused a pod, by the words of its controller's event."""
    quota = QUOTA.search(note)
    if quota is not None:
        return _over_quota(quota)
    unsaid = MUST_SAY.search(note)
    if unsaid is not None:
        parts = re.split("[;,]", unsaid["what"])
        what = listed(part.partition(" for:")[0].strip() for part in parts)
        why = f"quota {harmless(unsaid['quota'])} only lets pods in that say {what}"
        return Finding("quota", why, (f"write {what} into the resources of each container",))
    why = f"the API server refuses its pods: {printable(note, NOTE_MAX)}"
    return Finding("admission", why, ("correct what the message names, or ask the owner of that rule",))


def _over_quota(found: re.Match[str]) -> Finding:
    requested, used, limited = (_amounts(found[name]) for name in ("requested", "used", "limited"))
    name = harmless(found["quota"])
    parts = []
    for key, limit in limited.items():
        use = f"{harmless(key)}: {harmless(used.get(key, '0'))} of {harmless(limit)} are used"
        parts.append(f"{use}, and a pod asks for {harmless(requested.get(key, '?'))}")
    why = f"quota {name} refuses its pods: {'; '.join(parts)}"
    beyond = [key for key, limit in limited.items() if _more(requested.get(key, "0"), limit)]
    if beyond:
        ways = [f"ask for at most {harmless(limited[key])} of {harmless(key)} in one pod" for key in beyond]
    else:
        ways = ["wait until other pods of the namespace end", "ask for less in each pod"]
    return Finding("quota", why, (*ways, f"raise the ResourceQuota {name}"))


def _more(asked: str, limit: str) -> bool:
    try:
        return parse_quantity(limit) < parse_quantity(asked)
    except InputError:
        return False


def _amounts(text: str) -> dict[str, str]:
    pairs: Iterable[tuple[str, str, str]] = (part.partition("=") for part in text.rstrip(".").split(","))
    return {key: value for key, _, value in pairs}
