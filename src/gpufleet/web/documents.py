"""Everything that goes over the wire between ``gpufleet web`` and its page: JSON, with these names.

All routes are read with GET, but for the login and a plan with a manifest, which is only asked about. A
document that is refused is a ``Refusal``.

=================================  ===================================================================
``/``, ``/NAME``                   the files of the page
``/login?token=TOKEN``             on one's own machine: takes the token, sets the cookie, leads to ``/``
``/api/login`` (POST, no body)     in a cluster: takes the bearer token of ``Authorization``, sets a cookie
``/api/logout`` (POST, no body)    ends the session of the cookie
``/api/about``                     ``About``: who asks, and what is shown to them
``/api/stream``                    the stream
``/api/work/KIND/NAMESPACE/NAME``  ``WorkDocument`` of a pod or a gang
``/api/node/NAME``                 ``NodeDocument``
``/api/use``                       ``FleetUseDocument``
``/api/plans?add_nodes=&...``      what-if: ``add_nodes``, ``remove_node`` and ``set_quota``, each any
                                   number of times, written as for ``gpufleet whatif``; the answer as there.
                                   By POST with a manifest as the body, of work in ``namespace``
``/api/problems``                  ``ProblemsDocument``
``/api/projects``                  ``ProjectsDocument``
=================================  ===================================================================

The stream is one of server-sent events. Their ``id`` is the server's own; a browser sends it back as
``Last-Event-ID`` and is told what has changed since, or all again. Events:

- ``view``: ``ViewEvent``. The view begins anew, with its first rows.
- ``rows``: ``RowsEvent``. Rows that are new or have changed, whole, and the keys of rows that are gone. The
  rows of a large view come as one ``view`` and several ``rows``.
- ``source``: ``Source``. Whether what is shown is current. It comes first, and whenever it changes.
- ``end``: ``Refusal``. The server ends the stream: the login is over, or too many watch.
- ``heartbeat``: ``Heartbeat``, every 15 seconds.

The views are ``fleet`` (one row), ``nodes``, ``queues``, ``work`` and ``decisions``. Rows of a view come in
no order; the page sorts them by ``key`` or as the person likes. A field that is absent has the default that
is written here. None, or an absent field without another default, is unknown; it is never 0. Times are RFC
3339.
"""

import enum

import msgspec

from gpufleet.doctor.report import FailureReport
from gpufleet.explain.answer import Answer
from gpufleet.explain.queue_answer import Problem, ReservationRow, ResourceRow

VIEWS = ("fleet", "nodes", "queues", "work", "decisions")
"""The views of the stream, in the order in which they are sent at first."""

HEARTBEAT_S = 15
"""After three of these without an event the connection is gone, whatever the browser thinks."""


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The holder of a card or of a part of it, in thousandths of a GPU.

    Without a name it is a pod of a namespace that the person may not see; with ``is_process`` it is a process
    of no pod that is known. ``profile`` is the MIG profile.
    """

    gpu_milli: int | None = None
    namespace: str = ""
    name: str = ""
    queue: str = ""
    memory_mib: int | None = None
    profile: str = ""
    is_process: bool = False


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """A GPU, or a MIG instance that is asked for as a GPU. ``held_milli`` is in thousandths of it.

    ``health`` is "healthy", "unhealthy" or "unknown", and ``reason`` says more. Its model is that of the node
    where it is absent.
    """

    id: str
    health: str = "healthy"
    reason: str = ""
    held_milli: int | None = 0
    holders: tuple[Holder, ...] = ()
    model: str = ""
    memory_mib: int | None = None
    sharing: str = "whole"


class NodeRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node with GPUs; ``key`` is its name. ``state`` is "ready" or what is wrong, as ``gpufleet top`` says
    it.

    ``pool`` is what the cloud or the autoscaler calls its group, "" where no label says one. ``free_gpus``
    are the whole cards that new work can have, so 0 on a node that takes none; the largest block of a fleet
    is the largest of these.
    """

    key: str
    state: str
    reason: str = ""
    pool: str = ""
    model: str = ""
    gpus: int | None = None
    gpus_held: float | None = None
    gpus_unwell: int | None = None
    free_gpus: int | None = None
    pods: int | None = None
    is_cordoned: bool = False
    cards: tuple[Card, ...] = ()


class FleetRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fleet in sums; ``key`` is "fleet". ``summary`` is its sentence in ``gpufleet top``.

    ``largest_free_block`` is the most whole free GPUs on one node. ``free_blocks`` says by size how many pods
    of 1, 2, 4, 8 GPUs and so on, up to a whole node of the largest, would find a node. ``fragmented_gpus``
    are the free GPUs that are on nodes where some are held: no pod that asks for a whole node can have them.
    """

    key: str
    summary: str = ""
    nodes: int | None = None
    gpus: int | None = None
    gpus_held: float | None = None
    gpus_unwell: int | None = None
    free_gpus: int | None = None
    largest_free_block: int | None = None
    free_blocks: dict[str, int] = {}
    fragmented_gpus: int | None = None
    pods_waiting: int | None = None


class WaitingWork(msgspec.Struct, frozen=True, omit_defaults=True):
    """Work that waits in a queue. ``reason`` is what it waits for, ``cause`` why, and ``words`` both in
    words.
    """

    kind: str
    namespace: str
    name: str
    pods: int
    position: int | None = None
    priority: int = 0
    created: str = ""
    reason: str = ""
    cause: str = ""
    words: str = ""
    expected_start: str | None = None


class QueueRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A queue; ``key`` is its name. Its amounts are those of ``gpufleet queues``, with all below it.

    ``why`` is what is wrong, or for what its pods wait. ``waiting`` has the first of its own work that the
    person may see, by position; ``waiting_more`` counts the rest that they may see. ``hidden_waiting`` counts
    work of namespaces that they may not. None where the engine was not asked.
    """

    key: str
    parent: str = ""
    depth: int = 0
    is_active: bool = True
    state: str = "Open"
    why: str = ""
    problems: tuple[Problem, ...] = ()
    resources: tuple[ResourceRow, ...] = ()
    share: str | None = None
    weight: str = "1"
    pods_waiting: int | None = None
    waiting: tuple[WaitingWork, ...] | None = None
    waiting_more: int = 0
    hidden_waiting: int = 0
    reservation: ReservationRow | None = None


class WorkRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that asks for GPUs, or a gang; ``key`` is KIND/NAMESPACE/NAME, with "pod" or "gang" for the kind.

    ``state`` is in the words of ``gpufleet explain``, that of a gang "runs", "in part", "waits" or "held". A
    pod of a gang names it. ``members_*`` are of gangs.
    """

    key: str
    state: str
    queue: str = ""
    node: str = ""
    gang: str = ""
    gpus: float | None = None
    created: str = ""
    position: int | None = None
    cause: str = ""
    why: str = ""
    expected_start: str | None = None
    members_placed: int | None = None
    members_arrived: int | None = None
    members_min: int | None = None


class DecisionKind(enum.Enum):
    """What was decided about a pod."""

    PLACED = "placed"
    WAITS = "waits"
    EVICTED = "evicted"


class DecisionRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was decided about a pod last, as its conditions tell it; ``key`` is that of the pod's work row."""

    key: str
    at: str
    what: DecisionKind
    queue: str = ""
    node: str = ""
    text: str = ""


class ViewEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A view begins anew with these rows.

    ``unread`` says why rows or columns are missing. With ``more``, further rows of what is known already
    follow at once.
    """

    view: str
    rows: tuple[msgspec.Raw, ...]
    unread: str = ""
    more: bool = False


class RowsEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows of a view that are new or have changed, and the keys of those that are gone; ``more`` as above."""

    view: str
    changed: tuple[msgspec.Raw, ...]
    removed: tuple[str, ...]
    more: bool = False


class SourceState(enum.Enum):
    """Whether what is shown is current: it is followed, still read for the first time, or not heard of."""

    LIVE = "live"
    READING = "reading"
    AWAY = "away"


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """How current the rows are. ``as_of`` is the last moment at which they were known to be right.

    ``why`` says what is away. ``problems`` need a person, such as a scheduler that does not lead; ``notes``
    say what is not known. ``queues_as_of`` is when the engine was asked for positions and reasons.
    """

    state: SourceState
    as_of: str = ""
    why: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    queues_as_of: str = ""


class Heartbeat(msgspec.Struct, frozen=True):
    """The time of the server."""

    at: str


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """The person that asks, and what is shown to that person.

    ``user`` is "" on one's own machine, where the rights are those of the kubeconfig. ``namespaces`` are
    those whose pods are shown, None for all. ``sees_all`` is true where plans and problems, which tell of the
    whole cluster, may be asked for. ``hidden`` says in sentences what is not shown, and which right would.
    ``can_log_out`` is true where a session can be ended.
    """

    version: str
    user: str = ""
    cluster: str = ""
    namespaces: tuple[str, ...] | None = None
    sees_nodes: bool = True
    sees_queues: bool = True
    sees_all: bool = True
    can_log_out: bool = False
    hidden: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why there is no answer: the problem, the field and value that it is about, and the way out.

    ``where`` is the object of a manifest that has the field. ``login`` is true where a login would help: the
    page shows its form.
    """

    problem: str
    field: str = ""
    value: str = ""
    way_out: str = ""
    login: bool = False
    where: str = ""


class HistoryRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened to a pod. ``count`` is how often an Event was repeated."""

    at: str
    what: str
    text: str = ""
    pod: str = ""
    count: int = 1


class WorkDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A card, or a part of one, that a pod was given, and what the pod uses of it, measured ``age_s`` ago."""

    pod: str
    node: str
    id: str
    model: str = ""
    gpu_milli: int | None = None
    memory_mib: int | None = None
    profile: str = ""
    used_ratio: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None
    age_s: float | None = None


class WorkDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod or a gang: its row, its explanation as ``gpufleet explain -o json`` has it, history and devices.

    ``members`` are the rows of a gang's pods. ``use_unknown`` says why use is not known. ``notes`` say what
    is missing, and why.
    """

    at: str
    row: WorkRow
    explanation: Answer | None = None
    history: tuple[HistoryRow, ...] = ()
    devices: tuple[WorkDevice, ...] = ()
    members: tuple[WorkRow, ...] = ()
    use_unknown: str = ""
    notes: tuple[str, ...] = ()


class ConditionRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition of a node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""


class TaintRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A taint of a node, or of one of its cards (``card``)."""

    key: str
    effect: str
    value: str = ""
    card: str = ""


class CardUseRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a card is measured to do, by its id; ratios are from 0 to 1. ``age_s`` is how old that is."""

    id: str
    busy_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_bytes: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    age_s: float | None = None


class NodeUseRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the cards of a node are measured to do, in the order of its row; ``key`` is its name.

    ``busy`` is how busy each is, ``memory`` how much of its memory is used, both from 0 to 1 and None where
    it is unknown. ``age_s`` is how old the oldest of them is.
    """

    key: str
    age_s: float
    busy: tuple[float | None, ...]
    memory: tuple[float | None, ...]


class FleetUseDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the cards of the fleet do. Nodes that are not here are unknown; ``unknown`` says how many, and
    why.
    """

    at: str
    nodes: tuple[NodeUseRow, ...] = ()
    unknown: str = ""


class NodeDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node: its row, its conditions and taints, what its cards do, and its pods that the person may see."""

    at: str
    row: NodeRow
    driver: str = ""
    conditions: tuple[ConditionRow, ...] = ()
    taints: tuple[TaintRow, ...] = ()
    use: tuple[CardUseRow, ...] = ()
    use_unknown: str = ""
    pods: tuple[WorkRow, ...] = ()
    hidden_pods: int = 0


class AlertRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alert that fires. ``labels`` are its own; ``runbook`` is the page about it."""

    name: str
    severity: str = ""
    since: str = ""
    says: str = ""
    runbook: str = ""
    labels: dict[str, str] = {}


class ProblemsDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong, and how it is mended.

    ``causes`` are the doctor's, in the order in which they are best mended; ``unjudged`` says what it could
    not see. ``alerts_unknown`` says why no alerts are known.
    """

    at: str
    is_healthy: bool
    causes: tuple[FailureReport, ...] = ()
    unjudged: tuple[str, ...] = ()
    alerts: tuple[AlertRow, ...] = ()
    alerts_unknown: str = ""
    notes: tuple[str, ...] = ()


class ProjectMember(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member; either ``user`` or ``group``."""

    role: str
    user: str = ""
    group: str = ""


class ProjectRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A project; ``key`` is its name. ``left`` are namespaces that it names no more and that are still there.

    ``is_ready`` says whether it is as it says, None where no operator has seen this version of it; ``reason``
    and ``message`` say why not.
    """

    key: str
    team: str
    namespaces: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    members: tuple[ProjectMember, ...] = ()
    queue: str = ""
    is_ready: bool | None = None
    reason: str = ""
    message: str = ""


class ProjectsDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """All projects, by name."""

    at: str
    projects: tuple[ProjectRow, ...] = ()
    notes: tuple[str, ...] = ()
