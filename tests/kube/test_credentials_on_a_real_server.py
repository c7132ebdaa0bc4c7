"""Fault 37 on a real API server: it serves with another authority's certificate, and nobody starts anew."""

import asyncio
from pathlib import Path

from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import Request
from gpufleet.localkube.access import kubeconfig
from gpufleet.localkube.access.certificates import Authority, Identity, write_private
from gpufleet.localkube.access.ports import LOOPBACK
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import SERVER_NAMES
from tests.localkube.cluster import a_cluster

WATCH = Request("GET", "/api/v1/namespaces?watch=true&timeoutSeconds=30")
WAIT_S = 90.0
"""A server that hears nothing of a change looks once a minute."""


def test_fault_37_a_new_authority_is_trusted_as_soon_as_the_kubeconfig_has_it(tmp_path: Path) -> None:
    with a_cluster(tmp_path) as cluster:
        file = tmp_path / "kubeconfig"
        file.write_bytes(cluster.kubeconfig.read_bytes())
        asyncio.run(
            replaced_under(HttpTransport(find_access(kubeconfig=file, environment={})), cluster, file)
        )


async def replaced_under(transport: HttpTransport, cluster: LocalCluster, file: Path) -> None:
    """The server's certificate and authority are replaced while the transport is in use."""
    assert await refusal(transport) == ""
    before = {one.credential: one.ends_s for one in transport.expiries()}
    assert before.keys() == {"client-certificate", "certificate-authority", "server-certificate"}

    authority = Authority.new("another authority")
    identity = authority.server(SERVER_NAMES, (LOOPBACK,))
    write_private(cluster.folder / "server.crt", identity.certificate)
    write_private(cluster.folder / "server.key", identity.key)
    async with asyncio.timeout(WAIT_S):
        while not (problem := await refusal(transport)):  # noqa: ASYNC110  (another process)
            await asyncio.sleep(0.1)
    assert "not trusted" in problem

    admin = Identity(*((cluster.folder / f"admin.{end}").read_bytes() for end in ("crt", "key")))
    kubeconfig.write(file, f"gpufleet-{cluster.name}", cluster.url, authority.identity.certificate, admin)
    assert await refusal(transport) == ""
    after = {one.credential: one.ends_s for one in transport.expiries()}
    assert after["server-certificate"] > before["server-certificate"]
    await transport.close()


async def refusal(transport: HttpTransport) -> str:
    """Why no watch begins; empty where one does. Each has a connection of its own."""
    try:
        stream = await transport.open(WATCH, timeout_s=5)
    except TransportError as error:
        return str(error)
    await stream.close()
    assert stream.status == 200
    return ""
