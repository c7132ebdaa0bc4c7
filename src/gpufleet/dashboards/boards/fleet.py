"""The board of those who run the fleet: whether anything is wrong, what is free, and what keeps cards out."""

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
from gpufleet.dashboards.card_queries import BUSY, CARDS, HELD, IN_SERVICE, OUT_OF_SERVICE, room_for
from gpufleet.dashboards.lines import lines_from_0
from gpufleet.dashboards.promql import count_among, legend, one_per, series
from gpufleet.dashboards.variables import CLUSTER, OPENS_NAMESPACE, OPENS_NODE, OPENS_POD, OPENS_QUEUE

OURS = (
    'alertname=~"(GPU|Agent|Gang|S(cheduler|caleUp)|Queue|Quota|Reservation|PodNever|Node(s|C)|Bind|Kubelet|Objects'
    '|Credential|Token|Metrics|Admission|Rollout|Parking|Expander|Budget).+"'
)
"""Names of our alerts; Prometheus has those of others too."""
ANY = (Threshold(1, Colour.BAD),)
ANY_WARNS = (Threshold(1, Colour.WARNING),)
REPORTING = one_per("node", series("gpufleet_scheduler_node_report"))
SCRAPED = one_per("node", series("gpufleet_agent_info"))
# It always fires: no other alert beside it is health, and without it no rules are loaded.
HEARTBEAT = series("ALERTS", 'alertname="Heartbeat"')


def alerts(severity: str) -> str:
    """How many of our alerts of a severity fire; absent where the rules are not loaded."""
    firing = series("ALERTS", 'alertstate="firing"', f'severity="{severity}"', OURS)
    return count_among(firing, HEARTBEAT)


def tile(title: str, description: str, expression: str, thresholds: tuple[Threshold, ...]) -> Panel:
    """One of the figures at the head, which are 0 in health."""
    return Panel(
        title,
        description,
        PanelKind.STAT,
        (Query(expression),),
        Unit.COUNT,
        width=4,
        height=4,
        at=QueryKind.NOW,
        thresholds=thresholds,
        decimals=0,
        no_value="not known",
    )


WRONG = Row(
    "Is anything wrong?",
    (
        tile(
            "Critical alerts",
            "Alerts of gpufleet that fire with severity critical: work is being lost now. Not known where "
            "Prometheus does not load the alert rules.",
            alerts("critical"),
            ANY,
        ),
        tile("Warnings", "Alerts of gpufleet that fire with severity warning.", alerts("warning"), ANY_WARNS),
        tile(
            "Cards out of service",
            "Cards whose health is known and that get no new work. A card that is lost stays in this figure "
            "as long as its agent knows it.",
            count_among(OUT_OF_SERVICE, one_per("node, uuid", series("gpufleet_gpu_healthy"))),
            ANY_WARNS,
        ),
        tile(
            "Silent agents",
            "Nodes that reported GPUs to the scheduler and whose agent is not scraped.",
            count_among(f"{REPORTING} unless on (cluster, node) {SCRAPED}", REPORTING),
            ANY_WARNS,
        ),
        tile(
            "Clusters without one leader",
            "Clusters whose schedulers have no leader, or two.",
            count_among(
                f"sum by (cluster) ({series('gpufleet_scheduler_leader')}) != 1",
                one_per("", series("gpufleet_scheduler_leader")),
            ),
            ANY,
        ),
        tile(
            "Pods that never fit",
            "Pods that start only after the pod, its queue or the nodes are changed.",
            "sum("
            + one_per("queue, cause", series("gpufleet_scheduler_never_fits_pods"))
            + ") or 0 * count("
            + one_per("", series("gpufleet_scheduler_leader"))
            + ")",
            ANY_WARNS,
        ),
        Panel(
            "Alerts that fire",
            "Critical alerts and warnings of gpufleet with what they are about; docs/alerts.md says of each "
            "what to do.",
            PanelKind.TABLE,
            (
                Query(
                    "count by (cluster, severity, alertname, node, gpu, queue, namespace, pod) ("
                    + series("ALERTS", 'alertstate="firing"', 'severity=~"critical|warning"', OURS)
                    + ")"
                ),
            ),
            width=24,
            height=8,
            at=QueryKind.NOW,
            columns=(
                Column("severity", "Severity"),
                Column("alertname", "Alert"),
                Column("cluster", "Cluster"),
                Column("node", "Node", opens=OPENS_NODE),
                Column("gpu", "GPU"),
                Column("queue", "Queue", opens=OPENS_QUEUE),
                Column("namespace", "Namespace", opens=OPENS_NAMESPACE),
                Column("pod", "Pod", opens=OPENS_POD),
            ),
            no_value="No data: no alert fires, or Prometheus does not load the rules",
            empty_when_well="no alert fires",
        ),
    ),
)

STEPS = (
    Query(f"count({CARDS})", "present"),
    Query(f"count({IN_SERVICE}) or 0 * count({CARDS})", "in service"),
    Query(f"sum({HELD}) or 0 * count({CARDS})", "held by pods"),
    Query(f"sum({BUSY})", "computing"),
)
ROOM = tuple(Query(room_for(gpus), f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs") for gpus in (1, 2, 4, 8))

CAPACITY = Row(
    "Capacity",
    (
        Panel(
            "GPUs now, in four steps",
            "Cards that agents see, those in service, the parts of cards that pods hold, and the part of the "
            "time in which cards compute. Each step is part of the one before.",
            PanelKind.BARS,
            STEPS,
            Unit.COUNT,
            width=8,
            at=QueryKind.NOW,
            below=Colour.NEUTRAL,
            minimum=0,
            decimals=1,
        ),
        lines_from_0(
            "GPUs over time",
            "GPUs that are present, in service, held and computing. What is held and does not compute is "
            "between the two lower lines.",
            STEPS,
            Unit.COUNT,
            width=8,
        ),
        Panel(
            "Room for pods of so many GPUs",
            "How many pods with 1, 2, 4 or 8 whole GPUs of one node the free cards have room for. Taints, "
            "selectors and quotas are not regarded; gpufleet explain does so.",
            PanelKind.BARS,
            ROOM,
            Unit.COUNT,
            width=8,
            at=QueryKind.NOW,
            below=Colour.NEUTRAL,
            minimum=0,
            decimals=0,
        ),
    ),
)

HEALTH = Row(
    "Health and waiting",
    (
        lines_from_0(
            "Cards out of service by reason",
            "Cards by the kind of reason. Recovering ends by itself; docs/agent.md says what to do for "
            "others.",
            (
                Query(
                    "count by (cluster, reason) ("
                    + one_per(
                        "node, uuid, reason",
                        series("gpufleet_gpu_health_info", 'state="unhealthy"', 'mig_id=""'),
                    )
                    + ")",
                    legend("reason"),
                ),
            ),
            Unit.COUNT,
            height=6,
            is_stacked=True,
            empty_when_well="no card is out of service",
        ),
        lines_from_0(
            "Pods that wait, by reason",
            "Pods in queues by the first reason for which they wait.",
            (
                Query(
                    "sum by (cluster, reason) ("
                    + one_per("queue, reason", series("gpufleet_scheduler_queue_pending_pods"))
                    + ")",
                    legend("reason"),
                ),
            ),
            Unit.COUNT,
            height=6,
            is_stacked=True,
            empty_when_well="no pod waits in a queue",
        ),
        lines_from_0(
            "Nodes: of the autoscaler, and with a report of GPUs",
            "Nodes by state as Cluster Autoscaler counts them, and nodes whose GPUs the scheduler knows. "
            "Nodes that are ready and report nothing get no work with GPUs.",
            (
                Query(f"count({REPORTING})", "report GPUs"),
                Query(
                    one_per("state", series("cluster_autoscaler_nodes_count")),
                    f"autoscaler: {legend('state')}",
                ),
            ),
            Unit.COUNT,
            height=6,
            width=24,
            empty_when_well="no autoscaler is scraped",
        ),
        Panel(
            "Which cards are out",
            "Cards that get no new work, with the kind of reason. The whole reason: kubectl get nodedevices "
            "NODE -o yaml.",
            PanelKind.TABLE,
            (
                Query(
                    one_per(
                        "node, gpu, uuid, reason",
                        series("gpufleet_gpu_health_info", 'state="unhealthy"', 'mig_id=""'),
                    )
                ),
            ),
            height=6,
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("node", "Node", opens=OPENS_NODE),
                Column("gpu", "GPU"),
                Column("reason", "Reason"),
                Column("uuid", "Card"),
            ),
            empty_when_well="no card is out of service",
        ),
        Panel(
            "Cards of each node",
            "Cards of each node in service, and what pods hold of them.",
            PanelKind.TABLE,
            (
                Query(f"count by (cluster, node) ({CARDS})"),
                Query(f"count by (cluster, node) ({IN_SERVICE})"),
                Query(f"sum by (cluster, node) ({HELD}) or 0 * count by (cluster, node) ({CARDS})"),
                Query(f"avg by (cluster, node) ({BUSY})"),
            ),
            height=6,
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("node", "Node", opens=OPENS_NODE),
                Column(0, "Cards", Unit.COUNT),
                Column(1, "In service", Unit.COUNT),
                Column(2, "Held", Unit.COUNT),
                Column(3, "Computing", Unit.RATIO),
            ),
        ),
    ),
)

FLEET = Board(
    "gpufleet-fleet",
    "Fleet",
    "For those who run the fleet: what is wrong, what is free, and what keeps cards out of service.",
    (WRONG, CAPACITY, HEALTH),
    (CLUSTER,),
)
