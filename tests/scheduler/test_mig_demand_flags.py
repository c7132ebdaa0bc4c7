"""The flags about cards that are cut on demand."""

import datetime as dt

import pytest

from gpufleet.mig.demand import DemandRules
from gpufleet.model.model_errors import InputError
from gpufleet.scheduler.mig_demand_flags import demand_rules_of


def test_no_card_is_cut_unless_a_flag_says_so() -> None:
    assert demand_rules_of(None, "10m") is None


def test_flags_are_read_in_their_units() -> None:
    rules = DemandRules(patience=dt.timedelta(seconds=90), idle=dt.timedelta(hours=1))
    assert demand_rules_of("90s", "1h") == rules


@pytest.mark.parametrize(("flags", "named"), [(("soon", "10m"), "on-demand"), ((None, "x"), "whole-after")])
def test_what_is_no_length_of_time_is_refused(flags: tuple[str | None, str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        demand_rules_of(*flags)
