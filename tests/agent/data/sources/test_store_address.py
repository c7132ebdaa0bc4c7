"""What an operator may name as a store."""

import pytest

from gpufleet.agent.data.sources.store_address import checked_server, folder_of
from gpufleet.model.model_errors import InputError


@pytest.mark.parametrize(
    "written",
    [
        "ftp://host.example",
        "git+https://host.example",
        "https://user:password@host.example",
        "https://host.example/?x",
        "https://",
        "https://host.example:port",
        "s3+https://host.example",
        "file:///etc",
    ],
)
def test_what_is_no_store_is_refused_by_its_option(written: str) -> None:
    with pytest.raises(InputError, match="data-store"):
        checked_server(written)


def test_a_folder_is_named_from_the_root() -> None:
    assert str(folder_of("/mnt/models")) == "/mnt/models"
    with pytest.raises(InputError, match="data-store"):
        folder_of("mnt/models")
