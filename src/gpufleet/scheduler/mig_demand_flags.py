"""The flags about cards that are cut on demand, read."""

import datetime as dt

from gpufleet.kube.codec.durations import read_duration
from gpufleet.mig.demand import DemandRules


def demand_rules_of(on_demand: str | None, whole_after: str) -> DemandRules | None:
    """When cards are cut; None where nothing asks for it. Raises InputError for what is no length of time."""
    idle_us = read_duration(whole_after, "--mig-whole-after")
    if on_demand is None:
        return None
    patience_us = read_duration(on_demand, "--mig-on-demand")
    return DemandRules(
        patience=dt.timedelta(microseconds=patience_us), idle=dt.timedelta(microseconds=idle_us)
    )
