"""The metrics APIs of a local cluster: ``gpufleet metrics`` on this machine, which the API server is told of.

The Service of the APIServices is a name for this machine, so no node is needed. The server shows a
certificate of the cluster's authority, so it is written before the server starts. ``up`` calls these steps in
their order.
"""

import base64
import sys
import time

import msgspec

from gpufleet.files.regular import read_regular
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.access.certificates import write_private
from gpufleet.localkube.access.ports import LOOPBACK
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Component
from gpufleet.localkube.processes import child, plan
from gpufleet.localkube.processes.process_errors import ProgramFailedError

NAME = "metrics-apis"
SERVICE = "gpufleet-metrics-apis"
NAMESPACE = DEFAULT_IDENTITY.namespace
GROUPS = (
    ("custom.metrics.k8s.io", "v1beta2", 200),
    ("custom.metrics.k8s.io", "v1beta1", 100),
    ("external.metrics.k8s.io", "v1beta1", 100),
)
"""Group, version, and which version goes first."""

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
AVAILABLE_WAIT_S = 120.0
"""The API server asks each half minute whether a server of a group is there."""

# Short: `up` waits for it.
POLL_EVERY_S = 0.1


class MetricsPorts(msgspec.Struct, frozen=True):
    """Where the server listens, and where the scheduler serves its metrics."""

    served: int
    scheduler: int


def component(ports: MetricsPorts) -> Component:
    """The server, with the rights of an administrator of this cluster."""
    options = (
        f"--listen={LOOPBACK}:{ports.served}",
        f"--kubeconfig={NAME}.kubeconfig",
        f"--namespace={NAMESPACE}",
        f"--metrics-certificate={NAME}.crt",
        f"--metrics-key={NAME}.key",
        f"--scheduler-url=http://{LOOPBACK}:{ports.scheduler}",
        # The agent of the real node is no pod.
        "--agents-on-nodes",
    )
    command = (sys.executable, "-m", "gpufleet", "metrics", *options)
    return Component(name=NAME, command=command, user=NAME, groups=("system:masters",))


def write_certificate(cluster: LocalCluster) -> None:
    """What the server shows, in the cluster's folder."""
    identity = cluster.signing_authority().server([f"{SERVICE}.{NAMESPACE}.svc"], [LOOPBACK])
    write_private(cluster.folder / f"{NAME}.crt", identity.certificate)
    write_private(cluster.folder / f"{NAME}.key", identity.key)


def register(cluster: LocalCluster, api: Api, port: int) -> None:
    """Tell the API server where the groups are served."""
    authority = read_regular(cluster.authority, plan.OWN_FILE_BYTES_MAX)
    named = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE}, "spec": named}
    api.apply(f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}", service)
    for group, version, priority in GROUPS:
        spec = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": priority,
            "caBundle": base64.b64encode(authority).decode(),
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
        }
        name = f"{version}.{group}"
        body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}
        api.apply(f"{API_SERVICES}/{name}", {**body, "metadata": {"name": name}})


def await_available(cluster: LocalCluster, api: Api) -> None:
    """Return when the API server reaches all groups; ProgramFailedError with a log's end if it does not."""
    limit_s = time.monotonic() + AVAILABLE_WAIT_S
    while not all(_is_available(api, f"{version}.{group}") for group, version, _ in GROUPS):
        if time.monotonic() > limit_s:
            log = cluster.folder / plan.LOGS / f"{NAME}.log"
            raise ProgramFailedError(
                f"the API server did not reach {NAME} within {AVAILABLE_WAIT_S:.0f} s; the end of its log, "
                f"{log}:\n{child.log_tail(log)}"
            )
        time.sleep(POLL_EVERY_S)


def _is_available(api: Api, name: str) -> bool:
    conditions = api.call("GET", f"{API_SERVICES}/{name}").get("status", {}).get("conditions", [])
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)
