"""The format of a scenario file, field by field, as people write it.

``reading`` turns it into values of the model. What is not written does not limit: a node without ``cpu`` has
more than any pod asks for, a scenario without nodes has a node for every pod, so that only quota decides.
``docs/scenarios.md`` explains the format to users.
"""

from typing import Literal

import msgspec

Amount = int | float | str
"""A quantity as Kubernetes writes them: 8, 0.5, "500m", "16Gi"."""


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Any part of the file: an unknown field is a mistake."""


class SettingsText(Text, frozen=True, kw_only=True):
    """``policy`` and ``seed`` of the engine, and whether work outside of every queue makes room by priority;
    ``evicted`` says what comes of evicted pods.

    They wait again ("return", what a Job's or Deployment's controller does) or are gone ("vanish"), once
    they have ended, which takes ``evictionTakes``.
    """

    policy: str = "gpufleet"
    seed: int = 0
    preempt_by_priority: bool = True
    evicted: str = "return"
    eviction_takes: str = "0s"


class TaintText(Text, frozen=True, kw_only=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodesText(Text, frozen=True, kw_only=True):
    """One node, or ``count`` nodes NAME-1, NAME-2 and so on.

    Strangers hold ``held`` of its GPUs, and of its ``resources``, such as MIG instances, ``heldResources``.
    """

    name: str
    count: int | None = None
    gpus: int = 0
    held: int = 0
    model: str = ""
    gpu_memory: Amount | None = None
    gpus_linked: int = 8
    numa_nodes: int = 1
    cpu: Amount | None = None
    memory: Amount | None = None
    pods: int | None = None
    labels: dict[str, str] = {}
    taints: list[TaintText] = []
    resources: dict[str, int] = {}
    held_resources: dict[str, int] = {}
    cordoned: bool = False
    drained_until: str | None = None


class QuotaText(Text, frozen=True, kw_only=True):
    """What a queue has of one resource; an amount alone is the nominal one."""

    nominal: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None
    hard_limit: Amount | None = None


class PreemptionText(Text, frozen=True, kw_only=True):
    """Which work a queue's work may evict, in which order, and for how long its own is left alone."""

    within_queue: str = "lower-priority"
    reclaim: str = "any"
    borrowing: str = "never"
    borrowing_priority_max: int | None = None
    preempt_after: str = "0s"
    reclaim_after: str = "0s"
    elastic_after: str | None = None
    victim_order: str = "share-first"


class QueueText(Text, frozen=True, kw_only=True):
    """A queue of the scenario."""

    name: str
    parent: str | None = None
    priority: int = 0
    weight: Amount = 1
    strict: bool = False
    state: str = "open"
    quotas: dict[str, QuotaText | Amount] = {}
    preemption: PreemptionText = PreemptionText()
    run_time_max: str | None = None
    half_life: str = "0s"
    reserve_after: str = "5m"
    learn_run_times: bool = False
    namespaces: list[str] = []


class BudgetText(Text, frozen=True, kw_only=True):
    """A disruption budget: of the pods with these labels so many may be evicted."""

    name: str
    labels: dict[str, str]
    allowed: int


class NeedsText(Text, frozen=True, kw_only=True):
    """What each pod asks for: whole ``gpus``, or the ``fraction`` or ``gpuMemory`` of so many.

    Whole ones may have to be near each other (``gpusWithin``).
    Any of ``models`` will do; those of ``modelOrder`` are tried one after the other.
    """

    gpus: int = 0
    fraction: Amount | None = None
    gpu_memory: Amount | None = None
    models: list[str] = []
    model_order: list[str] = []
    gpus_within: Literal["node", "numa-node", "link-group"] = "node"
    cpu: Amount = 0
    memory: Amount = 0
    resources: dict[str, int] = {}
    selector: dict[str, str] = {}
    tolerates: list[str] = []


class RoleText(NeedsText, frozen=True, kw_only=True):
    """A role of a gang: so many pods of a kind, ``min`` of which it cannot do without."""

    name: str
    pods: int = 1
    min: int | None = None


class WorkText(NeedsText, frozen=True, kw_only=True):
    """Work: one pod, ``count`` pods apart (NAME-1 and so on), or a gang of ``pods``.

    A gang starts with ``min`` of its pods, all of them unless told otherwise; with ``roles`` its pods are
    those of the roles. ``age`` is how long it has been waiting (or running) when it is told of. ``level`` is
    the topology level that a gang must share, ``preferred`` the one that it shares if it can; ``slices`` are
    sizes by level, from the wider to the narrower, of what shares a domain, with ``slicesPreferred`` only if
    it can be; ``balanced`` spreads evenly. With ``oneModel`` a gang as a whole is on one model of
    ``modelOrder``. ``runsOn`` names the node, or a node for each pod, where it runs already, for as long as
    ``runsFor`` says; ``checkpointed`` is how long ago it saved its work. What is not ``preemptible`` is never
    evicted for others, and no pod is evicted for work that does not ``preempts``. Work that has run for
    ``runTimeMax`` is evicted though no other needs its place. ``runTime`` is how long each of its pods says
    that it runs; the story ends them. ``interruptible`` work says that it may be ended at any time.
    ``evictionTakes`` is how long an evicted pod of it takes to end, where that is not as the settings say.
    A gang that has lost members ends if it does not have its minimum again within ``wholeWithin``.
    """

    name: str
    count: int | None = None
    pods: int | None = None
    min: int | None = None
    roles: list[RoleText] = []
    queue: str = ""
    namespace: str = "scenario"
    priority: int = 0
    age: str = "0s"
    level: str | None = None
    preferred: str | None = None
    slices: dict[str, int] = {}
    slices_preferred: bool = False
    balanced: bool = False
    one_model: bool = False
    runs_on: str | list[str] | None = None
    runs_for: str = "0s"
    checkpointed: str | None = None
    preemptible: bool = True
    run_time_max: str | None = None
    preempts: bool = True
    labels: dict[str, str] = {}
    run_time: str | None = None
    interruptible: bool = False
    eviction_takes: str | None = None
    whole_within: str | None = None


class ReservedText(Text, frozen=True, kw_only=True):
    """A reservation: the time at which its holder is expected to start, and the nodes, sorted."""

    start: str = "unknown"
    nodes: list[str] | None = None


class ExpectText(Text, frozen=True, kw_only=True):
    """What must be true at this moment, all of it about what is named.

    ``running``: how many pods of it have a place, or on which nodes (as often as it has pods there).
    ``waiting``: words that the reason why it waits contains; "" for any reason. ``started``: the
    work that got a place since the last moment, in this order, and no other. ``evicted``: the
    work that lost pods, with their number; ``domains``: over how many domains of a level it is spread.
    ``reserved``: the work that holds a reservation, and no other.
    """

    running: dict[str, int | str | list[str]] = {}
    waiting: dict[str, str] = {}
    started: list[str] | None = None
    evicted: dict[str, int] | None = None
    domains: dict[str, dict[str, int]] = {}
    reserved: dict[str, ReservedText] | None = None
    rejected: list[str] | None = None


class StepText(Text, frozen=True, kw_only=True):
    """Something that happens ``at`` a time, and what must follow from it."""

    at: str | None = None
    submit: list[WorkText] = []
    end: list[str] = []
    nodes: list[NodesText] = []
    remove_nodes: list[str] = []
    queues: list[QueueText] = []
    remove_queues: list[str] = []
    budgets: list[BudgetText] = []
    expect: ExpectText = ExpectText()


class ScenarioText(Text, frozen=True, kw_only=True):
    """A whole file. ``source`` names where the expected decisions come from."""

    scenario: str
    title: str
    source: str
    settings: SettingsText = SettingsText()
    topology: list[str] = []
    nodes: list[NodesText] | None = None
    queues: list[QueueText] = []
    budgets: list[BudgetText] = []
    work: list[WorkText] = []
    expect: ExpectText = ExpectText()
    steps: list[StepText] = []
