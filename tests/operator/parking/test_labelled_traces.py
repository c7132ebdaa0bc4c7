"""Over labelled traces hardly any work that is needed is parked, and most idle GPU-hours come back."""

import pytest

from bench.idle_traces import traces
from bench.idle_work import FALSE_PARKS_MAX_PERCENT, GIVEN_BACK_MIN_PERCENT, Player, Tally, played
from gpufleet.operator.parking.activity import Signal


def test_what_is_needed_stays_and_what_is_idle_comes_back() -> None:
    tally = played(60, 4, seed=7)
    assert tally.parks > 100
    assert tally.false_percent <= FALSE_PARKS_MAX_PERCENT
    assert tally.given_back_percent >= GIVEN_BACK_MIN_PERCENT


@pytest.mark.parametrize("signal", [Signal.GPU, Signal.GPU_MEMORY, Signal.CPU, Signal.NETWORK])
def test_without_one_of_the_signals_nothing_is_parked(signal: Signal) -> None:
    tally = Tally()
    for trace in traces(6, 2, seed=7):
        trace.values[signal] = [None] * trace.minutes
        Player(trace, tally).play()
    assert tally.parks == 0


def test_by_the_gpu_alone_work_that_is_needed_would_be_parked() -> None:
    """The traces tell a good judgement from a bad one."""
    tally = Tally()
    for trace in traces(60, 4, seed=7):
        for signal in (Signal.CPU, Signal.NETWORK):
            trace.values[signal] = [0.0] * trace.minutes
        trace.values[Signal.REQUESTS] = [None] * trace.minutes
        trace.values[Signal.GPU_MEMORY] = [0.0] * trace.minutes
        Player(trace, tally).play()
    assert tally.false_percent > FALSE_PARKS_MAX_PERCENT
