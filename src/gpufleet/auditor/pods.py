"""What is read of a pod, each field as Kubernetes documents it."""

from collections.abc import Iterator

from gpufleet.auditor.reading import mapping, rows, section
from gpufleet.auditor.record import Document

GRANT = "gpufleet.io/grant"
MOVED = "gpufleet.io/moved"
GPU_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"})
SHARE_RESOURCE = "gpufleet.io/gpu-share"
MIG_PREFIX = "nvidia.com/mig-"
SHARED_SUFFIX = ".shared"
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def uid(value: Document) -> str:
    """The UID; the name of an object that has none."""
    return str(value["metadata"].get("uid") or name(value))


def name(value: Document) -> str:
    """namespace/name, or the name of what is in no namespace."""
    metadata = value["metadata"]
    space = metadata.get("namespace")
    return f"{space}/{metadata['name']}" if space else str(metadata["name"])


def namespace(value: Document) -> str:
    """The namespace, "" for none."""
    return str(value["metadata"].get("namespace") or "")


def note(value: Document, key: str) -> str | None:
    """The value of an annotation; None where the object has none."""
    return mapping(value, "metadata", "annotations").get(key)


def labels(value: Document) -> dict[str, str]:
    """The labels of an object."""
    return mapping(value, "metadata", "labels")


def node(pod: Document) -> str:
    """The node, "" for none."""
    return str(section(pod, "spec").get("nodeName") or "")


def phase(pod: Document) -> str:
    """Pending, Running, Succeeded, Failed or Unknown."""
    return str(section(pod, "status").get("phase") or "")


def is_over(pod: Document) -> bool:
    """Whether it has ended and holds nothing."""
    return phase(pod) in {"Succeeded", "Failed"}


def is_leaving(pod: Document) -> bool:
    """Whether it was told to end."""
    return "deletionTimestamp" in pod["metadata"]


def holds(pod: Document | None) -> bool:
    """Whether it is on a node and has not ended."""
    return pod is not None and bool(node(pod)) and not is_over(pod)


def containers(pod: Document) -> Iterator[Document]:
    """All containers, the ephemeral ones too."""
    for field in CONTAINERS:
        yield from rows(pod, "spec", field)


def requested(container: Document) -> dict[str, str]:
    """What a container asks for; a limit without a request is one."""
    return {**mapping(container, "resources", "limits"), **mapping(container, "resources", "requests")}


def is_gpu_resource(resource: str) -> bool:
    """Whether a resource is a GPU or a part of one."""
    plain = resource.removesuffix(SHARED_SUFFIX)
    return plain in GPU_RESOURCES or plain == SHARE_RESOURCE or plain.startswith(MIG_PREFIX)


def asks_for_gpus(pod: Document) -> bool:
    """Whether any container asks for some of a GPU."""
    return any(
        is_gpu_resource(resource) and amount != "0"
        for container in containers(pod)
        for resource, amount in requested(container).items()
    )


def condition(pod: Document, kind: str) -> Document | None:
    """A condition that is true."""
    found = rows(pod, "status", "conditions")
    return next((one for one in found if one.get("type") == kind and one.get("status") == "True"), None)
