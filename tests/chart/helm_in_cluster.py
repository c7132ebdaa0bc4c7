"""helm as it is typed, about a cluster of a test; and what of a release is there."""

import os
from pathlib import Path

import msgspec

from gpufleet.localkube.cluster import LocalCluster
from tests.chart.kept_kinds import KEPT_KINDS
from tests.chart.rendering import NAMESPACE, RELEASE, helm


def in_cluster(cluster: LocalCluster, *arguments: str | Path, code: int = 0) -> str:
    """What helm says, asked about this cluster; it leaves nothing in a home folder."""
    home = cluster.folder / "helm"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "KUBECONFIG": str(cluster.kubeconfig),
        **{f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")},
    }
    return helm(*arguments, f"--namespace={NAMESPACE}", code=code, environment=environment)


def of_release(cluster: LocalCluster) -> set[tuple[str, str]]:
    """Every object in the cluster that bears the release's label and that helm keeps, by kind and name."""
    found = set()
    with cluster.api() as api:
        for kind, path in KEPT_KINDS.items():
            items = api.call("GET", f"{path}?labelSelector=app.kubernetes.io/instance%3D{RELEASE}")["items"]
            found |= {(kind, one["metadata"]["name"]) for one in items}
    return found


def kept(manifest: str) -> set[tuple[str, str]]:
    """The objects of a release, as helm remembers them."""
    objects = (msgspec.yaml.decode(one) for one in manifest.split("\n---\n"))
    return {(one["kind"], one["metadata"]["name"]) for one in objects if one}
