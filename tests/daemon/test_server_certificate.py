"""A certificate that can be used is served; another is refused by the name of its file."""

import logging
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from gpufleet.daemon.server_certificate import ServerCertificate, certificate_of
from gpufleet.localkube.access.certificates import Identity
from gpufleet.model.model_errors import InputError
from tests.daemon.pem_files import issued, mount


def with_password(key: bytes) -> bytes:
    """The key as another program would protect it."""
    loaded = serialization.load_pem_private_key(key, password=None)
    return loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


PAIR, OTHER = issued(), issued()


@pytest.mark.parametrize(
    ("pair", "file", "problem"),
    [
        (Identity(PAIR.certificate, OTHER.key), "tls.key", "is the key of another certificate"),
        (Identity(PAIR.certificate, b"nothing\n"), "tls.key", "holds no key that can be used"),
        (Identity(PAIR.certificate, with_password(PAIR.key)), "tls.key", "holds no key that can be used"),
        (Identity(PAIR.certificate, PAIR.certificate), "tls.key", "holds no key that can be used"),
        (Identity(b"", PAIR.key), "tls.crt", "holds no certificate"),
        (Identity(PAIR.key, PAIR.key), "tls.crt", "holds no certificate"),
        (Identity(PAIR.certificate[:200], PAIR.key), "tls.crt", "holds no certificate"),
        (Identity(b"\xff\xfe", PAIR.key), "tls.crt", "is no PEM"),
        (Identity(PAIR.certificate, b"x" * (2**20 + 1)), "tls.key", "is larger than 1 MiB"),
    ],
)
def test_a_pair_that_cannot_be_used_is_refused_by_its_file(
    tmp_path: Path, pair: Identity, file: str, problem: str
) -> None:
    with pytest.raises(InputError) as refused:
        ServerCertificate(*mount(tmp_path, pair))
    assert problem in str(refused.value)
    assert str(tmp_path / file) in str(refused.value)
    assert {"tls.crt": "--metrics-certificate", "tls.key": "--metrics-key"}[file] in str(refused.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    certificate, key = mount(tmp_path, PAIR)
    with pytest.raises(InputError, match=r"gone\.crt, --metrics-certificate: cannot be read \(No such file"):
        ServerCertificate(tmp_path / "gone.crt", key)
    with pytest.raises(InputError, match=r"gone\.key, --metrics-key: cannot be read \(No such file"):
        ServerCertificate(certificate, tmp_path / "gone.key")
    with pytest.raises(InputError, match=r"is a folder"):
        ServerCertificate(tmp_path, key)


def test_a_certificate_comes_with_its_key_or_not_at_all(tmp_path: Path) -> None:
    certificate, key = mount(tmp_path, PAIR)
    assert certificate_of(None, None) is None
    assert certificate_of(certificate, key) is not None
    with pytest.raises(InputError, match="--metrics-key: a certificate and a key come together"):
        certificate_of(certificate, None)
    with pytest.raises(InputError, match="--metrics-certificate: a certificate and a key come together"):
        certificate_of(None, key)


def test_files_are_read_once_while_they_do_not_change(tmp_path: Path) -> None:
    certificate = ServerCertificate(*mount(tmp_path, PAIR))
    assert certificate.context() is certificate.context()


def test_a_renewed_pair_is_used(tmp_path: Path) -> None:
    certificate = ServerCertificate(*mount(tmp_path, PAIR))
    before = certificate.context()
    mount(tmp_path, OTHER)
    assert certificate.context() is not before


@pytest.mark.parametrize("broken", [Identity(PAIR.certificate, OTHER.key), Identity(b"", b"")])
def test_a_broken_new_pair_is_told_once_and_the_pair_before_stays(
    tmp_path: Path, broken: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = ServerCertificate(*mount(tmp_path, PAIR))
    before = certificate.context()
    mount(tmp_path, broken)
    assert [certificate.context() for _ in range(5)] == [before] * 5
    (told,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert str(tmp_path) in vars(told)["problem"]
    mount(tmp_path, OTHER)
    assert certificate.context() is not before


def test_files_that_are_gone_are_told_once_and_read_when_they_are_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = mount(tmp_path, PAIR)
    certificate = ServerCertificate(*paths)
    before = certificate.context()
    (tmp_path / "..data").unlink()
    assert [certificate.context() for _ in range(5)] == [before] * 5
    assert len(caplog.records) == 1
    mount(tmp_path, OTHER)
    assert certificate.context() is not before


def test_a_certificate_that_is_replaced_before_its_key_is_used_with_the_key_before(tmp_path: Path) -> None:
    """Files of no Secret may be written one after the other."""
    paths = mount(tmp_path, PAIR)
    certificate = ServerCertificate(*paths)
    before = certificate.context()
    paths[0].write_bytes(OTHER.certificate)
    assert certificate.context() is before
    paths[1].write_bytes(OTHER.key)
    assert certificate.context() is not before


def test_what_is_old_or_renegotiates_is_not_spoken(tmp_path: Path) -> None:
    context = ServerCertificate(*mount(tmp_path, PAIR)).context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
