"""What every object carries: its names, versions, labels and owners."""

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.objects.structure import Structure


class OwnerReference(Structure, frozen=True):
    """An object that made this one; ``controller`` marks the one that manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group without its version; "" is the core group."""
        group, slash, _ = self.api_version.rpartition("/")
        return group if slash else ""


class Metadata(Structure, frozen=True):
    """An object's metadata. Times are RFC 3339 as the server writes them.

    ``resource_version`` is compared for equality only; its meaning is the server's.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def path(self) -> str:
        """The name, with its namespace in front where it has one: "team-a/train-0"."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object; None if it stands alone."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class PodMetadata(Metadata, frozen=True):
    """A pod's metadata, with only those annotations that our code reads.

    Annotations may be 256 KiB on every pod, and most of them are no business of a scheduler.
    """

    deletion_grace_period_seconds: int | None = None

    def __post_init__(self) -> None:
        if self.annotations:
            kept = {key: text for key, text in self.annotations.items() if key in keys.POD_ANNOTATIONS}
            msgspec.structs.force_setattr(self, "annotations", kept)


class PartialObject(Structure, frozen=True):
    """Any object of which the metadata alone is wanted."""

    metadata: Metadata
