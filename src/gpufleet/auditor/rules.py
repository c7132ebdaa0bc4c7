"""What a judgement is told beside the record: which user is which, and what kubelets and containers said."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """Which users may do what, and how strict to be.

    ``scheduler_users`` are the names under which the API server knows the scheduler, ``tenants`` those of
    users with rights in a namespace alone. A decision that is under way for ``grace_s`` may still follow the
    queues and namespaces of that time before. With ``grants_required`` no pod of a namespace that is not
    exempt may run on a GPU without a grant.
    """

    scheduler_users: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    grants_required: bool = False
    exempt_namespaces: frozenset[str] = frozenset({"kube-system", "gpufleet-system"})
    grace_s: float = 5.0
    at_rest: bool = True
    """Whether the end of the record is a time of rest: nothing changed for long enough that all agree."""

    swapped: frozenset[str] = frozenset()
    """UIDs of pods to which a kubelet gave another device of the same size than granted."""

    restarted: frozenset[str] = frozenset()
    """UIDs of pods with containers that may have started again, because they end by themselves."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a kubelet says that a container has: an entry of PodResources or of its checkpoint.

    ``pod`` is namespace/name. ``units`` are the ids by which the kubelet counts: of whole GPUs their UUIDs,
    of shares and MIG instances names that only node and agent can tell.
    """

    node: str
    pod: str
    container: str
    resource: str
    units: frozenset[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a container itself found: ids of GPUs, and when it ran. ``to_s`` is None while it runs."""

    pod_uid: str
    container: str
    devices: frozenset[str]
    from_s: float = 0.0
    to_s: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What kubelets and containers said. None: they were not asked, and nothing is concluded."""

    kubelets: tuple[Given, ...] | None = None
    containers: tuple[Seen, ...] | None = None
