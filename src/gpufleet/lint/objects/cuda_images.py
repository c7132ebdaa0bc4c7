"""Images of a pod's GPU containers that run CUDA, and what the manifest tells of each.

``lint.images_on_nodes`` judges them on the nodes of a cluster.
"""

from collections.abc import Iterator

from gpufleet.cuda.image import ImageFacts
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.pods import PodTemplate

OTHER_MAKERS = ("amd.com/", "gpu.intel.com/")


def cuda_containers(template: PodTemplate) -> Iterator[Container]:
    """Containers that are given GPUs which run CUDA, as far as their resources tell."""
    if template.is_gpu_infrastructure:
        return
    for one in template.all_containers:
        others = bool(one.gpu_names) and all(name.startswith(OTHER_MAKERS) for name in one.gpu_names)
        if one.has_gpu and not others and one.image is not None:
            yield one


def image_facts(container: Container) -> ImageFacts:
    """What the manifest tells of a container's image: its name, and the variables that are set for it."""
    name = container.image.text if container.image is not None else ""
    return ImageFacts(name).run_with({one.name: one.value for one in container.env if one.value is not None})
