"""A server and an empty cache for each test."""

from collections.abc import Iterator

import pytest

from tests.agent.data.sources.http_store import HttpStore, serving


@pytest.fixture
def server() -> Iterator[HttpStore]:
    with serving() as store:
        yield store
