"""Reports written once for all tests, since each takes seconds."""

from functools import cache

import pytest

from gpufleet.replay.report import write_report
from tests.replay.report.edge_sweeps import SWEEPS, Written


@pytest.fixture(scope="session")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The files of the report of the sweep of that name."""
    folder = tmp_path_factory.mktemp("reports")
    return cache(lambda name: write_report(SWEEPS[name], folder / name))
