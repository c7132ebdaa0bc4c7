"""The board of those who run work: what their pods hold, what they use of it, and why others wait."""

from gpufleet.dashboards.board import (
    Board,
    Colour,
    Column,
    Panel,
    PanelKind,
    Query,
    QueryKind,
    Row,
    Threshold,
    Unit,
)
from gpufleet.dashboards.lines import lines_from_0
from gpufleet.dashboards.promql import growth, legend, one_per, ratio, series
from gpufleet.dashboards.variables import CLUSTER, NAMESPACE, POD

JOULES_A_KWH = 3_600_000
"""A kilowatt-hour is so many joules."""

CHOSEN = ('namespace=~"$namespace"', 'pod=~"$pod"')
PART = "namespace, pod, node, uuid, mig_id"
OF_POD = "namespace, pod"
BY_POD = legend("namespace", "pod")


def part(name: str) -> str:
    """A figure of each part of a card that the chosen pods hold."""
    return one_per(PART, series(f"gpufleet_pod_gpu_{name}", *CHOSEN))


def of_pod(name: str) -> str:
    """The sum over all parts of a pod."""
    return f"sum by (cluster, {OF_POD}) ({part(name)})"


USED_GPUS = f"sum by (cluster, {OF_POD}) ({part('held_ratio')} * on (cluster, {PART}) {part('used_ratio')})"
MEMORY_SHARE = ratio(of_pod("memory_used_bytes"), of_pod("memory_held_bytes"), OF_POD)

NOW = Row(
    "What do my pods use?",
    (
        Panel(
            "Pods",
            "What each pod holds, uses, and has of memory. Computing far below what is held means that a "
            "smaller part would do.",
            PanelKind.TABLE,
            (
                Query(of_pod("held_ratio")),
                Query(USED_GPUS),
                Query(of_pod("memory_held_bytes")),
                Query(of_pod("memory_used_bytes")),
                Query(MEMORY_SHARE),
            ),
            width=24,
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column(0, "GPUs held", Unit.COUNT),
                Column(1, "GPUs computing", Unit.COUNT),
                Column(2, "Memory held", Unit.BYTES),
                Column(3, "Memory used", Unit.BYTES),
                Column(4, "Memory used of held", Unit.RATIO, (Threshold(0.97, Colour.WARNING),)),
            ),
            empty_when_well="no pod holds a GPU",
        ),
    ),
)

USE = Row(
    "Use over time",
    (
        lines_from_0(
            "GPUs held",
            "What each pod holds, in whole GPUs.",
            (Query(of_pod("held_ratio"), BY_POD),),
            Unit.COUNT,
            width=8,
            empty_when_well="no pod holds a GPU",
        ),
        lines_from_0(
            "GPUs computing",
            "What each pod holds by the part of the time in which it computes there. Absent where the card "
            "does "
            "not tell whose computing it is.",
            (Query(USED_GPUS, BY_POD),),
            Unit.COUNT,
            width=8,
            empty_when_well="no pod holds a GPU",
        ),
        lines_from_0(
            "Memory used of what is held",
            "At 100 % the next allocation fails. Engines for inference take nearly all at the start.",
            (Query(MEMORY_SHARE, BY_POD),),
            Unit.RATIO,
            width=8,
            maximum=1,
            empty_when_well="no pod holds a GPU",
        ),
        lines_from_0(
            "Power",
            "The pod's part of what its cards draw.",
            (
                Query(
                    f"sum by (cluster, {OF_POD}) (max by (cluster, {PART}) ("
                    + growth(series("gpufleet_pod_gpu_energy_joules_total", *CHOSEN))
                    + "))",
                    BY_POD,
                ),
            ),
            Unit.WATTS,
            width=8,
            empty_when_well="no pod holds a GPU",
        ),
        lines_from_0(
            "Pods of the scheduler by state",
            "All pods of the cluster, not of the chosen namespace alone.",
            (Query(one_per("state", series("gpufleet_scheduler_pods")), legend("state")),),
            Unit.COUNT,
            width=8,
        ),
        Panel(
            "Why does a pod wait?",
            "Where the answer for one pod is.",
            PanelKind.TEXT,
            (),
            width=8,
            text="A pod that waits has no figures here. `gpufleet explain POD -n NAMESPACE` says why it "
            "waits, its "
            "position in the queue, the start that is expected, and the nearest way out. The pod's condition "
            "`PodScheduled` has the same words. The board *Queues* shows who else waits.",
        ),
        Panel(
            "Energy of each pod",
            "The pod's part of what its cards drew, in the time shown.",
            PanelKind.BARS,
            (
                Query(
                    f"sum by (cluster, {OF_POD}) (max by (cluster, {PART}) (increase("
                    + series("gpufleet_pod_gpu_energy_joules_total", *CHOSEN)
                    + f"[$__range]))) / {JOULES_A_KWH}",
                    BY_POD,
                ),
            ),
            Unit.KILOWATT_HOURS,
            width=12,
            at=QueryKind.NOW,
            below=Colour.NEUTRAL,
            minimum=0,
            empty_when_well="no pod holds a GPU",
        ),
        lines_from_0(
            "Pods taken back, by reason",
            "Pods that were told to end for queues' sake, between two points. All pods of the cluster, not "
            "of the chosen namespace alone; Events of a pod say for which work it had to end.",
            (
                Query(
                    "sum by (cluster, reason) (increase("
                    + series("gpufleet_scheduler_queue_evictions_total")
                    + "[$__rate_interval])) > 0",
                    legend("reason"),
                ),
            ),
            Unit.COUNT,
            width=12,
            empty_when_well="no pod was taken back",
        ),
    ),
)

WORKLOAD = Board(
    "gpufleet-workload",
    "Workload",
    "For those who run work: what their pods hold, and what they use of it.",
    (NOW, USE),
    (CLUSTER, NAMESPACE, POD),
)
