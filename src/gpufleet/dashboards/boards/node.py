"""The board of one node and its cards: what they do, how warm they are, and what is against them."""

from gpufleet.dashboards.board import (
    Board,
    Colour,
    Column,
    Meaning,
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
from gpufleet.dashboards.variables import CLUSTER, NODE, OPENS_NAMESPACE, OPENS_POD

OF_NODE = 'node=~"$node"'
CARD = "node, gpu, uuid"
BY_CARD = legend("node", "gpu")


def of_card(name: str, *more: str, by: str = CARD) -> str:
    """A figure of each card of the chosen nodes."""
    return one_per(by, series(f"gpufleet_gpu_{name}", OF_NODE, *more))


def growth_of(name: str, by: str) -> str:
    """How fast a counter of cards grows, once however often it is scraped."""
    return f"max by (cluster, {by}) ({growth(series(f'gpufleet_gpu_{name}', OF_NODE))})"


def lines(
    title: str,
    description: str,
    expression: str,
    unit: Unit,
    *,
    maximum: float | None = None,
    thresholds: tuple[Threshold, ...] = (),
) -> Panel:
    """A line for each card."""
    return lines_from_0(
        title,
        description,
        (Query(expression, BY_CARD),),
        unit,
        width=6,
        maximum=maximum,
        thresholds=thresholds,
    )


HEALTH = Row(
    "Is anything wrong?",
    (
        Panel(
            "Health of each card",
            "In service or out of it, over time. A gap means that the health was not known.",
            PanelKind.STATES,
            (Query(of_card("healthy"), BY_CARD),),
            width=12,
            meanings=(
                Meaning(0, "out of service", Colour.BAD),
                Meaning(1, "in service", Colour.GOOD),
            ),
        ),
        Panel(
            "Cards now",
            "Each card with its health, age of its readings and temperature.",
            PanelKind.TABLE,
            (
                Query(of_card("health_info", 'mig_id=""', by=f"{CARD}, state, reason")),
                Query(of_card("sample_age_seconds")),
                Query(of_card("temperature_celsius")),
            ),
            width=12,
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("node", "Node"),
                Column("gpu", "GPU"),
                Column("state", "Health"),
                Column("reason", "Reason"),
                Column(1, "Age of readings", Unit.SECONDS, (Threshold(30, Colour.WARNING),)),
                Column(2, "Temperature", Unit.CELSIUS, (Threshold(85, Colour.WARNING),)),
            ),
        ),
    ),
)

WORK = Row(
    "Work",
    (
        lines(
            "Computing",
            "Part of the time in which each card computes. A card that is cut (MIG) does not tell it.",
            of_card("busy_ratio"),
            Unit.RATIO,
            maximum=1,
        ),
        lines(
            "Memory in use",
            "Part of each card's memory that programs use. Engines for inference take all of it at the "
            "start.",
            ratio(of_card("memory_used_bytes"), of_card("memory_bytes"), CARD),
            Unit.RATIO,
            maximum=1,
        ),
        lines("Power", "What each card draws.", of_card("power_watts"), Unit.WATTS),
        lines(
            "Temperature",
            "Of each card's chip. The next panel shows how far it is from where clocks are lowered.",
            of_card("temperature_celsius"),
            Unit.CELSIUS,
        ),
    ),
)

AGAINST = Row(
    "What is against a card",
    (
        Panel(
            "Degrees until clocks are lowered",
            "The card's own limit less its temperature; below 0 the hardware lowers the clocks.",
            PanelKind.LINES,
            (
                Query(
                    f"{of_card('slowdown_celsius')} - {of_card('temperature_celsius')}",
                    BY_CARD,
                ),
            ),
            Unit.CELSIUS,
            width=6,
            below=Colour.BAD,
            thresholds=(Threshold(0, Colour.WARNING), Threshold(5, Colour.GOOD)),
        ),
        lines_from_0(
            "Time with lowered clocks, by reason",
            "Part of the time, the worst card of each node. A power cap is no fault; heat and the power "
            "brake "
            "are.",
            (
                Query(
                    "max by (cluster, node, reason) ("
                    + growth_of("throttle_seconds_total", "node, uuid, reason")
                    + ") > 0",
                    legend("node", "reason"),
                ),
            ),
            Unit.RATIO,
            width=6,
            maximum=1,
            empty_when_well="no card lowers its clocks",
        ),
        lines_from_0(
            "Xids by what follows, in 1 h",
            "Reports of the driver. Class pod is a program's fault; reset and gone take the card out of "
            "service.",
            (
                Query(
                    "sum by (cluster, node, class) (max by (cluster, node, uuid, class) (increase("
                    + series("gpufleet_gpu_xid_events_total", OF_NODE)
                    + "[1h]))) > 0",
                    legend("node", "class"),
                ),
            ),
            Unit.COUNT,
            width=6,
            empty_when_well="the driver reports no Xid",
        ),
        lines_from_0(
            "Uncorrected memory errors in 1 h",
            "Data was lost. The card needs a reset when nothing runs on it.",
            (
                Query(
                    "max by (cluster, node, gpu, uuid) (increase("
                    + series("gpufleet_gpu_uncorrected_errors_total", OF_NODE)
                    + "[1h])) > 0",
                    BY_CARD,
                ),
            ),
            Unit.COUNT,
            width=6,
            empty_when_well="memory has no errors",
        ),
        lines_from_0(
            "Errors of NVLink in 1 h, by kind",
            "Errors over all links of the nodes' cards. Some at the start, while links are trained, are "
            "normal.",
            (
                Query(
                    "sum by (cluster, node, kind) (max by (cluster, node, uuid, kind) (increase("
                    + series("gpufleet_gpu_nvlink_errors_total", OF_NODE)
                    + "[1h]))) > 0",
                    legend("node", "kind"),
                ),
            ),
            Unit.COUNT,
            width=8,
            empty_when_well="links have no errors",
        ),
        lines_from_0(
            "PCI Express: packets sent again in 1 h",
            "Of each card. A few are normal.",
            (
                Query(
                    "max by (cluster, node, gpu, uuid) (increase("
                    + series("gpufleet_gpu_pcie_replays_total", OF_NODE)
                    + "[1h])) > 0",
                    BY_CARD,
                ),
            ),
            Unit.COUNT,
            width=8,
            empty_when_well="no packet is sent again",
        ),
        lines_from_0(
            "PCI Express: lanes in use",
            "The most lanes within ten minutes, as some cards use fewer while they idle.",
            (
                Query(
                    "max by (cluster, node, gpu, uuid) (max_over_time("
                    + series("gpufleet_gpu_pcie_link_width", OF_NODE)
                    + "[10m]))",
                    BY_CARD,
                ),
            ),
            Unit.COUNT,
            width=8,
            maximum=16,
        ),
    ),
)

HOLDERS = Row(
    "Pods on the cards",
    (
        Panel(
            "Pods and their parts",
            "What each pod holds of a card, and the part of the time in which it computes there.",
            PanelKind.TABLE,
            (
                Query(
                    one_per(
                        "node, gpu, uuid, mig_id, mode, namespace, pod",
                        series("gpufleet_pod_gpu_held_ratio", OF_NODE),
                    )
                ),
                Query(
                    one_per(
                        "node, gpu, uuid, mig_id, mode, namespace, pod",
                        series("gpufleet_pod_gpu_used_ratio", OF_NODE),
                    )
                ),
            ),
            width=24,
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("node", "Node"),
                Column("gpu", "GPU"),
                Column("mode", "Mode"),
                Column("namespace", "Namespace", opens=OPENS_NAMESPACE),
                Column("pod", "Pod", opens=OPENS_POD),
                Column(0, "Holds", Unit.RATIO),
                Column(1, "Computes", Unit.RATIO),
            ),
            empty_when_well="no pod holds a card",
        ),
    ),
)

NODE_AND_CARD = Board(
    "gpufleet-node",
    "Node and card",
    "For those who look after machines: what each card does, how warm it is, and what is against it.",
    (HEALTH, WORK, AGAINST, HOLDERS),
    (CLUSTER, NODE),
)
