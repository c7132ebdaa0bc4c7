"""What ends is told seven days before, or in the last tenth of a short life (fault 37)."""

import asyncio
import base64
import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.kube.expiry import (
    Expiry,
    authority_expiry,
    certificate_expiry,
    der_validity,
    token_expiry,
)
from gpufleet.kube.expiry_watch import POLL_EVERY_S, ExpiryWatch
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.transport import Request
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.kube.byte_server import CERTIFICATES, server_tls, serving, within
from tests.kube.test_kubeconfig import config, in_base64, write

DAY_S = 86_400.0
KEY = ec.generate_private_key(ec.SECP256R1())
TIMES = st.datetimes(datetime(1950, 1, 1), datetime(2200, 1, 1)).map(  # noqa: DTZ001  given its zone at once
    lambda one: one.replace(microsecond=0, tzinfo=UTC)
)


def certificate(begin: datetime, end: datetime, name: str = "someone") -> str:
    """A certificate by another program, as PEM."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def a_token(**claims: object) -> str:
    """A JSON Web Token whose signature nobody checks here."""
    parts = (json.dumps(one).encode() for one in ({"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts), "signature"])


@settings(max_examples=50)
@given(TIMES, TIMES, st.text("abc", min_size=1, max_size=60))
def test_the_dates_of_a_certificate_are_those_that_it_was_made_with(
    one: datetime, other: datetime, name: str
) -> None:
    begin, end = min(one, other), max(one, other)
    found = certificate_expiry("c", certificate(begin, end, name))
    assert found == Expiry("c", end.timestamp(), begin.timestamp())


@given(st.binary(max_size=80))
def test_what_is_no_certificate_has_no_dates(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        der_validity(data)


def test_of_a_bundle_the_last_and_of_a_chain_the_first_counts() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    old, new = (certificate(now, now + timedelta(days=days)) for days in (10, 100))
    both = f"# a comment\n{old}\n{new}"
    for find, days in ((certificate_expiry, 10), (authority_expiry, 100)):
        found = find("c", both)
        assert found is not None
        assert found.ends_s == (now + timedelta(days=days)).timestamp()
    assert certificate_expiry("c", "no certificate") is None
    assert authority_expiry("c", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") is None


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (a_token(exp=2000, iat=1000), Expiry("token", 2000, 1000)),
        (a_token(exp=2000), Expiry("token", 2000, None)),
        (a_token(sub="forever"), None),
        ("opaque", None),
        ("a.b.c", None),
        ("a.\u00fc.c", None),
        (a_token(exp="soon"), None),
    ],
)
def test_a_token_tells_its_end_or_has_none(token: str, expected: Expiry | None) -> None:
    assert token_expiry("token", token) == expected


@pytest.mark.parametrize(
    ("lasts_s", "near_before_s"),
    [
        (365 * DAY_S, 7 * DAY_S),
        (70 * DAY_S, 7 * DAY_S),
        (10 * DAY_S, DAY_S),
        (3600.0, 360.0),
        (None, 7 * DAY_S),
    ],
)
def test_fault_37_the_alarm_is_seven_days_or_a_tenth_of_its_life_before_the_end(
    lasts_s: float | None, near_before_s: float
) -> None:
    ends_s = 1e9
    one = Expiry("c", ends_s, None if lasts_s is None else ends_s - lasts_s)
    assert not one.is_near(ends_s - near_before_s - 1)
    assert one.is_near(ends_s - near_before_s)
    assert one.is_near(ends_s + 1)


def told(story_s: float, *expiries: Expiry, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is said in so many seconds of virtual time."""
    said: list[str] = []

    async def story(loop: VirtualLoop) -> None:
        watch = ExpiryWatch(lambda: expiries, VirtualClock(loop))
        watch.on_near = said.append
        running = asyncio.create_task(watch.run())
        await asyncio.sleep(story_s)
        assert watch.known == expiries
        running.cancel()
        await asyncio.wait([running])

    with caplog.at_level(logging.WARNING):
        run(story)
    assert [record.message for record in caplog.records] == said
    return said


def test_fault_37_what_ends_soon_is_said_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    began_s = run(wall_time)
    near = Expiry("client-certificate", began_s + 2 * DAY_S)
    far = Expiry("token", began_s + 100 * DAY_S)
    said = told(3 * DAY_S - POLL_EVERY_S, near, far, caplog=caplog)
    assert len(said) == 3
    assert all(
        sentence.startswith("the client certificate on the way to the API server") for sentence in said
    )
    assert ["has ended" in sentence for sentence in said] == [False, False, True]


async def wall_time(loop: VirtualLoop) -> float:
    return VirtualClock(loop).now().timestamp()


def test_fault_37_all_that_a_connection_rests_on_is_known(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], tls=server_tls()) as server:
            cluster = {
                "server": f"https://127.0.0.1:{server.port}",
                "certificate-authority-data": in_base64("ca.crt"),
            }
            files = {"client-certificate": str(CERTIFICATES / "client.crt"), "client-key": "client.key"}
            files["client-key"] = str(CERTIFICATES / "client.key")
            user = {**files, "token": a_token(exp=2e9, iat=1e9)}
            transport = HttpTransport(find_access(kubeconfig=write(tmp_path / "c", config(cluster, user))))
            before = {one.credential for one in transport.expiries()}
            assert before == {"token", "client-certificate", "certificate-authority"}
            await transport.call(Request("GET", "/"), timeout_s=5)
            ends_s = {one.credential: one.ends_s for one in transport.expiries()}
            for credential, name in (("client-certificate", "client"), ("server-certificate", "server")):
                made = x509.load_pem_x509_certificate((CERTIFICATES / f"{name}.crt").read_bytes())
                assert ends_s[credential] == made.not_valid_after_utc.timestamp()
            await transport.close()

    within(10, main)
