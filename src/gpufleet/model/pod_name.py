"""A pod as the API names it."""

from typing import NamedTuple

from gpufleet.model.identifiers import PodUid


class PodName(NamedTuple):
    """A pod as the API names it."""

    namespace: str
    name: str
    uid: PodUid

    def __str__(self) -> str:
        """The name as people write it."""
        return f"{self.namespace}/{self.name}"
