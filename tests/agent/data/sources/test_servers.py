"""Each kind of server is asked in its own way."""

import pytest

from gpufleet.agent.data.sources.bucket import Bucket
from gpufleet.agent.data.sources.file_tree import FileTree
from gpufleet.agent.data.sources.hub import Hub
from gpufleet.agent.data.sources.registry import Registry
from gpufleet.agent.data.sources.servers import Server


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
    server = Server(written)
    assert isinstance(server.catalogue, kind)
    assert server.address == address
