"""A namespace: its labels are selected by affinity terms, and one of them names its queue."""

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure


class Namespace(Structure, frozen=True):
    """A namespace."""

    metadata: Metadata
