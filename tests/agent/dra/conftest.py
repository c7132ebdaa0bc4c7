"""Folders of these tests are short, since the path of a socket has at most 107 characters."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of this test; those that pytest makes for parallel workers are too long for a socket below."""
    with TemporaryDirectory() as folder:
        yield Path(folder)
