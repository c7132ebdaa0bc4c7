"""The board of those who run the scheduler: whether it leads, decides in time, and keeps its promises."""

from gpufleet.dashboards.board import (
    Board,
    Colour,
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
from gpufleet.dashboards.promql import growth, legend, one_per, quantile, quantile_of_all, series
from gpufleet.dashboards.variables import CLUSTER

SLOW_PART = 0.01
"""The part that may be slow or fail within 30 days: the aim of the alerts on burn rates."""
PAGE_RATE = 14.4
"""How fast the budget burns where the fastest of these alerts begins."""
DAY_S = 86_400.0


def own(name: str, *matchers: str) -> str:
    """A metric of the scheduler."""
    return series(f"gpufleet_scheduler_{name}", *matchers)


def sum_of(name: str, label: str) -> str:
    """A gauge of the scheduler over all values of a label."""
    return f"sum by (cluster) ({one_per(label, own(name))})"


def burn(what: str, window: str) -> str:
    """How many times as fast as it may be the budget is used up; absent while nothing happens."""
    # NaN is not >= 0: a window in which nothing happened has no value.
    return f"{series(f'gpufleet:{what}:ratio_rate{window}')} / {SLOW_PART} >= 0"


def tile(
    title: str,
    description: str,
    expression: str,
    unit: Unit,
    thresholds: tuple[Threshold, ...],
    below: Colour = Colour.GOOD,
) -> Panel:
    """A figure at the head."""
    return Panel(
        title,
        description,
        PanelKind.STAT,
        (Query(expression, legend()),),
        unit,
        width=6,
        height=4,
        at=QueryKind.NOW,
        below=below,
        thresholds=thresholds,
        no_value="not known",
    )


LEADING = f"sum by (cluster) ({own('leader')})"
ROUND_P99 = quantile(0.99, own("round_seconds_bucket"))
VERDICT_P95 = quantile_of_all(0.95, own("first_verdict_seconds_bucket"))
WATCH_AGE = one_per("kind", own("watch_age_seconds"))

NOW = Row(
    "Does it decide?",
    (
        tile(
            "Leaders",
            "Schedulers that lead. One is right; none decides nothing, and two are a fault.",
            LEADING,
            Unit.COUNT,
            (Threshold(1, Colour.GOOD), Threshold(2, Colour.BAD)),
            Colour.BAD,
        ),
        tile(
            "Round, 99 of 100 within",
            "Time within which 99 of 100 decision rounds of the time shown ended. The aim is 0.1 s.",
            quantile_of_all(0.99, own("round_seconds_bucket")),
            Unit.SECONDS,
            (Threshold(0.1, Colour.WARNING), Threshold(1, Colour.BAD)),
        ),
        tile(
            "First verdict, 95 of 100 within",
            "Time from the first sight of a pod to its place, or to the words why it waits. The aim is 1 s.",
            VERDICT_P95,
            Unit.SECONDS,
            (Threshold(1, Colour.WARNING), Threshold(10, Colour.BAD)),
        ),
        tile(
            "Oldest word of a watch",
            "Time since the most silent watch said anything. The API server speaks at least once a minute.",
            f"max by (cluster) ({WATCH_AGE})",
            Unit.SECONDS,
            (Threshold(120, Colour.BAD),),
        ),
    ),
)

DECIDING = Row(
    "Decisions",
    (
        Panel(
            "The leader",
            "Each process of the scheduler, and when it led.",
            PanelKind.STATES,
            (Query(f"max by (cluster, instance) ({own('leader')})", legend("instance")),),
            width=12,
            height=6,
            below=Colour.IDLE,
            meanings=(Meaning(0, "stands by", Colour.IDLE), Meaning(1, "leads", Colour.GOOD)),
        ),
        lines_from_0(
            "How fast the error budget is used",
            "1 uses up the budget of one in a hundred within 30 days. Alerts begin at 1; 14.4 is a page. "
            "Absent "
            "while nothing happens, and where Prometheus does not load the rules.",
            (
                Query(burn("decision_slow", "1h"), f"slow rounds {legend()}"),
                Query(burn("verdict_slow", "1h"), f"slow verdicts {legend()}"),
                Query(burn("bind_failed", "1h"), f"failed Bindings {legend()}"),
                Query(burn("agent_stale", "1h"), f"agents without news {legend()}"),
            ),
            Unit.NONE,
            width=12,
            height=6,
            thresholds=(Threshold(1, Colour.WARNING), Threshold(PAGE_RATE, Colour.BAD)),
            empty_when_well="nothing was decided or bound within an hour",
        ),
        lines_from_0(
            "Time of a round",
            "Within which half and 99 of 100 decision rounds end.",
            (
                Query(quantile(0.5, own("round_seconds_bucket")), f"half {legend()}"),
                Query(ROUND_P99, f"99 of 100 {legend()}"),
            ),
            Unit.SECONDS,
            width=8,
        ),
        lines_from_0(
            "Rounds and Bindings",
            "Decision rounds, and Bindings that came of them, a second.",
            (
                Query(f"sum by (cluster) ({growth(own('rounds_total'))})", f"rounds {legend()}"),
                Query(
                    f"sum by (cluster, outcome) ({growth(own('binds_total'))})",
                    f"Bindings: {legend('outcome')}",
                ),
            ),
            Unit.PER_SECOND,
            width=8,
        ),
        lines_from_0(
            "Time of a Binding",
            "Within which half and 99 of 100 Bindings are answered by the API server.",
            (
                Query(quantile(0.5, own("bind_seconds_bucket")), f"half {legend()}"),
                Query(quantile(0.99, own("bind_seconds_bucket")), f"99 of 100 {legend()}"),
            ),
            Unit.SECONDS,
            width=8,
            empty_when_well="no pod was bound in the last minutes",
        ),
    ),
)

WAYS = Row(
    "The way to the API server, and evictions",
    (
        lines_from_0(
            "Age of the most silent watch",
            "Time since it said anything. The metric gpufleet_scheduler_watch_age_seconds tells the kind.",
            (Query(f"max by (cluster) ({WATCH_AGE})", f"most silent {legend()}"),),
            Unit.SECONDS,
            width=8,
            thresholds=(Threshold(120, Colour.BAD),),
        ),
        lines_from_0(
            "Evictions by reason",
            "Pods that were told to end, or refused it, in the time between two points.",
            (
                Query(
                    f"sum by (cluster, reason, outcome) "
                    f"(increase({own('evictions_total')}[$__rate_interval])) > 0",
                    legend("reason", "outcome"),
                ),
            ),
            Unit.COUNT,
            width=8,
            empty_when_well="no pod was told to end",
        ),
        lines_from_0(
            "Kubelets that refuse, and evictions that did not happen",
            "Pods that a kubelet turned away, by its reason, and evictions refused, by cause.",
            (
                Query(
                    "sum by (cluster, reason) (increase("
                    + own("kubelet_rejections_total")
                    + "[$__rate_interval])) > 0",
                    f"kubelet: {legend('reason')}",
                ),
                Query(
                    "sum by (cluster, cause) (increase("
                    + own("evictions_refused_total")
                    + "[$__rate_interval])) > 0",
                    f"eviction: {legend('cause')}",
                ),
            ),
            Unit.COUNT,
            width=8,
            empty_when_well="nothing was refused",
        ),
        lines_from_0(
            "What does not count as it should",
            "Objects set aside as malformed, nodes without a readable report, and GPUs that are held "
            "without a "
            "grant. All are 0 in health; gpufleet doctor names them.",
            (
                Query(
                    sum_of("unreadable_objects", "kind"),
                    f"malformed objects {legend()}",
                ),
                Query(one_per("", own("unreported_nodes")), f"nodes without a report {legend()}"),
                Query(
                    sum_of("foreign_gpus", "holder"),
                    f"GPUs without a grant {legend()}",
                ),
            ),
            Unit.COUNT,
            width=12,
            height=6,
        ),
        Panel(
            "Time until a credential ends",
            "Of the way to the API server, unless it is renewed.",
            PanelKind.LINES,
            (
                Query(
                    f"{one_per('credential', own('credential_expiry_timestamp_seconds'))} - time()",
                    legend("credential"),
                ),
            ),
            Unit.SECONDS,
            width=12,
            height=6,
            below=Colour.BAD,
            thresholds=(Threshold(DAY_S, Colour.GOOD),),
        ),
    ),
)

SCHEDULER = Board(
    "gpufleet-scheduler",
    "Scheduler",
    "For those who run the scheduler: whether it leads, decides in time, and reaches the API server.",
    (NOW, DECIDING, WAYS),
    (CLUSTER,),
)
