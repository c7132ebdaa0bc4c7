"""Credentials from a program: client.authentication.k8s.io/v1 and v1beta1.

The program gets, as from kubectl, our environment, what the kubeconfig adds, and KUBERNETES_EXEC_INFO; it
gets our standard input only if that is a terminal. What it answers is kept until it expires or the server
refuses it, and is never shown.
"""

import asyncio
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from gpufleet.kube.kube_errors import SettingsError, TransportError
from gpufleet.kube.kubeconfig import ExecSettings

# The versions of the protocol, and the answers to the question whether the program may talk to a person.
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
RUN_LIMIT_S = 120.0
"""A person may have to log in meanwhile; a program that takes longer hangs."""

OUTPUT_MAX_BYTES = 4 * 1024 * 1024
"""A token and a certificate with its key have some kilobytes."""

# As much as a pipe holds.
OUTPUT_PIECE_BYTES = 64 * 1024
# A token that expires while its request travels would be refused.
RENEW_BEFORE = timedelta(seconds=10)


class ClusterInfo(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """What a plugin is told of the cluster if the kubeconfig wants so."""

    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: str = ""
    config: object = None


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """What a plugin answered: a token, a certificate with its key, or both."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: Credential | None = None


class _QuestionSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    # Never left out: v1 wants it said.
    interactive: bool | None = None
    cluster: ClusterInfo | None = None


class _Question(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    spec: _QuestionSpec
    kind: str = "ExecCredential"


_ANSWER = msgspec.json.Decoder(_Answer)


class ExecPlugin:
    """One program, and the credential that it gave last."""

    def __init__(self, settings: ExecSettings, file: Path, cluster: ClusterInfo) -> None:
        """Raises SettingsError for settings that could never work."""
        self._settings = settings
        self._file = file
        self._cluster = cluster if settings.provide_cluster_info else None
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._mode = settings.interactive_mode or ""
        if settings.api_version not in VERSIONS:
            raise self._wrong("apiVersion", settings.api_version, " or ".join(VERSIONS))
        # v1beta1 may leave the mode out; v1 has to name one.
        if not self._mode and settings.api_version == VERSIONS[1]:
            self._mode = "IfAvailable"
        if self._mode not in MODES:
            raise self._wrong("interactiveMode", self._mode, ", ".join(MODES))
        if not settings.command:
            raise self._wrong("command", settings.command, "a program")

    async def credential(self) -> Credential:
        """The credential to use now. Raises TransportError if the program fails."""
        # One run for all requests that wait for a credential: a person must not be asked twice.
        async with self._lock:
            if self._credential is None or _expired(self._credential):
                self._credential = await self._run()
            return self._credential

    async def refused(self, credential: Credential | None) -> bool:
        """The server refused this credential: whether another may be had."""
        # A refusal of an older credential says nothing about the one that was fetched meanwhile.
        if credential is not None and credential is self._credential:
            self._credential = None
        return True

    async def _run(self) -> Credential:
        process = await self._start()
        try:
            async with asyncio.timeout(RUN_LIMIT_S):
                output = await self._output(process)
                await process.wait()
        # A caller that is cancelled leaves no program behind either.
        except BaseException as error:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if isinstance(error, TimeoutError):
                raise self._failed(f"did not end within {RUN_LIMIT_S:.0f} s") from error
            raise
        if process.returncode != 0:
            raise self._failed(f"ended with status {process.returncode}; see what it wrote above")
        return self._read(output)

    async def _output(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        pieces, size = [], 0
        while piece := await process.stdout.read(OUTPUT_PIECE_BYTES):
            size += len(piece)
            if size > OUTPUT_MAX_BYTES:
                raise self._failed(f"printed more than {OUTPUT_MAX_BYTES} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def _start(self) -> asyncio.subprocess.Process:
        settings = self._settings
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        if self._mode == "Always" and not has_terminal:
            raise self._wrong("interactiveMode", self._mode, "a terminal on standard input, which we lack")
        interactive = self._mode != "Never" and has_terminal
        question = _Question(settings.api_version, _QuestionSpec(interactive, self._cluster))
        environment = {
            **os.environ,
            **{variable.name: variable.value for variable in settings.env or ()},
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(question).decode(),
        }
        try:
            return await asyncio.create_subprocess_exec(
                self._program(environment.get("PATH", os.defpath)),
                *(settings.args or ()),
                # A plugin that may ask gets the terminal; another must not eat our standard input.
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            way_out = settings.install_hint or "an executable program"
            raise self._wrong("command", settings.command, way_out) from error

    def _program(self, path: str) -> str:
        """A name is looked up in PATH; a path is relative to the kubeconfig."""
        command = self._settings.command
        if os.sep in command:
            return str(self._file.parent.absolute() / command)
        return shutil.which(command, path=path) or command

    def _read(self, output: bytes) -> Credential:
        try:
            answer = _ANSWER.decode(output)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            # What it printed may be a secret: the error says only where it is wrong.
            raise self._failed(f"did not print an ExecCredential ({error})") from None
        credential = answer.status
        if answer.kind != "ExecCredential" or answer.api_version != self._settings.api_version:
            raise self._failed(f"did not print an ExecCredential of {self._settings.api_version}")
        if credential is None or not (credential.token or credential.client_certificate_data):
            raise self._failed("gave neither a token nor a certificate")
        if bool(credential.client_certificate_data) != bool(credential.client_key_data):
            raise self._failed("gave a certificate without its key, or a key without its certificate")
        return credential

    def _wrong(self, field: str, value: str, expected: str) -> SettingsError:
        return SettingsError(
            "the exec plugin cannot run",
            field=f"user.exec.{field}",
            value=value,
            expected=expected,
            where=str(self._file),
        )

    def _failed(self, problem: str) -> TransportError:
        return TransportError(f"the exec plugin {self._settings.command!r} {problem}", reached=False)


def _expired(credential: Credential) -> bool:
    ends = credential.expiration_timestamp
    if ends is None:
        return False
    # The protocol asks for a zone. Without one UTC is taken, in which Kubernetes writes all times.
    if ends.tzinfo is None:
        ends = ends.replace(tzinfo=UTC)
    return datetime.now(UTC) >= ends - RENEW_BEFORE
