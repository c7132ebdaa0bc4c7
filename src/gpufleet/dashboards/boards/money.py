"""The board of those who pay: GPU-hours that were held, computed and idled, and their cost at a typed price.

Hours are counted from samples of the time shown. Nothing of them is a bill: the price is the reader's own,
one for all models, and hours before the first sample are not known. Budgets are those of the ledger, which
knows prices.
"""

from gpufleet.dashboards.board import (
    Board,
    Colour,
    Column,
    Panel,
    PanelKind,
    Query,
    QueryKind,
    Row,
    TextVariable,
    Threshold,
    Unit,
)
from gpufleet.dashboards.card_queries import CARDS, COMPUTING, HELD, IDLE, MODEL
from gpufleet.dashboards.lines import lines_from_0
from gpufleet.dashboards.promql import hours, legend, one_per, series
from gpufleet.dashboards.variables import CLUSTER, OPENS_NAMESPACE, OPENS_QUEUE

PRICE = TextVariable("price", "Price of a GPU-hour", "1")
# Longer steps would miss short pods, shorter ones make a day of a large fleet slow to ask for.
DAY = "[1d:5m]"
SAMPLES_AN_HOUR = 12
"""One in five minutes."""
JOULES_A_KWH = 3_600_000
"""A kilowatt for an hour."""
NONE_HELD = "no pod held a GPU"
NO_BUDGET = "no ledger has a budget"


def by(labels: str, expression: str) -> str:
    """The sum by these labels, clusters apart."""
    return f"sum by (cluster, {labels}) ({expression})"


def a_day(expression: str) -> str:
    """GPU-hours of the day that ends at each point."""
    return f"sum_over_time(({expression}){DAY}) / {SAMPLES_AN_HOUR}"


def tile(title: str, description: str, expression: str, unit: Unit = Unit.HOURS, *, height: int = 4) -> Panel:
    """A figure at the head."""
    return Panel(
        title,
        description,
        PanelKind.STAT,
        (Query(expression),),
        unit,
        width=4,
        height=height,
        at=QueryKind.NOW,
        below=Colour.NEUTRAL,
        decimals=2,
        no_value="not known",
        empty_when_well=NONE_HELD,
    )


def hours_of_model(expression: str) -> str:
    """Parts of cards by the model of the card."""
    return by("model", f"{expression} * on (cluster, node, uuid) group_left (model) {MODEL}")


ENERGY = (
    "sum(max by (cluster, node, uuid) (increase("
    + series("gpufleet_gpu_energy_joules_total")
    + f"[$__range]))) / {JOULES_A_KWH}"
)
UNATTRIBUTED = (
    "sum(max by (cluster, node, uuid) (increase("
    + series("gpufleet_gpu_energy_unattributed_joules_total")
    + f"[$__range]))) / {JOULES_A_KWH}"
)

TOTALS = Row(
    "The time shown, in sum",
    (
        tile("GPU-hours held", "What pods held, in hours of a whole GPU.", hours(f"sum({HELD})")),
        tile(
            "GPU-hours computing",
            "What was held, by the part of the time in which its pod computed. Where a card does not tell "
            "whose computing it is, nothing is counted here or as idle.",
            hours(f"sum({COMPUTING})"),
        ),
        tile("GPU-hours held and idle", "Held while its pod did not compute.", hours(f"sum({IDLE})")),
        tile(
            "GPU-hours free",
            "Cards that no pod held a part of, or the rest of cards that are shared.",
            hours(f"count({CARDS}) - (sum({HELD}) or 0 * count({CARDS}))"),
        ),
        tile(
            "Cost of what was held",
            "GPU-hours held times the price above, which you set. With a price of 1 it is the GPU-hours.",
            f"{hours(f'sum({HELD})')} * $price",
            Unit.NONE,
        ),
        tile(
            "Cost of what idled",
            "GPU-hours held and idle times the price above, which you set.",
            f"{hours(f'sum({IDLE})')} * $price",
            Unit.NONE,
        ),
    ),
)


def table(
    title: str, description: str, label: str, heading: str, held: str, computing: str, idle: str
) -> Panel:
    """Hours and cost by one label."""
    return Panel(
        title,
        description,
        PanelKind.TABLE,
        (
            Query(hours(held)),
            Query(hours(computing)),
            Query(hours(idle)),
            Query(f"{hours(held)} * $price"),
            Query(f"{hours(idle)} * $price"),
        ),
        at=QueryKind.NOW,
        columns=(
            Column("cluster", "Cluster"),
            Column(label, heading, opens=OPENS_NAMESPACE if label == OPENS_NAMESPACE.variable else None),
            Column(0, "Held", Unit.HOURS),
            Column(1, "Computing", Unit.HOURS),
            Column(2, "Idle", Unit.HOURS),
            Column(3, "Cost", Unit.NONE),
            Column(4, "Cost of idle", Unit.NONE),
        ),
        empty_when_well=NONE_HELD,
    )


TEAMS = Row(
    "By namespace, model and queue",
    (
        table(
            "By namespace",
            "GPU-hours and cost of each namespace.",
            "namespace",
            "Namespace",
            by("namespace", HELD),
            by("namespace", COMPUTING),
            by("namespace", IDLE),
        ),
        table(
            "By model",
            "GPU-hours and cost of each model of card; one price for all.",
            "model",
            "Model",
            hours_of_model(HELD),
            hours_of_model(f"({COMPUTING})"),
            hours_of_model(f"({IDLE})"),
        ),
        Panel(
            "By queue",
            "GPU-hours that pods of each queue held. A queue with queues below it includes these, so lines "
            "do "
            "not add up.",
            PanelKind.TABLE,
            (
                Query(hours(one_per("queue", series("gpufleet_scheduler_queue_used", 'resource="gpu"')))),
                Query(hours(one_per("queue", series("gpufleet_scheduler_queue_borrowed", 'resource="gpu"')))),
            ),
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("queue", "Queue", opens=OPENS_QUEUE),
                Column(0, "Held", Unit.HOURS),
                Column(1, "Of it borrowed", Unit.HOURS),
            ),
        ),
        lines_from_0(
            "GPU-hours held, by day and namespace",
            "The hours of the day before each point.",
            (Query(a_day(by("namespace", HELD)), legend("namespace"), step="1d"),),
            Unit.HOURS,
            is_stacked=True,
            empty_when_well=NONE_HELD,
        ),
    ),
)

BUDGET_LABELS = "grouping, group, period"

BUDGETS = Row(
    "Budgets of the ledger",
    (
        Panel(
            "Budgets",
            "What the period of each budget has cost so far by the ledger's prices. From 100 % on the queues "
            "that a budget names let no new work start.",
            PanelKind.TABLE,
            (
                Query(one_per(BUDGET_LABELS, series("gpufleet_ledger_budget_used_ratio"))),
                Query(one_per(BUDGET_LABELS, series("gpufleet_ledger_budget_spent_amount"))),
                Query(one_per(BUDGET_LABELS, series("gpufleet_ledger_budget_amount"))),
            ),
            at=QueryKind.NOW,
            columns=(
                Column("cluster", "Cluster"),
                Column("grouping", "By"),
                Column("group", "Budget"),
                Column("period", "Period"),
                Column(0, "Used", Unit.RATIO, (Threshold(0.8, Colour.WARNING), Threshold(1, Colour.BAD))),
                Column(1, "Spent", Unit.NONE),
                Column(2, "Of", Unit.NONE),
            ),
            empty_when_well=NO_BUDGET,
        ),
        lines_from_0(
            "Used part of budgets",
            "A line that goes back to 0 has begun a new period.",
            (
                Query(
                    one_per(BUDGET_LABELS, series("gpufleet_ledger_budget_used_ratio")),
                    legend("grouping", "group", "period"),
                ),
            ),
            Unit.RATIO,
            empty_when_well=NO_BUDGET,
        ),
    ),
)

POWER = Row(
    "Energy",
    (
        tile("Energy", "What all cards drew.", ENERGY, Unit.KILOWATT_HOURS, height=6),
        tile(
            "Energy of no pod",
            "What cards drew that is no pod's: idle cards, and what the driver does not tell whose it is.",
            UNATTRIBUTED,
            Unit.KILOWATT_HOURS,
            height=6,
        ),
        Panel(
            "Energy by namespace",
            "The part of pods in what their cards drew, in the time shown.",
            PanelKind.BARS,
            (
                Query(
                    by(
                        "namespace",
                        "max by (cluster, node, uuid, mig_id, namespace, pod) (increase("
                        + series("gpufleet_pod_gpu_energy_joules_total")
                        + "[$__range]))",
                    )
                    + f" / {JOULES_A_KWH}",
                    legend("namespace"),
                ),
            ),
            Unit.KILOWATT_HOURS,
            width=8,
            height=6,
            at=QueryKind.NOW,
            below=Colour.NEUTRAL,
            minimum=0,
            empty_when_well=NONE_HELD,
        ),
        Panel(
            "What these figures are",
            "How hours and cost come about.",
            PanelKind.TEXT,
            (),
            width=8,
            height=6,
            text="Hours are counted from samples in the time shown; hours without samples are not counted. "
            "The cost is hours times **one price that you type above**. What `gpufleet cost` answers from "
            "the ledger is exact, by prices and bills. "
            "Figures of a long time are coarser, as fewer samples are looked at.",
        ),
    ),
)

MONEY = Board(
    "gpufleet-money",
    "Money",
    "For those who pay: GPU-hours that were held, computed and idled, and what they cost at a price you set.",
    (TOTALS, TEAMS, BUDGETS, POWER),
    (CLUSTER, PRICE),
    since="now-7d",
)
