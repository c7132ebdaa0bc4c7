"""The board of those who share the fleet: what each queue holds and is owed, who waits, and for how long."""

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
from gpufleet.dashboards.promql import legend, one_per, series
from gpufleet.dashboards.variables import CLUSTER, QUEUE

OF_QUEUE = 'queue=~"$queue"'
GPUS = 'resource="gpu"'
HOUR_S = 3600.0


def of_queue(name: str, *more: str, by: str = "queue") -> str:
    """A figure of the chosen queues, once for each."""
    return one_per(by, series(f"gpufleet_scheduler_{name}", OF_QUEUE, *more))


def gpus(name: str) -> str:
    """An amount of GPUs of the chosen queues."""
    return of_queue(f"queue_{name}", GPUS)


OLDEST = of_queue("oldest_wait_seconds", by="queue, cause")
PENDING = of_queue("queue_pending_pods", by="queue, reason")
ACTIVE = of_queue("queue_active")
NEVER = of_queue("never_fits_pods", by="queue, cause")


def tile(
    title: str,
    description: str,
    expression: str,
    unit: Unit = Unit.COUNT,
    thresholds: tuple[Threshold, ...] = (),
) -> Panel:
    """A figure at the head."""
    return Panel(
        title,
        description,
        PanelKind.STAT,
        (Query(expression),),
        unit,
        width=6,
        height=4,
        at=QueryKind.NOW,
        below=Colour.GOOD if thresholds else Colour.NEUTRAL,
        thresholds=thresholds,
        no_value="not known",
    )


NOW = Row(
    "What waits?",
    (
        tile(
            "Pods that wait",
            "Pods that wait in the chosen queues.",
            f"sum({PENDING}) or 0 * count({ACTIVE})",
        ),
        tile(
            "Oldest wait",
            "Age of the pod that waits longest, for whatever cause.",
            f"max({OLDEST}) or 0 * count({ACTIVE})",
            Unit.SECONDS,
            (Threshold(HOUR_S, Colour.WARNING),),
        ),
        tile(
            "Pods that never fit",
            "Pods that start only after they, their queue or the nodes are changed.",
            f"sum({NEVER}) or 0 * count({ACTIVE})",
            thresholds=(Threshold(1, Colour.WARNING),),
        ),
        tile(
            "Queues that start nothing",
            "Queues in which no work may start because of the queue itself, or one above it.",
            f"count({ACTIVE} == 0) or 0 * count({ACTIVE})",
            thresholds=(Threshold(1, Colour.WARNING),),
        ),
        Panel(
            "GPUs of each queue",
            "Used: what its pods hold, with those of queues below. Fair share: what it would hold if all "
            "were "
            "divided anew, as far as it wants it. Nominal: what it is owed by itself.",
            PanelKind.TABLE,
            (
                Query(gpus("used")),
                Query(gpus("fair_share")),
                Query(gpus("nominal")),
                Query(gpus("borrowed")),
                Query(gpus("lent")),
                Query(f"sum by (cluster, queue) ({PENDING}) or 0 * {ACTIVE}"),
                Query(f"max by (cluster, queue) ({OLDEST}) or 0 * {ACTIVE}"),
            ),
            width=24,
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("queue", "Queue"),
                Column(0, "Used", Unit.COUNT),
                Column(1, "Fair share", Unit.COUNT),
                Column(2, "Nominal", Unit.COUNT),
                Column(3, "Borrowed", Unit.COUNT),
                Column(4, "Lent", Unit.COUNT),
                Column(5, "Pods that wait", Unit.COUNT),
                Column(6, "Oldest wait", Unit.SECONDS, (Threshold(HOUR_S, Colour.WARNING),)),
            ),
        ),
    ),
)

SHARES = Row(
    "Shares",
    (
        lines_from_0(
            "GPUs used",
            "What pods of each queue hold. A queue with queues below it includes these.",
            (Query(gpus("used"), legend("queue")),),
            Unit.COUNT,
            width=8,
        ),
        Panel(
            "GPUs owed and not held",
            "Fair share less use. Above 0 while work of the queue waits, the queue has less than it is owed.",
            PanelKind.LINES,
            (Query(f"{gpus('fair_share')} - {gpus('used')}", legend("queue")),),
            Unit.COUNT,
            width=8,
        ),
        lines_from_0(
            "GPUs borrowed",
            "What each queue holds of the quota of others; it is taken back first.",
            (Query(gpus("borrowed"), legend("queue")),),
            Unit.COUNT,
            width=8,
        ),
    ),
)

WAITS = Row(
    "Waits",
    (
        lines_from_0(
            "Oldest wait by cause",
            "Age of the pod that waits longest for each cause; docs/explain.md says what each cause means.",
            (Query(f"max by (cluster, cause) ({OLDEST})", legend("cause")),),
            Unit.SECONDS,
            width=8,
            empty_when_well="no pod waits",
        ),
        lines_from_0(
            "Pods that wait, by reason",
            "Pods that wait in the chosen queues, by reason.",
            (Query(f"sum by (cluster, reason) ({PENDING})", legend("reason")),),
            Unit.COUNT,
            width=8,
            is_stacked=True,
            empty_when_well="no pod waits",
        ),
        Panel(
            "Waits until the start",
            "How long pods that were started had waited: each column counts the starts of its time, each "
            "line "
            "is a range of waits.",
            PanelKind.HEATMAP,
            (
                Query(
                    "sum by (le) (increase("
                    + series("gpufleet_scheduler_queue_wait_seconds_bucket", OF_QUEUE)
                    + "[$__rate_interval]))",
                    "{{le}}",
                ),
            ),
            Unit.SECONDS,
            width=8,
        ),
    ),
)

TROUBLE = Row(
    "What goes wrong",
    (
        lines_from_0(
            "Pods taken back, by queue and reason",
            "Pods of the chosen queues that were told to end for queues' sake, between two points.",
            (
                Query(
                    "sum by (cluster, queue, reason) (increase("
                    + series("gpufleet_scheduler_queue_evictions_total", OF_QUEUE)
                    + "[$__rate_interval])) > 0",
                    legend("queue", "reason"),
                ),
            ),
            Unit.COUNT,
            width=6,
            empty_when_well="no pod was taken back",
        ),
        lines_from_0(
            "Pods that never fit, by cause",
            "Pods that start only after they, their queue or the nodes are changed.",
            (Query(NEVER, legend("queue", "cause")),),
            Unit.COUNT,
            width=6,
            empty_when_well="every pod that waits can start some day",
        ),
        lines_from_0(
            "Gangs in part",
            "For how long the oldest gang of each queue has run with fewer members than it needs.",
            (Query(of_queue("partial_gang_seconds"), legend("queue")),),
            Unit.SECONDS,
            width=6,
            empty_when_well="no gang runs in part",
        ),
        lines_from_0(
            "Reservations that are overdue",
            "By how much the start that a reservation expected has passed, the worst of each queue.",
            (Query(of_queue("reservation_overdue_seconds"), legend("queue")),),
            Unit.SECONDS,
            width=6,
            empty_when_well="no reservation is overdue",
        ),
    ),
)

QUEUES = Board(
    "gpufleet-queues",
    "Queues",
    "For those who share the fleet: what each queue holds and is owed, who waits, and for how long.",
    (NOW, SHARES, WAITS, TROUBLE),
    (CLUSTER, QUEUE),
)
