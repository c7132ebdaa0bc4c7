"""What several tests of the agent need."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of one's own with a short name, as paths of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as made:
        yield Path(made)
