"""An access that follows its kubeconfig: what is replaced there counts from the next request on.

Files that a kubeconfig names are followed by ``configured_access`` itself. The context and the server stay
those that were chosen first: a person may switch to another cluster, and running programs do not follow. An
edit that cannot be used leaves what counted before.

``find_access`` is what commands call: flags, KUBECONFIG, ``~/.kube/config``, or the service account of the
pod that we run in.
"""

import logging
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gpufleet.kube.access import Endpoint
from gpufleet.kube.configured_access import ConfiguredAccess, in_cluster_access
from gpufleet.kube.expiry import Expiry
from gpufleet.kube.kube_errors import SettingsError
from gpufleet.kube.kubeconfig import NO_OVERRIDES, Overrides, choose, default_files
from gpufleet.model.model_errors import printable

LOG = logging.getLogger(__name__)


class FollowingAccess:
    """An Access from kubeconfig files; where several say something of one field, the first counts."""

    def __init__(self, files: Sequence[Path], overrides: Overrides = NO_OVERRIDES) -> None:
        """Raises SettingsError."""
        self._files = list(files)
        # Before the files are read: a change in between is seen at the next look, and none is missed.
        self._stamps = self._look()
        chosen = choose(self._files, overrides)
        # The context of the start stays: another program that switches the current context must not move a
        # running process to another cluster.
        self._overrides = msgspec.structs.replace(overrides, context=chosen.context)
        self._chosen = chosen
        self._access = ConfiguredAccess(chosen)

    @property
    def endpoint(self) -> Endpoint:
        """Where the server is."""
        return self._access.endpoint

    @property
    def origin(self) -> str:
        """Which context of which files it is, for messages."""
        files = ", ".join(map(str, self._files))
        return f"context {printable(self._chosen.context)} of {files}"

    @property
    def namespace(self) -> str:
        """The namespace for requests that name none."""
        return self._access.namespace

    async def authorization(self) -> str:
        """The Authorization header of the next request, from the newest usable kubeconfig."""
        return await self._newest().authorization()

    async def tls_context(self) -> ssl.SSLContext:
        """The TLS context of the next connection, from the newest usable kubeconfig."""
        return await self._newest().tls_context()

    async def refused(self) -> bool:
        """The server said 401: true if the kubeconfig changed since, or new credentials can be had."""
        before = self._access
        return self._newest() is not before or await before.refused()

    def expiries(self) -> tuple[Expiry, ...]:
        """When what we show and trust ends."""
        return self._newest().expiries()

    def _look(self) -> tuple[tuple[int, ...], ...]:
        """What changes when one of the files is written or replaced."""
        return tuple(_stamp(path) for path in self._files)

    def _newest(self) -> ConfiguredAccess:
        stamps = self._look()
        if stamps != self._stamps:
            # Noted before the files are read, so that a file that cannot be used is complained of once.
            self._stamps = stamps
            try:
                self._read_anew()
            except SettingsError as problem:
                LOG.warning(
                    "the kubeconfig cannot be used as it is now; what it said before counts",
                    extra={"problem": str(problem)},
                )
        return self._access

    def _read_anew(self) -> None:
        chosen = choose(self._files, self._overrides)
        if chosen == self._chosen:
            return
        access = ConfiguredAccess(chosen)
        if access.endpoint != self._access.endpoint:
            LOG.warning(
                "the kubeconfig names another server; it counts after a restart",
                extra={"server": access.endpoint.authority},
            )
            return
        self._chosen, self._access = chosen, access
        LOG.info("the kubeconfig was read anew")


def find_access(
    *,
    kubeconfig: Path | None = None,
    overrides: Overrides = NO_OVERRIDES,
    environment: Mapping[str, str] = os.environ,
) -> FollowingAccess | ConfiguredAccess:
    """The server and the user that flags, files and environment name. Raises SettingsError.

    ``kubeconfig`` is the one file of a flag; else KUBECONFIG, ``~/.kube/config``, and at last the
    service account of a pod.
    """
    files = [kubeconfig] if kubeconfig is not None else default_files(environment)
    if files:
        return FollowingAccess(files, overrides)
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_access(environment, namespace=overrides.namespace)
    raise SettingsError(
        "no cluster is known: there is no kubeconfig, and this is no pod",
        field="KUBECONFIG",
        value=environment.get("KUBECONFIG"),
        expected="--kubeconfig, KUBECONFIG, or ~/.kube/config; `gpufleet up` makes a cluster",
    )


def _stamp(path: Path) -> tuple[int, ...]:
    """Empty where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    # The inode tells a file that was replaced, the change time one whose times were set back.
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
