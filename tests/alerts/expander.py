"""Alerts about the expander."""

from tests.alerts.promtool import Case, Scraped, Trial, rising, steady

SERIES = "gpufleet_expander_questions_total"


def asked(chosen: float, failed: float) -> Scraped:
    """So many questions a minute from minute 10 on, by what came of them, and one answered before."""
    return {
        f'{SERIES}{{outcome="chosen"}}': rising(0, 1, 11) + rising(10 + chosen, chosen, 49),
        f'{SERIES}{{outcome="failed"}}': steady(0, 11) + rising(failed, failed, 49),
    }


TRIALS = [
    Trial(
        "ExpanderFails",
        "warning",
        asked(1, 0),
        asked(0, 1),
        {},
        "Cluster Autoscaler gets no answer of the expander",
        20,
        58,
        30,
    ),
]
SPECIAL = [Case("one question in six fails", "ExpanderFails", asked(5, 1), 40)]
