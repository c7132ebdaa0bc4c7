"""The RuntimeClass that pods are given, as the cluster has it now: one that is not there is given to no pod.

The API server's own policies have the class as their parameter; this is the same for the webhook.
"""

import msgspec

from gpufleet.completion.additions import RuntimeClass
from gpufleet.kube.client import Client
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.objects.runtime_class import RuntimeClassObject
from gpufleet.kube.resources import RUNTIME_CLASSES


class RuntimeClassWatch:
    """Follows the class of a name; with an empty name it follows nothing."""

    def __init__(self, client: Client, name: str) -> None:
        self._name = name
        decoder = msgspec.json.Decoder(RuntimeClassObject)
        selection = Selection(fields=f"metadata.name={name}")
        self._mirror: Mirror[RuntimeClassObject] = Mirror(
            client, RUNTIME_CLASSES, decoder, _ignored, selection=selection
        )

    async def run(self) -> None:
        """Follow until cancelled."""
        if self._name:
            await self._mirror.run()

    def is_known(self) -> bool:
        """Whether the cluster has told whether there is such a class."""
        return not self._name or self._mirror.health().listed

    def found(self) -> RuntimeClass | None:
        """The class, if the cluster has it."""
        one = self._mirror.get("", self._name) if self._name else None
        return None if one is None else runtime_class_of(one)


def runtime_class_of(one: RuntimeClassObject) -> RuntimeClass:
    """What completion needs to know of a class."""
    selector = one.scheduling.node_selector if one.scheduling is not None else None
    return RuntimeClass(one.metadata.name, one.overhead is not None, selector or {})


def _ignored(_: object) -> None:
    """The mirror's own copy is all that is needed."""
