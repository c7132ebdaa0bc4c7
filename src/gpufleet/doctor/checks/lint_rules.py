"""Checks that are a rule of ``lint`` asked about what runs: one table.

The rule says what is wrong and what helps; a row says what else the doctor has to know: the place of the
check on the list, why it matters now, and which objects the rule is asked about.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpufleet.doctor.check import (
    Check,
    Failure,
    Good,
    Grade,
    Layer,
    Point,
    Remedy,
    Unjudged,
    Verdicts,
    listed,
)
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.doctor.views.growth import overdue
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding
from gpufleet.lint.rules import rule_of
from gpufleet.lint.source.fields import Field
from gpufleet.model.phrases import counted

Chosen = Callable[[Workload], bool]
_MAY_BE_SECRET = frozenset({"env", "args", "command", "annotations"})
"""Fields with values that are never shown: tokens stand in all of these in practice."""


def _every(_: Facts) -> Chosen:
    return lambda _workload: True


def _on_gpu_nodes(facts: Facts) -> Chosen:
    """Workloads with a pod on a node that has GPUs."""
    return lambda one: any(pod.node in facts.gpu_node_names for pod in one.pods)


def _not_placed(_: Facts) -> Chosen:
    """Workloads with a pod that waits, or without pods.

    A pod that runs tolerates its node, whatever its template says: in many clusters the server adds
    tolerations.
    """
    return lambda one: not one.pods or any(pod.waits for pod in one.pods)


def _always(_: Facts) -> bool:
    return True


def _has_operator(facts: Facts) -> bool:
    """Without NVIDIA's operator no object tells which runtime the nodes use."""
    return bool(facts.of_kind("ClusterPolicy", group="nvidia.com"))


def _taints(facts: Facts, manifest: Manifest) -> tuple[str, ...]:
    """The taints of the nodes that have what the workload asks for, and how many have each."""
    cluster = facts.cluster
    found = (cluster.candidates(one) or cluster.nodes_for(one) for one in manifest.templates)
    nodes = {node.name: node for of_template in found for node in of_template}
    counts = Counter(str(taint) for node in nodes.values() for taint in node.taints)
    return tuple(
        f"{taint}: on {count} of {counted(len(nodes), 'node')}" for taint, count in counts.most_common()
    )


@dataclass(frozen=True)
class RuleCheck:
    """A row: a check, and the rule that it asks.

    ``right`` is the sentence for where nothing was found. The rule is asked about workloads, those of them
    that ``only`` chooses, or about every object of ``kinds``; and not at all where ``where`` says no. What
    was seen of an object that is wrong is the field that the rule names, or what ``seen`` says.
    """

    id: str
    rule_id: str
    point: Point
    layer: Layer
    grade: Grade
    title: str
    why: str
    right: str
    reads: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    only: Callable[[Facts], Chosen] = _every
    where: Callable[[Facts], bool] = _always
    seen: Callable[[Facts, Manifest], tuple[str, ...]] | None = None

    @property
    def check(self) -> Check:
        """The row as a check."""
        return Check(
            self.id, self.point, self.layer, self.title, self.why, self.judge, self.reads, self.grade
        )

    def judge(self, facts: Facts) -> Verdicts:
        """What the rule says of what runs. Objects of which it says the same are one failure."""
        rule = rule_of(self.rule_id)
        concerned = [one for one in self._subjects(facts) if rule.concerns(one[0])]
        found: dict[tuple[str, str], list[tuple[Manifest, frozenset[str], RuleFinding]]] = {}
        lacks: set[str] = set()
        for manifest, affects in concerned:
            for verdict in rule.check(manifest, facts.context):
                if isinstance(verdict, RuleFinding):
                    found.setdefault((verdict.says, verdict.advice), []).append((manifest, affects, verdict))
                else:
                    lacks.add(verdict.lacks)
        for group in found.values():
            yield _failure(rule, group, self.seen(facts, group[0][0]) if self.seen is not None else ())
        if concerned and not found:
            unknown = f"{rule.title}: it would need {listed(sorted(lacks))}"
            yield Unjudged(unknown) if lacks else Good(self.right)

    def _subjects(self, facts: Facts) -> Iterator[tuple[Manifest, frozenset[str]]]:
        """The objects that the rule is asked about, each with the titles of what suffers with it."""
        if not self.where(facts):
            return
        if self.kinds:
            yield from ((one, frozenset({one.title})) for one in facts.of_kind(*self.kinds))
        else:
            chosen = self.only(facts)
            yield from ((one.manifest, one.affects) for one in facts.workloads if chosen(one))


def _failure(
    rule: Rule, group: list[tuple[Manifest, frozenset[str], RuleFinding]], seen: tuple[str, ...]
) -> Failure:
    titles = list(dict.fromkeys(manifest.title for manifest, _, _ in group))
    manifest, _, remark = group[0]
    evidence = seen or _shown(remark.field)
    how = Remedy(remark.advice, f"gpufleet lint --explain {rule.id}")
    difference = f"{get_command(manifest)} -o yaml | gpufleet lint - --live --diff"
    mends = (how, Remedy("see what mends it", difference)) if remark.fix is not None else (how,)
    affected = frozenset[str]().union(*(affects for _, affects, _ in group))
    return Failure(f"{listed(titles)}: {remark.says}", tuple(titles), evidence, mends, affected)


def _shown(field: Field) -> tuple[str, ...]:
    """The field with what stands there; of what may be a secret only where it stands."""
    if not field.exists:
        return (f"{field.path}: not said",)
    if field.text and not _MAY_BE_SECRET & set(field.keys):
        return (f"{field.path}: {field.text}",)
    return (field.path,)


AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
ROWS = (
    RuleCheck(
        "runtime-class-missing",
        "GPU010",
        Point.STACK,
        Layer.ADMISSION,
        Grade.BROKEN,
        "RuntimeClasses that are named exist",
        "The API server refuses pods of a RuntimeClass that it does not know:"
        " not even a pending one is seen.",
        "every RuntimeClass that a GPU workload names exists",
        ("RuntimeClass",),
    ),
    RuleCheck(
        "runtime-class-unnamed",
        "GPU009",
        Point.STACK,
        Layer.START,
        Grade.BROKEN,
        "GPU work names the RuntimeClass that nodes need",
        "Where NVIDIA's runtime is not the default, only pods of its class find their GPUs.",
        "GPU work gets NVIDIA's runtime",
        ("ClusterPolicy",),
        where=_has_operator,
    ),
    RuleCheck(
        "selector-matches-nothing",
        "GPU019",
        Point.PLACING,
        Layer.PLACEMENT,
        Grade.BROKEN,
        "Selectors of GPU work match nodes",
        "A selector is compared letter by letter; one that matches nothing waits for ever without an error.",
        "every selector of GPU work matches a node",
        ("Node",),
        only=overdue,
    ),
    RuleCheck(
        "taint-untolerated",
        "GPU016",
        Point.PLACING,
        Layer.PLACEMENT,
        Grade.BROKEN,
        "GPU work tolerates the taints of GPU nodes",
        "A taint keeps every pod away that does not tolerate it, also the one that the node is for.",
        "every GPU workload tolerates the taints of some GPU node",
        ("Node",),
        only=_not_placed,
        seen=_taints,
    ),
    RuleCheck(
        "mig-profile-impossible",
        "GPU042",
        Point.SHARING,
        Layer.OFFER,
        Grade.BROKEN,
        "MIG profiles that pods ask for exist",
        "Each card has its own profiles: 3g.20gb is of an A100 with 40 GB, 3g.40gb of one with 80 GB.",
        "some card can be cut into every MIG profile that is asked for",
        ("Node",),
    ),
    RuleCheck(
        "mig-strategies-mixed",
        "GPU043",
        Point.SHARING,
        Layer.PRACTICE,
        Grade.RISK,
        "A resource means the same on every node",
        "A pod that is written for a whole GPU may land on a seventh of one.",
        "nvidia.com/gpu means the same on every node that may take GPU work",
        ("Node",),
    ),
    RuleCheck(
        "shares-hidden",
        "GPU040",
        Point.SHARING,
        Layer.PRACTICE,
        Grade.RISK,
        "Shares have a name of their own",
        "A pod that asks for a GPU or an instance gets a part of it, and cost and quotas count it as whole.",
        "no plugin offers shares under the name of whole GPUs or instances",
        ("ConfigMap",),
        kinds=("ConfigMap",),
    ),
    RuleCheck(
        "shares-several",
        "GPU039",
        Point.SHARING,
        Layer.PRACTICE,
        Grade.RISK,
        "A pod asks for one share of a GPU",
        "Two shares may be of the same card, and then are no more than one.",
        "no container asks for several shares",
        ("Node",),
    ),
    RuleCheck(
        "quota-keys",
        "GPU051",
        Point.QUOTAS,
        Layer.ADMISSION,
        Grade.RISK,
        "Quotas count GPUs",
        "Of an extended resource only requests are counted: a quota on limits.nvidia.com/gpu limits nothing.",
        "every quota on GPUs counts requests",
        ("ResourceQuota", "LimitRange"),
        kinds=("ResourceQuota", "LimitRange"),
    ),
    RuleCheck(
        "alert-metric-unserved",
        "GPU054",
        Point.WATCHING,
        Layer.PRACTICE,
        Grade.RISK,
        "Alerts look at metrics that are served",
        "An expression on a metric that is not there is empty, and its alert is silent for ever.",
        "no alert looks at a metric of GPUs that exporters do not serve",
        ("PrometheusRule",),
        kinds=("PrometheusRule",),
    ),
    RuleCheck(
        "node-pool-open",
        "GPU050",
        Point.SCALING,
        Layer.PRACTICE,
        Grade.RISK,
        "Pools of GPU nodes are tainted, bounded and served",
        "Without a taint any pod brings a GPU node; without limits there is no end to them, nor to the bill.",
        "every NodePool of GPU nodes has a taint and limits",
        ("NodePool",),
        kinds=("NodePool",),
    ),
    RuleCheck(
        "scaled-on-cpu",
        "GPU027",
        Point.SCALING,
        Layer.PRACTICE,
        Grade.RISK,
        "GPU work is scaled by what waits, not by CPU",
        "A GPU server is full while its CPU has little to do, so such an autoscaler comes too late or never.",
        "no autoscaler of GPU work looks at CPU alone",
        ("HorizontalPodAutoscaler",),
        kinds=AUTOSCALERS,
    ),
    RuleCheck(
        "scaled-on-utilization",
        "GPU028",
        Point.SCALING,
        Layer.PRACTICE,
        Grade.RISK,
        "GPU work is scaled by what waits, not by GPU utilization",
        "That utilization says that some kernel runs, not how much of the GPU it takes:"
        " one request makes 100%.",
        "no autoscaler looks at DCGM_FI_DEV_GPU_UTIL",
        ("HorizontalPodAutoscaler",),
        kinds=AUTOSCALERS,
    ),
    RuleCheck(
        "devices-by-variable",
        "GPU004",
        Point.SECURITY,
        Layer.PRACTICE,
        Grade.RISK,
        "GPUs are asked for, not taken by NVIDIA_VISIBLE_DEVICES",
        "A container that names devices in that variable runs on GPUs that are given to other pods.",
        "no workload takes GPUs by a variable",
        ("Pod", "Node"),
        only=_on_gpu_nodes,
    ),
    RuleCheck(
        "gpu-work-privileged",
        "GPU006",
        Point.SECURITY,
        Layer.PRACTICE,
        Grade.RISK,
        "GPU work runs without privileges",
        "A privileged container sees every GPU of its node, and may do with the node what it likes.",
        "no GPU workload is privileged",
        ("Pod", "Node"),
        only=_on_gpu_nodes,
    ),
    RuleCheck(
        "devices-mounted",
        "GPU007",
        Point.SECURITY,
        Layer.PRACTICE,
        Grade.RISK,
        "GPUs come from the device plugin, not from hostPath",
        "A GPU that is mounted is not counted, so another pod is given it too.",
        "no workload mounts device files of GPUs",
        ("Pod", "Node"),
        only=_on_gpu_nodes,
    ),
)
CHECKS = tuple(row.check for row in ROWS)
