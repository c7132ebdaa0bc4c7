"""Faults that end while an alert waits: it is pending, starts anew, and never fires.

From each trial follows what is scraped then: the fault until shortly before the alert would fire, and health
from there on. Counters keep what they have counted.
"""

from pathlib import Path

from tests.alerts.promtool import Scraped, Trial, Values, said_of_states, steady, with_labels

COUNTERS = ("_total", "_count", "_sum", "_bucket", "_fail_open_count")
"""How names of series end that only grow."""

ENDS_AT = {
    "AdmissionSlow": 12,
    "BindFailures": 19,
    "ExpanderFails": 17,
    "GPUMemoryNearFull": 19,
    "GPUPCIeNarrow": 30,
    "GPUPCIeReplays": 18,
    "GPUPowerBrake": 12,
    "GPUThermalThrottle": 17,
    "GPUThermalThrottleSevere": 19,
    "GangStuck": 24,
    "PodNeverFits": 17,
    "QueueStarved": 60,
    "QuotaNeverSuffices": 17,
    "ReservationOverdue": 20,
    "SchedulerStalled": 20,
    "1h": 2,
    "6h": 2,
    "1d": 34,
    "3d": 13,
}
"""The minute in which the fault ends, by the alert or its window: one that looks back sees it some minutes
longer. For all others it is the minute in which the alert would fire.
"""

HAS_LONGER_RANGE = {"AdmissionUnjudged", "GPULinkErrors"}
"""Alerts that look further back than they wait: what happened once is told, though it happens no more."""

TOLD_AS_NOUGHT = {"ReservationOverdue"}
"""Alerts that take the last value of some minutes, so that only another value ends them at once."""


def ended(trial: Trial) -> Scraped:
    """What is scraped where the fault of a trial ends while its alert waits."""
    ends_at = ENDS_AT.get(trial.labels.get("window", trial.alert), trial.fires_at)
    found: dict[str, Values] = {}
    for series in {**trial.well, **trial.fault}:
        minutes = min(len(values) for values in (*trial.well.values(), *trial.fault.values()))
        fault = trial.fault.get(series, steady(None, minutes))[:ends_at]
        well = trial.well.get(series, steady(0 if trial.alert in TOLD_AS_NOUGHT else None, minutes))
        is_counter = series.partition("{")[0].endswith(COUNTERS)
        found[series] = [*fault, *(_grown(fault[-1], well[ends_at - 1 :]) if is_counter else well[ends_at:])]
    return found


def _grown(counted: float | None, well: Values) -> list[float | None]:
    """A counter that goes on as it grows in health; the first value there is that of the minute before."""
    start = next((value for value in well if value is not None), 0.0)
    base = 0.0 if counted is None else counted
    return [base + (start if value is None else value) - start for value in well[1:]]


def said_of_the_end(trial: Trial, folder: Path) -> str:
    """What promtool says of the claim that the alert waited and never fired."""
    scraped = with_labels(ended(trial), instance="a:9400")
    is_told = trial.alert in HAS_LONGER_RANGE
    return said_of_states(
        scraped, trial.alert, trial.labels, is_pending=True, is_firing=is_told, folder=folder
    )
