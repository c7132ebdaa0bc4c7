"""The images that a pod's containers and volumes are made of, as far as they count for how soon it is ready.

Those of containers that ask for devices, and those that are mounted as volumes: these have gigabytes. What a
pod's other containers run is small, and is not kept of a pod (``kube.objects.pod``).
"""

from gpufleet.kube.meanings.image_names import whole_image_name
from gpufleet.kube.objects.node_data import IMAGE
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.data import DataAsk

IMAGES_MAX = 16
"""Images of a pod that are compared with those of all nodes."""


def images_of_pod(pod: Pod) -> tuple[DataAsk, ...]:
    """The pod's large images, each once."""
    spec = pod.spec
    written = [
        *(one.image for one in (*spec.init_containers, *spec.containers) if one.asks_for_devices),
        *(one.image.reference for one in spec.volumes if one.image is not None),
    ]
    found = dict.fromkeys(whole_image_name(one) for one in written)
    return tuple(DataAsk(f"{IMAGE}/{one[0]}", one[1]) for one in found if one is not None)[:IMAGES_MAX]
