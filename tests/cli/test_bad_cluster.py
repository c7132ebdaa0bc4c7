"""Every command that asks a cluster says why it cannot be asked: whose kubeconfig it was, and what to do.

A kubeconfig that cannot be used is bad input (code 2). A server that cannot be reached or does not take the
credentials is the world failing (code 3).
"""

import asyncio
import datetime as dt
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpufleet.cli import parameters as kinds
from gpufleet.cli.main import ExitCode, main
from gpufleet.kube.clock import MachineClock
from tests.cli.command_parameters import LINES, parameters, write_good_files

ASKING = sorted({one.command for one in parameters() if one.asked.type is kinds.KUBECONFIG})
DAEMONS = dict.fromkeys(
    ("admission serve", "agent", "expander", "ledger", "metrics", "operator", "scheduler", "web"),
    "waits for its server",
)
LIVE = {
    "cost": "--kubeconfig config",
    "fit": "llama-3.1-8b --cluster --kubeconfig config",
    "lint": "manifest.yaml --live --kubeconfig config",
}
LIVE["import"] = "kueue --kubeconfig config"
COMMANDS = [name for name in ASKING if name not in DAEMONS]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with good files, and nothing of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    write_good_files(tmp_path)
    # A command tries six times before it gives up; its pauses, of 2.5 s in sum, are not what is asked here.
    monkeypatch.setattr(MachineClock, "sleep", _short_sleep)


async def _short_sleep(_: MachineClock, seconds: float) -> None:
    await asyncio.sleep(seconds / 50)


def refusal(name: str, capsys: pytest.CaptureFixture[str], code: ExitCode) -> str:
    """What a command says that ends with this code, in at most three lines."""
    line = LIVE.get(name, LINES[name])
    ended = main([*name.split(), *line.split()])
    said = capsys.readouterr().err
    assert ended == code, said
    assert "Traceback" not in said
    assert "bug" not in said
    assert len(said.splitlines()) <= 3, said
    assert len(said) < 1000
    return said


def write_kubeconfig(text: str) -> None:
    Path("config").write_text(text, encoding="utf-8")


ONE = "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n"
BROKEN: dict[str, tuple[str, str]] = {
    "empty": ("", "no context is chosen"),
    "no YAML": ("a: [", "is no YAML"),
    "another document": ("[1, 2]", "expected a kubeconfig"),
    "a wrong field": ("clusters: yes-please", "clusters"),
    "no current context": ("contexts: []", "no context is chosen"),
    "an unknown context": ("current-context: there\ncontexts: [{name: here, context: {}}]", "one of 'here'"),
    "an unknown cluster": (ONE, "contexts[a].cluster"),
    "no server": (f"{ONE}clusters: [{{name: b, cluster: {{}}}}]", "server"),
    "no address": (f"{ONE}clusters: [{{name: b, cluster: {{server: a b}}}}]", "no address of a server"),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("name", ASKING)
def test_a_kubeconfig_that_cannot_be_used_is_bad_input(
    name: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, words = BROKEN[what]
    write_kubeconfig(text)
    said = refusal(name, capsys, ExitCode.BAD_INPUT)
    assert "config" in said
    assert words in said
    assert "expected" in said


def test_without_any_kubeconfig_the_two_places_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "a-pod"]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert "KUBECONFIG" in said
    assert "~/.kube/config" in said or "--kubeconfig" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_a_server_that_does_not_listen_is_named_with_its_kubeconfig(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(name, capsys, ExitCode.WORLD_FAILED)
    assert "cannot connect to '127.0.0.1:1': connection refused" in said
    assert "context 'one' of config: see whether its server runs" in said


class _Answering(http.server.BaseHTTPRequestHandler):
    """Answers each request alike."""

    code, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(http.server.ThreadingHTTPServer):
    """Takes clients that leave in the middle as they are."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def server(
    code: int, body: bytes, wrap: Callable[[http.server.HTTPServer], None] | None = None
) -> Iterator[int]:
    """The port of a server on this machine that answers each request like this."""
    handler = type("Handler", (_Answering,), {"code": code, "body": body})
    listening = _Server(("127.0.0.1", 0), handler)
    if wrap is not None:
        wrap(listening)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield int(listening.server_address[1])
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def status(code: int, reason: str, message: str) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
        }
    ).encode()


def point_to(address: str, cluster: str = "", user: str = "{token: a-token}") -> None:
    write_kubeconfig(
        "current-context: one\ncontexts: [{name: one, context: {cluster: one, user: me}}]\n"
        f"users: [{{name: me, user: {user}}}]\n"
        f'clusters: [{{name: one, cluster: {{server: "{address}"{cluster}}}}}]\n'
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_token_that_is_refused_asks_for_another(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(401, status(401, "Unauthorized", "Unauthorized")) as port:
        point_to(f"http://127.0.0.1:{port}")
        said = refusal(name, capsys, ExitCode.WORLD_FAILED)
    assert "401" in said or "Unauthorized" in said
    assert "context 'one' of config: its user needs new credentials" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_of_something_else_is_no_api_server(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(200, b"<html>Welcome</html>") as port:
        point_to(f"http://127.0.0.1:{port}")
        said = refusal(name, capsys, ExitCode.WORLD_FAILED)
    assert "context 'one' of config: see whether its server is a Kubernetes API server" in said


def expired_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 by itself that ended yesterday, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=9))
        .not_valid_after(now - dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "expired.crt", folder / "expired.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return certificate, private


@pytest.mark.parametrize("name", COMMANDS)
def test_an_expired_certificate_is_said_to_be_one(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, key = expired_certificate(tmp_path)

    def wrap(listening: http.server.HTTPServer) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listening.socket = context.wrap_socket(
            listening.socket, server_side=True, do_handshake_on_connect=False
        )

    with server(200, b"{}", wrap) as port:
        point_to(f"https://localhost:{port}", f", certificate-authority: {certificate}")
        said = refusal(name, capsys, ExitCode.WORLD_FAILED)
    assert "certificate has expired" in said
    assert "renew the server's certificate" in said
