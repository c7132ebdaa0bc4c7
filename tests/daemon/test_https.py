"""Scrapes and probes over TLS, by clients that check the certificate; what a client can cost is bounded."""

import asyncio
import contextlib
import logging
import ssl
from pathlib import Path

import pytest

from gpufleet.daemon.http_server import HttpLimits, HttpServer, Page, Request
from gpufleet.daemon.server_certificate import ServerCertificate
from gpufleet.localkube.access.certificates import Authority
from tests.agent.exporter.builders import happens
from tests.daemon.pem_files import AUTHORITY, client, issued, mount
from tests.daemon.serving import TEXT, asked, get, serving

HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a TLS ClientHello (RFC 8446, section 4.1.2), which says that more comes."""


@pytest.fixture
def certificate(tmp_path: Path) -> ServerCertificate:
    return ServerCertificate(*mount(tmp_path, issued()))


def test_metrics_and_probes_are_served_to_a_client_that_checks_the_certificate(
    certificate: ServerCertificate,
) -> None:
    async def story(serves: HttpServer) -> None:
        assert (await asked(serves, get("/metrics"), client())).endswith(TEXT)
        assert (await asked(serves, get("/healthz"), client())).endswith(b"\r\n\r\nok\n")
        twice = b"GET /healthz HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\nConnection: close\r\n\r\n"
        assert (await asked(serves, twice, client())).count(b" 200 OK") == 2

    serving(story, certificate=certificate)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_that_are_safe_are_spoken(
    certificate: ServerCertificate, version: ssl.TLSVersion
) -> None:
    tls = client()
    tls.minimum_version = tls.maximum_version = version

    async def story(serves: HttpServer) -> None:
        assert b" 200 OK" in await asked(serves, get("/healthz"), tls)

    serving(story, certificate=certificate)


def test_a_client_that_trusts_another_authority_gets_nothing(certificate: ServerCertificate) -> None:
    async def story(serves: HttpServer) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asked(serves, get("/metrics"), client(Authority.new("another")))
        assert b" 200 OK" in await asked(serves, get("/metrics"), client())

    serving(story, certificate=certificate)


def test_a_large_page_arrives_whole(certificate: ServerCertificate) -> None:
    body = bytes(range(256)) * 20_000

    async def story(serves: HttpServer) -> None:
        assert (await asked(serves, get("/metrics"), client())).endswith(body)

    serving(story, lambda _: Page((body,)), certificate=certificate)


@pytest.mark.parametrize("sent", [get("/metrics"), b"\x00" * 100, b"\x15\x03\x01\x00\x02\x02\x28"])
def test_what_is_no_tls_gets_no_page_and_the_next_is_answered(
    certificate: ServerCertificate, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(serves: HttpServer) -> None:
        assert TEXT not in await asked(serves, sent)
        assert b" 200 OK" in await asked(serves, get("/metrics"), client())

    serving(story, certificate=certificate)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("sent", [b"", HELLO_BEGINS])
def test_a_handshake_that_does_not_end_in_time_is_not_waited_for(
    certificate: ServerCertificate, sent: bytes
) -> None:
    async def story(serves: HttpServer) -> None:
        assert await asked(serves, sent) == b""
        await happens(lambda: not serves._connections)

    serving(story, certificate=certificate, limits=HttpLimits(handshake_s=0.05))


def test_a_handshake_that_drips_is_not_waited_for_either(certificate: ServerCertificate) -> None:
    async def story(serves: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serves.port)

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                writer.write(HELLO_BEGINS)
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        dripping.cancel()
        writer.close()

    serving(story, certificate=certificate, limits=HttpLimits(handshake_s=0.2))


@pytest.mark.parametrize("sent", [b"", HELLO_BEGINS])
def test_a_probe_is_answered_while_as_many_clients_as_may_be_never_finish_their_handshake(
    certificate: ServerCertificate, sent: bytes
) -> None:
    async def story(serves: HttpServer) -> None:
        held = [await asyncio.open_connection("127.0.0.1", serves.port) for _ in range(12)]
        for _, writer in held:
            writer.write(sent)
        await happens(lambda: len(serves._connections) == 3)
        for _ in range(5):
            assert b" 200 OK" in await asked(serves, get("/healthz"), client())
        assert len(serves._connections) <= 3
        for _, writer in held:
            writer.close()

    serving(story, certificate=certificate, limits=HttpLimits(connections=3))


@pytest.mark.parametrize("sent", [b"", b"GET /me", b"GET /healthz HTTP/1.1\r\n\r\n", get("/metrics")])
def test_a_probe_is_answered_while_clients_are_stuck_after_their_handshake(
    certificate: ServerCertificate, sent: bytes
) -> None:
    page = Page((b"x" * 20_000_000,))

    async def story(serves: HttpServer) -> None:
        held = [
            await asyncio.open_connection("127.0.0.1", serves.port, ssl=client(), limit=1024)
            for _ in range(3)
        ]
        for _, writer in held:
            writer.write(sent)
        await happens(lambda: len(serves._connections) == 3)
        for _ in range(5):
            assert b" 200 OK" in await asked(serves, get("/healthz"), client())
        assert len(serves._connections) <= 3
        for _, writer in held:
            writer.transport.abort()

    serving(story, lambda _: page, certificate=certificate, limits=HttpLimits(connections=3))


def test_a_client_that_never_ends_its_connection_keeps_its_place_for_a_moment_only(
    certificate: ServerCertificate,
) -> None:
    """TLS ends when both sides have said so; a hostile client never does."""

    async def story(serves: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serves.port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(1 << 16))
        tls.write(get("/healthz"))
        writer.write(outgoing.read())
        assert await reader.read(1 << 16)
        assert len(serves._connections) == 1
        await happens(lambda: not serves._connections)
        writer.close()

    serving(story, certificate=certificate, limits=HttpLimits(piece_s=0.2))


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    certificate = ServerCertificate(*mount(tmp_path, issued()))
    renewed = issued()

    async def shown(serves: HttpServer) -> bytes:
        _, writer = await asyncio.open_connection("127.0.0.1", serves.port, ssl=client())
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    async def story(serves: HttpServer) -> None:
        before = await shown(serves)
        mount(tmp_path, renewed)
        assert await shown(serves) == ssl.PEM_cert_to_DER_cert(renewed.certificate.decode()) != before

    serving(story, certificate=certificate)


def shows(authority: Authority, folder: Path, *, of: Authority = AUTHORITY) -> ssl.SSLContext:
    """A client with a certificate of this authority."""
    identity, context = authority.client("front-proxy", ()), client(of)
    pair = folder / "client.pem"
    pair.write_bytes(identity.certificate + identity.key)
    context.load_cert_chain(pair)
    return context


def test_a_client_may_show_a_certificate_of_the_authorities_of_the_moment(tmp_path: Path) -> None:
    first, second = Authority.new("first"), Authority.new("second")
    trusted = [first]
    certificate = ServerCertificate(
        *mount(tmp_path, issued()), lambda: "".join(one.identity.certificate.decode() for one in trusted)
    )

    async def others(request: Request) -> Page:
        return Page((b"shown" if request.client_certificate else b"not shown",))

    async def story(serves: HttpServer) -> None:
        assert (await asked(serves, get("/x"), client())).endswith(b"not shown")
        assert (await asked(serves, get("/x"), shows(first, tmp_path))).endswith(b"\nshown")
        answer = b""
        with contextlib.suppress(ssl.SSLError):
            answer = await asked(serves, get("/x"), shows(second, tmp_path))
        assert answer == b""
        trusted[:] = [second]
        assert (await asked(serves, get("/x"), shows(second, tmp_path))).endswith(b"\nshown")

    serving(story, certificate=certificate, others=others)
