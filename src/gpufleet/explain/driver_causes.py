"""The cause that a node's driver does not run the CUDA of the pod's images."""

from collections.abc import Iterator

from gpufleet.explain.answer import Finding
from gpufleet.explain.case import Case
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.cuda import feature, known_driver, toolkits
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.cuda_compatibility import DriverVersion, Toolkit, supports, write_driver
from gpufleet.model.cuda_images import toolkit_of_image
from gpufleet.model.phrases import listed


def old_driver(case: Case, lacking: set[str]) -> Finding:
    """Nodes that would do but for their driver; ``lacking`` are the features that they lack."""
    pod = case.entry.object
    refused = [one for one in toolkits(pod) if feature(one.major) in lacking]
    drivers = dict(_drivers(case))
    nodes = listed(f"{name} ({write_driver(driver)})" for name, driver in drivers.items())
    wanted = listed(f"CUDA {one} ({_told_by(pod, one)})" for one in refused)
    too_old = "the driver of {} is too old" if len(drivers) == 1 else "the drivers of {} are too old"
    why = f"it needs {wanted}, and {too_old.format(nodes)} for that"
    ways = [f"update the driver to {least} or newer" for least in _least(refused, drivers)]
    ways.append("use an image of an older CUDA")
    ways.append(f'annotate the pod with {keys.CUDA_VERSION}: "any" if the image runs there after all')
    return Finding("cuda-driver", why, tuple(ways))


def _drivers(case: Case) -> Iterator[tuple[str, DriverVersion]]:
    picture = case.facts.picture
    for node in case.near:
        written = picture.find(resources.NODES, node.name)
        devices = picture.find(resources.NODE_DEVICES, node.name)
        driver = None if written is None else known_driver(written, devices)
        if driver is not None:
            yield node.name, driver


def _least(refused: list[Toolkit], drivers: dict[str, DriverVersion]) -> list[str]:
    """The driver that would run all of them: the newest of those that each needs at least."""
    oldest = min(drivers.values(), default=None)
    if oldest is None:
        return []
    verdicts = (supports(oldest, one, forward_compatible=False) for one in refused)
    return sorted({verdict.least_driver for verdict in verdicts if verdict.least_driver})[-1:]


def _told_by(pod: Pod, toolkit: Toolkit) -> str:
    """What says that the pod needs a toolkit: its annotation, an image, or an image's variable."""
    if keys.CUDA_VERSION in pod.metadata.annotations:
        return f"annotation {keys.CUDA_VERSION}"
    images = [one.image for one in pod.spec.containers if toolkit_of_image(one.image) == toolkit]
    return f"image {images[0]}" if images else keys.REQUIRE_CUDA
