"""From settings to a way to the server: trust, certificates, tokens, and how they are renewed.

The files that settings name are read anew: a token when it is a minute old or refused, certificates for each
connection. ``following_access`` does so with the settings themselves, and finds them.
"""

import base64
import binascii
import contextlib
import logging
import os
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from gpufleet.files.regular import UnfitFileError, read_regular
from gpufleet.kube.access import Endpoint, read_endpoint
from gpufleet.kube.exec_plugin import ClusterInfo, Credential, ExecPlugin
from gpufleet.kube.expiry import Expiry, authority_expiry, certificate_expiry, token_expiry
from gpufleet.kube.kube_errors import SettingsError
from gpufleet.kube.kubeconfig import Chosen, Cluster, User

# The kubelet renews a service account's token long before it expires; so often we look.
TOKEN_FILE_AGE_S = 60.0
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The kubelet mounts a pod's token, authority and namespace there."""

FILE_BYTES_MAX = 4 * 2**20
"""More than any token, key or bundle of authorities has."""
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a kubeconfig's cluster that is handed on to the program, as kubectl does."""

_log = logging.getLogger(__name__)


class TlsMaterial(msgspec.Struct, frozen=True):
    """What a TLS connection needs: PEM texts; empty where nothing was given."""

    authority: str = ""
    certificate: str = ""
    key: str = ""
    verified: bool = True


class ConfiguredAccess:
    """An ``Access`` as settings describe it; reads its files anew when they change."""

    def __init__(self, chosen: Chosen) -> None:
        """Raises SettingsError, without reading more than can be checked at once."""
        self.namespace = chosen.namespace
        self.context = chosen.context
        self._chosen = chosen
        self._cluster, self._user = chosen.cluster, chosen.user
        self.endpoint = self._check_cluster()
        self._plugin = self._check_user()
        self._credential: Credential | None = None
        self._token = ""
        self._token_read_at_s: float | None = None
        self._material: TlsMaterial | None = None
        self._context: ssl.SSLContext | None = None
        self._tls_problem = ""
        if self.endpoint.tls:
            self._make_context(self._read_material())

    async def authorization(self) -> str:
        """The Authorization header of the next request."""
        user = self._user
        if user.token_file:
            return _bearer(self._token_of_file(user.token_file))
        if user.token:
            return _bearer(self._checked_token(user.token, "token"))
        if user.username:
            pair = f"{user.username}:{user.password or ''}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        if self._plugin is not None:
            self._credential = await self._plugin.credential()
            token = self._credential.token
            return _bearer(self._checked_token(token, "exec")) if token else ""
        return ""

    async def tls_context(self) -> ssl.SSLContext:
        """Trust and certificate for the next connection."""
        if self._plugin is not None:
            self._credential = await self._plugin.credential()
        try:
            context = self._make_context(self._read_material())
        except SettingsError as problem:
            # The pair may not fit at this moment: a certificate and its key are replaced one after the other.
            if self._context is None:
                raise
            # Told once, and not with each new connection.
            if str(problem) != self._tls_problem:
                _log.warning("what was read before stays in use: %s", problem)
            self._tls_problem = str(problem)
            return self._context
        self._tls_problem = ""
        return context

    async def refused(self) -> bool:
        """The server said 401: files and plugins may know better now."""
        if self._user.token_file:
            # None makes the next look read the file, however fresh the token is.
            before, self._token_read_at_s = self._token, None
            return self._token_of_file(self._user.token_file) != before
        if self._plugin is not None:
            return await self._plugin.refused(self._credential)
        if self._user.client_certificate and self.endpoint.tls:
            known = self._material
            await self.tls_context()
            return self._material != known
        return False

    def expiries(self) -> tuple[Expiry, ...]:
        """When what the files hold now ends; what an exec plugin gives is renewed by it."""
        user = self._user
        found: list[Expiry | None] = []
        # Read for its end alone: what is wrong with it is told where it is used.
        with contextlib.suppress(SettingsError):
            token = self._token_of_file(user.token_file) if user.token_file else user.token
            found.append(token_expiry("token", token or ""))
        with contextlib.suppress(SettingsError):
            material = self._read_material()
            found.append(certificate_expiry("client-certificate", material.certificate))
            found.append(authority_expiry("certificate-authority", material.authority))
        return tuple(one for one in found if one is not None)

    def _check_cluster(self) -> Endpoint:
        cluster, where = self._cluster, str(self._chosen.cluster_file)
        if not cluster.server:
            raise SettingsError(
                "the cluster has no address", field="cluster.server", expected="https://...", where=where
            )
        if cluster.proxy_url:
            raise SettingsError(
                "proxies are not supported",
                field="cluster.proxy-url",
                # Without the name and password that may stand in front.
                value=cluster.proxy_url.rpartition("@")[2],
                expected="an address that is reached directly, or a port forwarded to it",
                where=where,
            )
        if cluster.insecure_skip_tls_verify:
            if cluster.certificate_authority or cluster.certificate_authority_data:
                raise SettingsError(
                    "a certificate authority is given and not to be used",
                    field="cluster.insecure-skip-tls-verify",
                    expected="one of the two",
                    where=where,
                )
            _log.warning(
                "%s: insecure-skip-tls-verify: the server is NOT verified; anyone on the way can read "
                "and change everything, credentials included",
                where,
            )
        name = cluster.tls_server_name or ""
        return read_endpoint(cluster.server, server_name=name, field="cluster.server", where=where)

    def _check_user(self) -> ExecPlugin | None:
        user, where = self._user, str(self._chosen.user_file)
        if user.auth_provider is not None:
            raise SettingsError(
                "auth-provider was removed from Kubernetes",
                field="user.auth-provider",
                expected="an exec plugin of the same vendor",
                where=where,
            )
        if user.impersonated:
            raise SettingsError(
                "impersonation is not supported",
                field="user.as",
                value=user.impersonated,
                expected="a user of its own",
                where=where,
            )
        if (user.token or user.token_file) and user.username:
            raise SettingsError(
                "a token and a password are given", field="user", expected="one of the two", where=where
            )
        if user.token:
            self._checked_token(user.token, "token")
        # What stands in the file goes before what a program says, as in kubectl.
        if user.exec is None or user.token or user.token_file or user.username:
            return None
        return ExecPlugin(user.exec, self._chosen.user_file, self._cluster_info())

    def _cluster_info(self) -> ClusterInfo:
        cluster = self._cluster
        authority = self._authority()
        return ClusterInfo(
            server=cluster.server or "",
            tls_server_name=cluster.tls_server_name or "",
            insecure_skip_tls_verify=bool(cluster.insecure_skip_tls_verify),
            certificate_authority_data=base64.b64encode(authority.encode()).decode(),
            config=next(
                (entry.extension for entry in cluster.extensions or () if entry.name == EXEC_EXTENSION), None
            ),
        )

    def _authority(self) -> str:
        cluster, file = self._cluster, self._chosen.cluster_file
        return _pem(
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            file,
            "cluster.certificate-authority",
        )

    def _read_material(self) -> TlsMaterial:
        user, file = self._user, self._chosen.user_file
        certificate = _pem(
            user.client_certificate_data, user.client_certificate, file, "user.client-certificate"
        )
        key = _pem(user.client_key_data, user.client_key, file, "user.client-key")
        if bool(certificate) != bool(key):
            raise SettingsError(
                "a client certificate needs its key",
                field="user.client-certificate and user.client-key",
                expected="both",
                where=str(file),
            )
        given = self._credential
        # A program that gives a certificate means it to be used in place of what stands in files.
        if given is not None and given.client_certificate_data:
            certificate, key = given.client_certificate_data, given.client_key_data
        verified = not self._cluster.insecure_skip_tls_verify
        return TlsMaterial(self._authority(), certificate, key, verified)

    def _make_context(self, material: TlsMaterial) -> ssl.SSLContext:
        # To read a bundle of authorities is dear, so a context is made anew only for other material.
        if self._context is None or material != self._material:
            self._context = _tls_context(material, self._chosen)
            self._material = material
        return self._context

    def _token_of_file(self, name: str) -> str:
        now_s = time.monotonic()
        if self._token_read_at_s is None or now_s - self._token_read_at_s > TOKEN_FILE_AGE_S:
            path = self._chosen.user_file.parent / name
            try:
                self._token = self._checked_token(_text_of(path).strip(), "tokenFile")
            except (OSError, UnicodeDecodeError, UnfitFileError) as error:
                if not self._token:
                    raise _unreadable("user.tokenFile", path, self._chosen.user_file, error) from error
                _log.warning("%s cannot be read any more; its last token stays in use", path)
            # Also after a failure: the file is tried again when the token is due, and not with each request.
            self._token_read_at_s = now_s
        return self._token

    def _checked_token(self, token: str, field: str) -> str:
        if not token or not token.isascii() or not token.isprintable():
            raise SettingsError(
                "the token is empty or has characters that no token has",
                field=f"user.{field}",
                expected="printable ASCII",
                where=str(self._chosen.user_file),
            )
        return token


def in_cluster_access(
    environment: Mapping[str, str], *, namespace: str = "", folder: Path = SERVICE_ACCOUNT
) -> ConfiguredAccess:
    """The API server as a pod sees it, with the pod's service account. Raises SettingsError."""
    host, port = (
        environment.get("KUBERNETES_SERVICE_HOST", ""),
        environment.get("KUBERNETES_SERVICE_PORT", ""),
    )
    if not host or not port:
        raise SettingsError(
            "this is no pod", field="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT", expected="both"
        )
    # An IPv6 address stands in brackets in a URL.
    shown = f"[{host}]" if ":" in host else host
    # The token does without this file: only the default namespace is missed.
    with contextlib.suppress(OSError, UnfitFileError):
        namespace = namespace or _text_of(folder / "namespace").strip()
    return ConfiguredAccess(
        Chosen(
            context="in-cluster",
            namespace=namespace or "default",
            cluster=Cluster(server=f"https://{shown}:{port}", certificate_authority="ca.crt"),
            cluster_file=folder / "ca.crt",
            user=User(token_file="token"),  # noqa: S106  (the name of a file)
            user_file=folder / "token",
        )
    )


def _text_of(path: Path) -> str:
    return read_regular(path, FILE_BYTES_MAX).decode("utf-8")


def _bearer(token: str) -> str:
    return f"Bearer {token}"


def _pem(data: str | None, name: str | None, file: Path, field: str) -> str:
    """PEM from a field's data, else from the file it names; data wins, as for kubectl."""
    if data:
        try:
            # YAML may break the text into lines, which a strict decoder refuses.
            return base64.b64decode("".join(data.split()), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise SettingsError(
                "is no PEM in base64", field=f"{field}-data", expected="one line of base64", where=str(file)
            ) from error
    if not name:
        return ""
    path = file.parent / name
    try:
        return read_regular(path, FILE_BYTES_MAX).decode("ascii")
    except (OSError, UnicodeDecodeError, UnfitFileError) as error:
        raise _unreadable(field, path, file, error) from error


def _unreadable(field: str, path: Path, file: Path, error: Exception) -> SettingsError:
    reason: str | None = "no text"
    if isinstance(error, OSError):
        reason = error.strerror
    elif isinstance(error, UnfitFileError):
        reason = error.problem
    return SettingsError(
        f"its file cannot be read ({reason})",
        field=field,
        value=str(path),
        expected="a file that this user may read",
        where=str(file),
    )


def _tls_context(material: TlsMaterial, chosen: Chosen) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=material.authority or None)
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(
            "holds no certificates",
            field="cluster.certificate-authority",
            expected="PEM certificates",
            where=str(chosen.cluster_file),
        ) from error
    # Certificate authorities of clusters are often made without what strictness asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not material.verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if material.certificate:
        try:
            with _file_of(f"{material.certificate}\n{material.key}") as name:
                context.load_cert_chain(name, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise SettingsError(
                "the client certificate and its key do not belong together, or are no PEM",
                field="user.client-certificate and user.client-key",
                expected="a PEM certificate and its key without a password",
                where=str(chosen.user_file),
            ) from error
    return context


def _no_password() -> str:
    """Refuse a key with a password: without this callback OpenSSL would ask for it at the terminal."""
    raise ValueError("the key has a password")


@contextlib.contextmanager
def _file_of(text: str) -> Iterator[str]:
    """OpenSSL reads keys only from files: one in memory where there are such, else one for a moment."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            yield file.name
