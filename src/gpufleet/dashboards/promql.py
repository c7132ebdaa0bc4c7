"""Parts of PromQL that all boards use, so that each board treats clusters and repeated scrapes alike.

A series is chosen by the board's cluster. One process may be scraped by two jobs, and a scheduler's series
change their ``instance`` with the leader: ``one_per`` makes one series of what is about one thing.
"""

from collections.abc import Sequence

CLUSTER = 'cluster=~"$cluster"'


def series(name: str, *matchers: str) -> str:
    """The series of a metric in the chosen clusters, by further matchers too."""
    return f"{name}{{{', '.join((CLUSTER, *matchers))}}}"


def one_per(labels: str, expression: str) -> str:
    """One value for each combination of these labels; labels are separated by commas."""
    return f"max by (cluster, {labels}) ({expression})" if labels else f"max by (cluster) ({expression})"


def growth(expression: str) -> str:
    """By how much counters grow, a second."""
    # $__rate_interval is at least four scrapes, so that one that fails leaves no gap.
    return f"rate({expression}[$__rate_interval])"


def count_among(found: str, all_of: str) -> str:
    """How many there are; 0 only where there is something among which none was found."""
    return f"count({found}) or 0 * count({all_of})"


def quantile(share: float, buckets: str, *labels: str) -> str:
    """A quantile over buckets of a histogram, by these labels; absent while nothing was observed."""
    return _quantile(share, growth(buckets), labels)


def quantile_of_all(share: float, buckets: str) -> str:
    """A quantile over the whole time shown; absent if nothing was observed in it."""
    return _quantile(share, f"increase({buckets}[$__range])", ())


def _quantile(share: float, rate: str, labels: Sequence[str]) -> str:
    kept = ", ".join(("cluster", *labels))
    # Where nothing was observed histogram_quantile gives NaN, which panels would show as a value.
    return f"histogram_quantile({share}, sum by ({kept}, le) ({rate})) and sum by ({kept}) ({rate}) > 0"


def hours(expression: str) -> str:
    """A number of things over the whole time shown, in hours of one thing; what is absent adds nothing."""
    # Each value of the subquery stands for one $__interval, which is its step.
    return f"sum_over_time(({expression})[$__range:$__interval]) * $__interval_ms / 3600000"


def ratio(part: str, whole: str, on: str = "") -> str:
    """A part of a whole; absent where there is no whole, instead of not a number."""
    matched = f"on (cluster{', ' + on if on else ''}) "
    return f"({part}) / {matched}(({whole}) > 0)"


def legend(*labels: str) -> str:
    """A series by its labels, then its cluster, which a Prometheus of one cluster does not tell."""
    return " ".join(f"{{{{{label}}}}}" for label in (*labels, "cluster"))
