"""One API server for all tests of this folder: to start one takes longer than most of them."""

from collections.abc import Iterator

import pytest

from tests.admission.judging_server import JudgingServer, judging_server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgingServer]:
    """The server with the policies of lint and of images, each of them in force."""
    with judging_server(tmp_path_factory.mktemp("judged")) as found:
        yield found
