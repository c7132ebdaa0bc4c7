"""The identity of a node's agent at the API server, where it does not run as a pod: tests, `gpufleet up`.

The policy that holds an agent to its own node asks the token for the node, and a certificate has no such
thing. A token that is bound to a Node object has it, as a pod's token has it from the kubelet.
"""

from pathlib import Path

from gpufleet.files.regular import read_regular
from gpufleet.kube.manifests import AGENT_ACCOUNT, DEFAULT_IDENTITY
from gpufleet.localkube.access import kubeconfig
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.processes.plan import OWN_FILE_BYTES_MAX

TOKEN_LASTS_S = 365 * 24 * 3600
"""Longer than a local cluster lives: no kubelet renews this token."""

ACCOUNT = f"/api/v1/namespaces/{DEFAULT_IDENTITY.namespace}/serviceaccounts/{AGENT_ACCOUNT}"


def agent_kubeconfig(cluster: LocalCluster, node: str) -> Path:
    """A kubeconfig of this node's agent; the node and what gpufleet installs must be there.

    Raises RefusedError where they are not.
    """
    with cluster.api() as api:
        token = agent_token(api, node)
    folder = cluster.folder / "users"
    folder.mkdir(exist_ok=True)
    path = folder / f"agent-of-{node}.kubeconfig"
    authority = read_regular(cluster.authority, OWN_FILE_BYTES_MAX)
    kubeconfig.write_with_token(path, f"gpufleet-{cluster.name}", cluster.url, authority, token)
    return path


def agent_token(api: Api, node: str) -> str:
    """A token of the agents' service account that is bound to this node; it dies with the Node object."""
    uid = api.call("GET", f"/api/v1/nodes/{node}")["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_LASTS_S, "boundObjectRef": bound},
    }
    token: str = api.call("POST", f"{ACCOUNT}/token", body)["status"]["token"]
    return token
