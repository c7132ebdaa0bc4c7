"""Labels written on the agent's own Node, where Node Feature Discovery is not installed.

Server-side apply keeps the books: the API server remembers which labels this manager wrote
(``metadata.managedFields``), takes those away that it no longer gives, and leaves labels of other managers
alone. So nothing has to be remembered here, and a crash at any point leaves nothing behind. A label of ours
that another manager wrote before is taken over (``force``), which is how a node moves here from another
labeller.
"""

import msgspec

from gpufleet.agent.labels.values import Labels
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.objects.node import AGENT_LABELS_MANAGER
from gpufleet.kube.resources import NODES

# As the owner of its labels alone, so that they can be taken away without touching others.
MANAGER = AGENT_LABELS_MANAGER
# The way to labels in the fields that one writer owns (managedFields).
_LABELS = ("f:metadata", "f:labels")
_FIELD = "f:"


class ManagedFields(msgspec.Struct, frozen=True, rename="camel"):
    """What one manager owns of an object."""

    manager: str = ""
    operation: str = ""
    fields: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of a Node's metadata."""

    uid: str = ""
    labels: dict[str, str] = {}
    managed_fields: tuple[ManagedFields, ...] = ()


class LabelledNode(msgspec.Struct, frozen=True):
    """A Node, as far as its labels go."""

    metadata: Metadata

    def ours(self) -> Labels:
        """The labels that this manager owns, with the values that they have."""
        owned = [one.fields for one in self.metadata.managed_fields if one.manager == MANAGER]
        names = {name for fields in owned for name in _owned_labels(fields)}
        return {name: value for name, value in self.metadata.labels.items() if name in names}


class AppliedMetadata(msgspec.Struct, frozen=True):
    """The labels that shall be ours from now on."""

    name: str
    labels: dict[str, str]


class AppliedNode(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an apply."""

    metadata: AppliedMetadata
    api_version: str = NODES.api_version
    kind: str = NODES.name


_DECODER = msgspec.json.Decoder(LabelledNode)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OnNode:
    """The labels of this agent on its own Node."""

    def __init__(self, client: Client, node: str) -> None:
        self.client = client
        self.node = node

    async def read_node(self) -> LabelledNode:
        """The Node now. Raises KubeError."""
        return decode(await self.client.get(NODES, self.node), _DECODER)

    async def read(self) -> Labels:
        """What is written now. Raises KubeError."""
        return (await self.read_node()).ours()

    async def write(self, labels: Labels) -> None:
        """Have exactly these labels there. Raises KubeError."""
        body = AppliedNode(AppliedMetadata(self.node, labels))
        await self.client.patch(
            NODES, self.node, body, patch_type=PatchType.APPLY, field_manager=MANAGER, force=True
        )


def _owned_labels(fields: msgspec.Raw) -> list[str]:
    """The labels in a tree of fields, which has their names behind "f:"."""
    tree = decode(bytes(fields), _FIELDS)
    for name in _LABELS:
        below = tree.get(name)
        if below is None:
            return []
        tree = decode(bytes(below), _FIELDS)
    return [name.removeprefix(_FIELD) for name in tree if name.startswith(_FIELD)]
