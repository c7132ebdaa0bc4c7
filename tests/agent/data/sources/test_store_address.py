"""What an operator may name as a store."""

import pytest

from gpufleet.agent.data.sources.bucket import Bucket
from gpufleet.agent.data.sources.file_tree import FileTree
from gpufleet.agent.data.sources.hub import Hub
from gpufleet.agent.data.sources.registry import Registry
from gpufleet.agent.data.sources.store_address import folder_of, remote_store
from gpufleet.model.model_errors import InputError


@pytest.mark.parametrize(
    ("written", "kind", "address"),
    [
        ("https://host.example/models/", FileTree, "https://host.example/models"),
        ("s3+http://10.0.0.1:9000/bucket/some/prefix", Bucket, "http://10.0.0.1:9000/bucket"),
        ("hf+https://hub.example", Hub, "https://hub.example"),
        ("oci+https://registry.example:5000/Models", Registry, "https://registry.example:5000"),
    ],
)
def test_an_address_says_which_kind_of_store_it_is(written: str, kind: type, address: str) -> None:
    store, _ = remote_store(written, ())
    assert isinstance(store, kind)
    assert store.address == address


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
        remote_store(written, ())


def test_a_folder_is_named_from_the_root() -> None:
    assert str(folder_of("/mnt/models")) == "/mnt/models"
    with pytest.raises(InputError, match="data-store"):
        folder_of("mnt/models")
