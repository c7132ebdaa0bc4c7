"""Which CUDA a pod needs, and which CUDA a node's driver surely does not run.

Both are told to the engine as a feature of nodes for each major version of CUDA, because within one a driver
runs what it runs by its floor. A node lacks a feature only where its driver is known and the table of
``model.cuda_compatibility`` says a sure no; all other nodes, those without GPUs among them, have all of them.
At a pod, an unknown requirement likewise asks for nothing.
"""

import functools
from collections.abc import Iterator

from gpufleet.kube import keys
from gpufleet.kube.codec.containers import places
from gpufleet.kube.meanings.node_labels import NVIDIA_PRODUCT, labelled_driver
from gpufleet.kube.objects import node as wire
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Container, Pod
from gpufleet.model import gpu_model
from gpufleet.model.cuda_compatibility import (
    ALL_DRIVER_FEATURES,
    FAMILIES,
    DriverVersion,
    Toolkit,
    driver_feature,
    parse_driver,
    parse_toolkit,
    refused_majors,
)
from gpufleet.model.cuda_images import toolkit_of_image
from gpufleet.model.cuda_requirement import parse_requirement
from gpufleet.model.model_errors import InputError

ANY = "any"
"""The annotation's word for a pod that runs on any driver: the names of its images are not believed."""

VENDOR = "nvidia"
# Every resource of this domain is a GPU of NVIDIA's or a part of one.
VENDOR_DOMAIN = "nvidia.com/"
# Resources by which a container gets a part of a GPU.
SLOTS = frozenset((keys.GPU_SHARE, *keys.SHARE_RESOURCES))
# Cards that forward compatibility is not made for.
CONSUMER = ("geforce", "titan")


def needed_features(pod: Pod) -> tuple[str, ...]:
    """The features that the pod's toolkits need. Raises InputError for an annotation that cannot be."""
    return tuple(sorted({driver_feature(one.major) for one in toolkits(pod) if one.major in FAMILIES}))


def toolkits(pod: Pod) -> tuple[Toolkit, ...]:
    """The toolkits of the pod's containers with GPUs, as far as they are told, each once.

    The annotation decides for all containers; then NVIDIA_REQUIRE_CUDA, then the image's name.
    """
    told = pod.metadata.annotations.get(keys.CUDA_VERSION)
    if told == ANY:
        return ()
    if told is not None:
        toolkit = parse_toolkit(told)
        if toolkit is None:
            field = f"metadata.annotations[{keys.CUDA_VERSION}]"
            raise InputError(
                "not a version of CUDA", field=field, value=told, expected=f"12.4, say, or {ANY}"
            )
        return (toolkit,)
    found = (_of_container(container) for _, container in places(pod.spec) if _uses_gpus(container))
    return tuple(dict.fromkeys(one for one in found if one is not None))


def offered_features(node: wire.Node, devices: NodeDevices | None) -> tuple[str, ...]:
    """The features of a node: one for each major version of CUDA that its driver does not surely refuse."""
    driver = known_driver(node, devices)
    if driver is None:
        return ALL_DRIVER_FEATURES
    refused = refused_majors(driver, forward_compatible=not _is_consumer(_products(node, devices)))
    return _offered(refused)


def known_driver(node: wire.Node, devices: NodeDevices | None) -> DriverVersion | None:
    """The version of the node's NVIDIA driver: by its report of devices, else by its labels."""
    reported = None if devices is None else _reported_driver(devices)
    if reported is not None:
        return reported
    labels = node.metadata.labels
    return labelled_driver(labels) if labels else None


def _reported_driver(devices: NodeDevices) -> DriverVersion | None:
    """A report of one driver holds its version, one of several each version behind a vendor's name."""
    written = devices.spec.driver
    for part in written.split(", "):
        vendor, _, version = part.rpartition(" ")
        if vendor.casefold() == VENDOR:
            return parse_driver(version)
    vendors = {one.vendor.casefold() for one in devices.spec.devices}
    return parse_driver(written) if vendors == {VENDOR} else None


def _products(node: wire.Node, devices: NodeDevices | None) -> frozenset[str]:
    if devices is not None and devices.spec.devices:
        return frozenset(one.model for one in devices.spec.devices)
    product = node.metadata.labels.get(NVIDIA_PRODUCT)
    return frozenset() if product is None else frozenset((product,))


@functools.lru_cache(maxsize=1024)
def _is_consumer(products: frozenset[str]) -> bool:
    """True if all the products are cards for gamers."""
    return bool(products) and all(any(_names_consumer(text) for text in _names(one)) for one in products)


def _names(product: str) -> Iterator[str]:
    yield product
    known = gpu_model.find(product)
    if known is not None:
        yield from known.labels


def _names_consumer(text: str) -> bool:
    return any(word in text.casefold() for word in CONSUMER)


@functools.lru_cache(maxsize=64)
def _offered(refused: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(driver_feature(major) for major in sorted(FAMILIES) if major not in refused)


def _uses_gpus(container: Container) -> bool:
    amounts = container.resources
    asked = (*amounts.limits, *amounts.requests)
    return any(name.startswith(VENDOR_DOMAIN) or name in SLOTS for name in asked)


def _of_container(container: Container) -> Toolkit | None:
    variables = {one.name: one.value for one in container.env}
    if variables.get(keys.DISABLE_REQUIRE, "").casefold() in {"1", "t", "true"}:
        return None
    required = variables.get(keys.REQUIRE_CUDA)
    if required is not None:
        try:
            return parse_requirement(required, field=keys.REQUIRE_CUDA).toolkit()
        except InputError:
            # The node's container toolkit judges it; it tells us nothing.
            return None
    return toolkit_of_image(container.image)
