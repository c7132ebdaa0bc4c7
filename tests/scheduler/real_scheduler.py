"""The scheduler as a process of its own on a real cluster, with the rights that it has in every cluster."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.processes import child
from tests.waiting import until

# The first start after a change of the engine compiles it.
START_WAIT_S = 300.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"
PODS = "/api/v1/namespaces/default/pods"


def started(cluster: LocalCluster, *more: str) -> child.Child:
    """Start it, with these options too; for who ends it in a way of their own."""
    kubeconfig = cluster.kubeconfig_for(DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups)
    # Nobody starts it again here, and a busy machine may keep it from renewing a short Lease.
    options = (f"--kubeconfig={kubeconfig}", "--lease-seconds=60", *more)
    command = (sys.executable, "-m", "gpufleet", "scheduler", *options)
    return child.start("scheduler", command, cluster.folder / "logs" / "gpufleet.log")


@contextmanager
def scheduler_at_work(cluster: LocalCluster, *more: str) -> Iterator[None]:
    """Run it, with these options too, for the length of the block, from the moment when it leads."""
    scheduler = started(cluster, *more)
    try:
        with cluster.api() as api:
            until(lambda: leads(api), START_WAIT_S)
        yield
        assert scheduler.exit_code is None, str(scheduler.failed("ended by itself"))
    finally:
        scheduler.stop()


def leads(api: Api) -> bool:
    """Whether somebody holds the scheduler's Lease."""
    status, body = api.request("GET", LEASE)
    return status == 200 and b"holderIdentity" in body


def node_of(api: Api, name: str) -> str:
    """The node of a pod, "" where it has none."""
    found: Object = api.call("GET", f"{PODS}/{name}")
    return str(found["spec"].get("nodeName", ""))


def why(api: Api, name: str) -> str:
    """What the pod's condition says of why it waits, "" where it says nothing."""
    return _told(api, name, "message")


def reason(api: Api, name: str) -> str:
    """The reason of that condition, which autoscalers read."""
    return _told(api, name, "reason")


def _told(api: Api, name: str, field: str) -> str:
    found: Object = api.call("GET", f"{PODS}/{name}")
    conditions = found["status"].get("conditions", [])
    return next((str(one.get(field, "")) for one in conditions if one["type"] == "PodScheduled"), "")
