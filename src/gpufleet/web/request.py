"""What was asked of ``gpufleet web``, checked: which cluster, where to listen, and who may log in."""

from pathlib import Path

import msgspec

from gpufleet.cluster.settings import LEASE_NAMESPACE, SCHEDULER_NAME, Settings
from gpufleet.kube.connection import ClusterChoice
from gpufleet.model.model_errors import InputError
from gpufleet.usage.prometheus.access import Access
from gpufleet.web.asking.questions import Asked
from gpufleet.web.login.trusted_proxy import TrustedProxy

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Request(msgspec.Struct, frozen=True):
    """The request. With ``cluster_login`` people log in with tokens of the cluster; without, it is only for
    the person who started it.

    ``hosts`` are the names under which it is served, empty for any. ``proxy`` says from where a request may
    name its user. ``url_file`` is where the URL is written.
    """

    host: str
    port: int
    cluster: ClusterChoice = ClusterChoice()
    cluster_login: bool = False
    hosts: tuple[str, ...] = ()
    proxy: TrustedProxy | None = None
    scheduler_name: str = SCHEDULER_NAME
    lease_namespace: str = LEASE_NAMESPACE
    prometheus: Access | None = None
    certificate: Path | None = None
    key: Path | None = None
    url_file: Path | None = None
    log_level: str = "info"
    log_format: str | None = None

    @property
    def settings(self) -> Settings:
        """The scheduler that is meant."""
        return Settings(
            identity="web", scheduler_name=self.scheduler_name, lease_namespace=self.lease_namespace
        )

    @property
    def asked(self) -> Asked:
        """The cluster and the scheduler, as the process that answers questions is told."""
        path = self.cluster.kubeconfig
        return Asked(
            "" if path is None else str(path),
            self.cluster.context,
            self.scheduler_name,
            self.lease_namespace,
        )


def check(request: Request) -> None:
    """Raises InputError for an address that others reach while everyone there would have the caller's
    rights.
    """
    if not request.cluster_login and request.host not in LOOPBACK:
        raise InputError(
            "others could reach it, and everyone would see what you may see",
            field="--listen",
            value=f"{request.host}:{request.port}",
            expected="127.0.0.1:PORT, or --login cluster, so that each logs in with rights of their own",
        )
