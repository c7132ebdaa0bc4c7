"""What the client itself puts on the wire: bindings, evictions, options of a deletion.

Only what the server needs is sent; ``apiVersion`` and ``kind`` follow from the path.
"""

import msgspec

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps what it applied, to find next time which fields were taken away."""


class Preconditions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What must hold of an object for the write to happen."""

    uid: str = ""
    resource_version: str = ""


def preconditions(uid: str, resource_version: str = "") -> Preconditions | None:
    """The preconditions that are asked for, if any."""
    return Preconditions(uid, resource_version) if uid or resource_version else None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How an object is to be deleted."""

    preconditions: Preconditions | None = None
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None


class BindingMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which pod, and the annotations that it gets together with its node."""

    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] | None = None


class BindingTarget(msgspec.Struct, frozen=True):
    """The node that a pod is bound to."""

    name: str
    kind: str = "Node"


class Binding(msgspec.Struct, frozen=True):
    """The body of pods/binding."""

    metadata: BindingMeta
    target: BindingTarget


class EvictionMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which pod, and what admission policies are to see beside it."""

    name: str
    namespace: str
    annotations: dict[str, str] = {}


class Eviction(msgspec.Struct, frozen=True, rename="camel"):
    """The body of pods/eviction, which accepts more than one version: this one says which."""

    metadata: EvictionMeta
    delete_options: DeleteOptions
    api_version: str = "policy/v1"
    kind: str = "Eviction"
