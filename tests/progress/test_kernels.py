"""While kernels are compiled, the expected end follows how many are done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from numba.core import event

from gpufleet.progress.durations import Step
from gpufleet.progress.kernels import EVENT, CompilingReport
from gpufleet.progress.reporting import Revised, Silent


class Kept(Silent):
    """Keeps how the expected end is revised."""

    revised: Revised | None = None

    @contextmanager
    def during(
        self,
        what: str,  # noqa: ARG002
        detail: Callable[[], str],  # noqa: ARG002
        step: Step | None = None,  # noqa: ARG002
        revised: Revised | None = None,
    ) -> Iterator[None]:
        """Show nothing."""
        self.revised = revised
        yield


@pytest.mark.parametrize(
    ("done", "elapsed_s", "whole_s"),
    [
        (0, 0.0, 80.0),
        # A quarter in a quarter of the time: as was expected.
        (1, 20.0, 80.0),
        # Half is done in 160 s, and 80 s were expected for all: 100 s are left, as the pace counts by half.
        (2, 160.0, 260.0),
        (4, 300.0, 300.0),
    ],
)
def test_a_busy_machine_makes_the_expected_end_later(done: int, elapsed_s: float, whole_s: float) -> None:
    kept = Kept()
    with CompilingReport(kept, Step("kernels", 80.0), 4):
        event.start_event(EVENT)
        for _ in range(done):
            event.end_event(EVENT)
        assert kept.revised is not None
        assert kept.revised(elapsed_s, 80.0) == pytest.approx(whole_s)
