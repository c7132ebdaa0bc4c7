"""Applies what gpufleet installs in every cluster: the YAML files of `gpufleet.kube.manifests`.

A local cluster also gets what most clusters with GPUs have from elsewhere (`USUAL_OBJECTS`), so that the
usual manifests are accepted.

Server-side apply, so that the same again changes nothing. A server that does not know a kind (older
Kubernetes have no MutatingAdmissionPolicy) goes without it, and the caller is told.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import gpufleet.kube
from gpufleet.files.regular import read_regular
from gpufleet.kube import keys
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.processes.process_errors import ClusterError
from gpufleet.model.model_errors import InternalError

FOLDER = Path(gpufleet.kube.__file__).parent / "manifests"
USUAL_OBJECTS = Path(__file__).with_name("usual_objects")
"""RuntimeClass, StorageClass, and the kinds of prometheus-operator."""

DEFAULT_NAMESPACE = "/api/v1/namespaces/default"
BETWEEN_DOCUMENTS = re.compile(r"^---\s*$", flags=re.MULTILINE)
# Bounds what is read; definitions of the largest projects have a few MiB.
FILE_BYTES_MAX = 16 << 20
DEFINITION = "CustomResourceDefinition"
FIRST_KINDS = (DEFINITION, "Namespace", "ServiceAccount", "ClusterRole", "Role")
"""Kinds that others refer to, in the order of their making; all others follow as they stand."""

# A definition is served within two seconds, or later on a busy machine.
SERVED_WAIT_S = 20.0
# Short: tests and `up` wait for it.
POLL_EVERY_S = 0.05


def install(api: Api, folder: Path = FOLDER) -> list[str]:
    """Apply every document and return what this server does not know, as "Kind name"."""
    unknown: list[str] = []
    for one in sorted(documents(folder), key=_rank):
        path = _path(api, one)
        if path is None:
            unknown.append(f"{one['kind']} {one['metadata']['name']}")
            continue
        api.apply(path, one)
        if one["kind"] == DEFINITION:
            _await_served(api, one)
    return unknown


def manage_default_namespace(api: Api) -> None:
    """Have pods of the namespace ``default`` completed: YAML written for other schedulers runs as it is."""
    labels = {keys.MANAGED: "true"}
    metadata = {"name": "default", "labels": labels}
    api.apply(DEFAULT_NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def documents(folder: Path) -> Iterator[Object]:
    """Every object of every file, by file name."""
    for file in sorted(folder.glob("*.yaml")):
        for text in BETWEEN_DOCUMENTS.split(read_regular(file, FILE_BYTES_MAX).decode()):
            decoded = msgspec.yaml.decode(text) if text.strip() else None
            if decoded is None:
                continue
            if not isinstance(decoded, dict) or not {"apiVersion", "kind", "metadata"} <= decoded.keys():
                raise InternalError(f"{file}: a document that is no Kubernetes object")
            yield decoded


def _rank(one: Object) -> int:
    kind = one["kind"]
    return FIRST_KINDS.index(kind) if kind in FIRST_KINDS else len(FIRST_KINDS)


def _path(api: Api, one: Object) -> str | None:
    """The address of an object, None if the server does not know its kind."""
    version: str = one["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    status, body = api.request("GET", group)
    if status == 404:
        return None
    if status != 200:
        raise ClusterError(f"the API server answered {status} when asked what {version} has")
    for resource in msgspec.json.decode(body)["resources"]:
        if resource["kind"] == one["kind"] and "/" not in resource["name"]:
            metadata = one["metadata"]
            namespace = (
                f"/namespaces/{metadata.get('namespace', 'default')}" if resource["namespaced"] else ""
            )
            return f"{group}{namespace}/{resource['name']}/{metadata['name']}"
    return None


def _await_served(api: Api, definition: Object) -> None:
    """Return when objects of a new kind can be created."""
    spec = definition["spec"]
    served = next(version["name"] for version in spec["versions"] if version["served"])
    path = f"/apis/{spec['group']}/{served}/{spec['names']['plural']}?limit=1"
    limit_s = time.monotonic() + SERVED_WAIT_S
    while api.request("GET", path)[0] != 200:
        if time.monotonic() > limit_s:
            raise ClusterError(
                f"the API server does not serve {spec['names']['kind']} after {SERVED_WAIT_S:.0f} s"
            )
        time.sleep(POLL_EVERY_S)
