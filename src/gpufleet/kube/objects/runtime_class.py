"""A RuntimeClass: by which handler containers are run, on which nodes, and what that costs beside them."""

from typing import Any

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure


class Scheduling(Structure, frozen=True):
    """The nodes that have the handler."""

    node_selector: dict[str, str] | None = None


class RuntimeClassObject(Structure, frozen=True):
    """A class. ``overhead`` is None where it costs nothing beside the containers."""

    metadata: Metadata
    scheduling: Scheduling | None = None
    overhead: dict[str, Any] | None = None
