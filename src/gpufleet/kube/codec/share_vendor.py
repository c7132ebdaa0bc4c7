"""Whose GPUs a share must be a part of, where the pod tells it.

A slot for a share names no vendor, and nodes of every vendor offer slots. HAMi's resources are NVIDIA's by
their names, and a container of CUDA runs on no other vendor's GPU. A share that tells neither may be a part
of any GPU.
"""

from gpufleet.kube import keys
from gpufleet.kube.codec.containers import places
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.resource_names import NVIDIA_GPU

_NVIDIAS = (keys.HAMI_MEMORY, keys.HAMI_MEMORY_PERCENT, keys.HAMI_CORES)


def vendor_resource(pod: Pod, cuda_features: tuple[str, ...]) -> str:
    """The name under which the vendor's whole GPUs are counted; "" where any vendor's will do."""
    if cuda_features:
        return NVIDIA_GPU
    asked = (container.resources for _, container in places(pod.spec))
    named = any(key in one.limits or key in one.requests for one in asked for key in _NVIDIAS)
    return NVIDIA_GPU if named else ""
