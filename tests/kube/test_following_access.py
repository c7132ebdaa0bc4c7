"""Fault 37: a replaced kubeconfig counts from the next request on, and a bad one leaves what was there."""

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from gpufleet.kube.following_access import FollowingAccess, find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.transport import Request
from tests.kube.byte_server import CERTIFICATES, server_tls, serving, within
from tests.kube.test_kubeconfig import config, in_base64, write

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSAL = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
READ = Request("GET", "/")


def token_of(access: FollowingAccess) -> str:
    return asyncio.run(access.authorization())


def following(file: Path) -> FollowingAccess:
    access = find_access(kubeconfig=file, environment={})
    assert isinstance(access, FollowingAccess)
    return access


def test_fault_37_a_token_that_is_replaced_in_the_kubeconfig_is_the_next_one(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config({}, {"token": "first"}))
    access = following(file)
    assert token_of(access) == "Bearer first"
    assert not asyncio.run(access.refused())
    write(file, config({}, {"token": "second"}))
    assert asyncio.run(access.refused())
    assert token_of(access) == "Bearer second"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "clusters: [",
        config({"server": "https://elsewhere.example:6443"}, {"token": "second"}),
        config({}, {"token": "second"}, name="b"),
    ],
    ids=["empty", "half", "another server", "another context"],
)
def test_fault_37_what_cannot_be_used_leaves_what_counted_before_and_is_told(
    tmp_path: Path, content: object, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "config", config({}, {"token": "first"}))
    access = following(file)
    write(file, content)
    with caplog.at_level(logging.WARNING):
        assert token_of(access) == "Bearer first"
        assert token_of(access) == "Bearer first"
    assert len(caplog.records) == 1
    file.unlink()
    assert token_of(access) == "Bearer first"
    write(file, config({}, {"token": "third"}))
    assert token_of(access) == "Bearer third"


def test_fault_37_an_authority_that_is_replaced_in_the_kubeconfig_is_trusted(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving([OK], tls=server_tls()) as server:
            named = {"server": f"https://127.0.0.1:{server.port}"}
            stale = write(tmp_path / "config", config(named, {}))
            access = following(stale)
            transport = HttpTransport(access)
            with pytest.raises(Exception, match="not trusted"):
                await transport.call(READ, timeout_s=5)
            write(stale, config({**named, "certificate-authority-data": in_base64("ca.crt")}))
            assert (await transport.call(READ, timeout_s=5)).body == b"ok"
            await transport.close()

    within(10, main)


def test_fault_37_a_certificate_and_key_that_are_being_replaced_leave_the_old_pair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("client.crt", "client.key"):
        write(tmp_path / name, (CERTIFICATES / name).read_text())
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    access = following(write(tmp_path / "config", config({}, user)))
    whole: ssl.SSLContext = asyncio.run(access.tls_context())
    write(tmp_path / "client.key", (CERTIFICATES / "server.key").read_text())
    with caplog.at_level(logging.WARNING):
        assert asyncio.run(access.tls_context()) is whole
        assert asyncio.run(access.tls_context()) is whole
    assert len(caplog.records) == 1
    write(tmp_path / "client.crt", (CERTIFICATES / "server.crt").read_text())
    assert asyncio.run(access.tls_context()) is not whole


def test_fault_37_a_connection_whose_certificate_ended_is_left_for_one_with_the_new(tmp_path: Path) -> None:
    """The server refuses by 401 what was shown when the connection began."""
    for name in ("client.crt", "client.key"):
        write(tmp_path / name, (CERTIFICATES / name).read_text())
    write(tmp_path / "ca.crt", (CERTIFICATES / "ca.crt").read_text())

    async def main() -> None:
        tls = server_tls(asks_for_client=True)
        async with serving([OK], [REFUSAL], [OK], tls=tls) as server:
            user = {"client-certificate": "client.crt", "client-key": "client.key"}
            cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": "ca.crt"}
            transport = HttpTransport(following(write(tmp_path / "config", config(cluster, user))))
            assert (await transport.call(READ, timeout_s=5)).status == 200
            write(tmp_path / "client.crt", (CERTIFICATES / "client.crt").read_text() + "\n")
            assert (await transport.call(READ, timeout_s=5)).status == 200
            await transport.close()
            assert server.connections == 2

    within(10, main)
