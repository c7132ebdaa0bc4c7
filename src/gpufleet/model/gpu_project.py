"""A GpuProject: the namespaces of a team, who works in them, and within which limits.

What a project says holds in each of its namespaces. What no project may say is decided here: names that
belong to the cluster, quotas that the API server takes and never counts, and quotas of cores or memory
that every container would have to answer. ``kube.codec.gpu_projects`` reads the object;
``operator.projects.wanted_objects`` says what must be there.
"""

import enum
import ipaddress

import msgspec

from gpufleet.model.identifiers import GpuProjectName, QueueName
from gpufleet.model.label_syntax import check_label_key, check_label_value, is_subdomain
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resource_names import is_extended

RESERVED_NAMESPACES = ("default", "gpufleet-system")
RESERVED_PREFIX = "kube-"
"""Namespaces that Kubernetes makes itself begin so."""

NAMESPACE_LENGTH_MAX = 63
"""A namespace's name is a DNS label."""

MINUTE_US = 60 * 10**6
PARK_AFTER_MIN_US = 10 * MINUTE_US
"""Shorter pauses are part of working: a person reads a result, a program loads its next data."""

PARK_WARNING_MIN_US = MINUTE_US
"""One round of measurements: a warning that nothing can answer would be none."""

EVERY_TAINT = "*"

DEFAULTED = ("cpu", "memory", "ephemeral-storage")
"""Resources that containers may get by default. A GPU is none: every container would take one."""

_COUNTED_BY_NAME = frozenset(
    (
        *DEFAULTED,
        "pods",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
    )
)
_OF_CLASS = (".deviceclass.resource.k8s.io/", ".storageclass.storage.k8s.io/")
"""What follows the name of a class in a key, before what is counted of it."""

_COUNTED_OF_CLASS = (
    f"{_OF_CLASS[0]}devices",
    *(f"{_OF_CLASS[1]}{counted}" for counted in ("requests.storage", "persistentvolumeclaims")),
)
_HUGE_PAGES = "hugepages-"
_VERBS = ("requests.", "limits.")


class ProjectRole(enum.Enum):
    """What a member may do: MEMBER runs work, VIEWER reads. OWNER also invites and adds namespaces."""

    OWNER = "Owner"
    MEMBER = "Member"
    VIEWER = "Viewer"


class PodSecurity(enum.Enum):
    """The level of Kubernetes' Pod Security that pods are held to; privileged holds them to nothing."""

    BASELINE = "Baseline"
    RESTRICTED = "Restricted"


class ImageTreatment(enum.Enum):
    """What happens to a pod whose images are not pinned by digest or come from elsewhere."""

    OFF = "Off"
    AUDIT = "Audit"
    WARN = "Warn"
    DENY = "Deny"


class ProjectMember(msgspec.Struct, frozen=True):
    """One user or one group; the other is empty."""

    role: ProjectRole
    user: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if bool(self.user) == bool(self.group):
            raise InputError("not one person or group", field="user", expected="either user or group")
        name, field = (self.user, "user") if self.user else (self.group, "group")
        if name.startswith("system:"):
            expected = "a person or group of the identity provider"
            raise InputError("a name of Kubernetes' own", field=field, value=name, expected=expected)


class OwnerLimits(msgspec.Struct, frozen=True):
    """Within what owners add namespaces. ``namespaces_max`` counts all namespaces of the project.

    ``namespace_prefix`` begins the names that they may add; "" is the name of the project and a hyphen.
    """

    namespaces_max: int = 0
    namespace_prefix: str = ""

    def __post_init__(self) -> None:
        if self.namespaces_max < 0:
            value = self.namespaces_max
            raise InputError("less than nothing", field="namespacesMax", value=value, expected="0 or more")
        if self.namespace_prefix:
            # A hyphen may end a prefix and no namespace.
            check_namespace(f"{self.namespace_prefix}x", "namespacePrefix")


class QueueQuota(msgspec.Struct, frozen=True):
    """What the project's own queue has of one resource, as a FleetQueue writes it; "" is not said."""

    resource: str
    nominal: str = ""
    borrowing_limit: str = ""
    hard_limit: str = ""


class OwnQueue(msgspec.Struct, frozen=True):
    """The FleetQueue that is made for the project; ``parent`` None for the root of a tree."""

    parent: QueueName | None = None
    quotas: tuple[QueueQuota, ...] = ()


class ImageTerms(msgspec.Struct, frozen=True):
    """How images are judged; without ``registries`` the list of the installation counts."""

    treatment: ImageTreatment
    registries: tuple[str, ...] = ()


class ProjectIdleRule(msgspec.Struct, frozen=True):
    """Notebooks and model servers are warned after ``after_us`` of idleness and parked ``warning_us`` later.

    ``warning_us`` None leaves the usual time.
    """

    after_us: int
    warning_us: int | None = None

    def __post_init__(self) -> None:
        _check_least(self.after_us, PARK_AFTER_MIN_US, "after")
        if self.warning_us is not None:
            _check_least(self.warning_us, PARK_WARNING_MIN_US, "warning")


class GpuProject(msgspec.Struct, frozen=True):
    """What one project says. "" and None are fields that it does not name.

    ``namespace_quota`` and ``container_defaults`` are pairs of a key and an amount as Kubernetes writes them,
    the quota for each namespace by itself. ``own_queue`` has the name ``queue``. ``egress`` are networks that
    pods may reach outside, and ``ingress_namespaces`` those whose pods may reach theirs. ``tolerated_taints``
    are keys of taints that pods may tolerate, or ``EVERY_TAINT``.
    """

    name: GpuProjectName
    team: str
    namespaces: tuple[str, ...]
    members: tuple[ProjectMember, ...] = ()
    queue: QueueName | None = None
    own_queue: OwnQueue | None = None
    owner_limits: OwnerLimits = OwnerLimits()
    namespace_quota: tuple[tuple[str, str], ...] = ()
    container_defaults: tuple[tuple[str, str], ...] = ()
    pod_security: PodSecurity = PodSecurity.RESTRICTED
    egress: tuple[str, ...] = ()
    ingress_namespaces: tuple[str, ...] = ()
    images: ImageTerms | None = None
    idle_rule: ProjectIdleRule | None = None
    tolerated_taints: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_label_value(self.team, "team")
        if not self.namespaces:
            raise InputError("no namespace", field="namespaces", expected="at least one")
        _check_each_once(self.namespaces, "namespaces")
        for position, name in enumerate(self.namespaces):
            check_own_namespace(name, f"namespaces[{position}]")
        for position, name in enumerate(self.ingress_namespaces):
            check_namespace(name, f"network.ingressNamespaces[{position}]")
        for position, text in enumerate(self.egress):
            check_network(text, f"network.egress[{position}]")
        for position, key in enumerate(self.tolerated_taints or ()):
            if key != EVERY_TAINT:
                # The keys of taints have the form of labels' keys.
                check_label_key(key, f"toleratedTaints[{position}]")
        self._check_amounts()

    def _check_amounts(self) -> None:
        defaults = {key for key, _ in self.container_defaults}
        for key, amount in self.container_defaults:
            check_default_key(key, "containerDefaults")
            check_amount(amount, f"containerDefaults[{key}]")
        for key, amount in self.namespace_quota:
            field = f"namespaceQuota[{key}]"
            check_quota_key(key, field)
            check_amount(amount, field)
            resource = key.removeprefix("requests.").removeprefix("limits.")
            if resource in DEFAULTED and resource not in defaults:
                expected = f"containerDefaults[{resource}] beside it"
                problem = "a quota that refuses every pod that does not say how much it takes"
                raise InputError(problem, field=field, value=amount, expected=expected)


def check_default_key(key: str, field: str) -> None:
    """Raises InputError for a resource of which containers get nothing by default."""
    if key not in DEFAULTED:
        expected = f"{', '.join(DEFAULTED)}: a default of another resource is given to every container"
        raise InputError("no resource with a default", field=field, value=key, expected=expected)


def check_quota_key(key: str, field: str) -> None:
    """Raises InputError for a key that the API server would take and never count, or not take."""
    verb, _, resource = key.partition(".")
    is_of_class = any(part in key for part in _OF_CLASS)
    if key in _COUNTED_BY_NAME or key.startswith(("count/", _HUGE_PAGES)):
        return
    if is_of_class and key.endswith(_COUNTED_OF_CLASS) and not key.startswith(_VERBS):
        return
    is_requested = resource == "storage" or resource in DEFAULTED or resource.startswith(_HUGE_PAGES)
    if verb == "requests" and (is_requested or ("/" in resource and not is_of_class)):
        return
    if verb == "limits" and resource in DEFAULTED:
        return
    if is_of_class:
        # The API server takes a verb in front for the beginning of the class's name.
        expected = f"NAME and one of {', '.join(_COUNTED_OF_CLASS)}"
        raise InputError("a key of a class that counts nothing", field=field, value=key, expected=expected)
    uncounted = resource if verb == "limits" else key
    if is_extended(uncounted):
        problem = "a key that the API server takes and never counts"
        raise InputError(problem, field=field, value=key, expected=f"requests.{uncounted}")
    expected = "a key of a ResourceQuota, such as requests.nvidia.com/gpu or pods"
    raise InputError("no key of a quota", field=field, value=key, expected=expected)


def check_namespace(name: str, field: str) -> None:
    """Raises InputError unless a namespace can have the name."""
    if not is_subdomain(name) or "." in name or len(name) > NAMESPACE_LENGTH_MAX:
        raise InputError("not a namespace's name", field=field, value=name, expected="a DNS label")


def check_network(text: str, field: str) -> None:
    """Raises InputError unless the text is a network with no bit set behind its length."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        expected = "a network such as 10.0.0.0/8 or 0.0.0.0/0"
        raise InputError("not a network", field=field, value=text, expected=expected) from None


def check_own_namespace(name: str, field: str) -> None:
    """Raises InputError unless a project can have a namespace of the name."""
    check_namespace(name, field)
    if name in RESERVED_NAMESPACES or name.startswith(RESERVED_PREFIX):
        expected = "a namespace that belongs to no part of the cluster"
        raise InputError("a namespace of the cluster's own", field=field, value=name, expected=expected)


def _check_each_once(names: tuple[str, ...], field: str) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise InputError("twice", field=f"{field}[{position}]", value=name, expected="each once")


def check_amount(text: str, field: str) -> None:
    """Raises InputError unless the text is an amount of 0 or more."""
    if parse_quantity(text, field=field).milli_value() < 0:
        raise InputError("less than nothing", field=field, value=text, expected="0 or more")


def _check_least(length_us: int, least_us: int, field: str) -> None:
    if length_us < least_us:
        minutes = least_us // MINUTE_US
        raise InputError(
            "too short",
            field=f"idleRule.{field}",
            value=f"{length_us // MINUTE_US}m",
            expected=f"at least {minutes}m",
        )
