"""Labels given to Node Feature Discovery, which carries them to the Node.

One NodeFeature for this node, as NVIDIA's labeller writes one of its own. It belongs to the Node, so it
goes with it. Where both labellers run, Node Feature Discovery decides between the two objects; that is a
state to pass through on the way from one to the other and not to stay in.
"""

import msgspec

from gpufleet.agent.labels.values import Labels
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.resources import NODE_FEATURES, NODES
from gpufleet.kube.status import NotFound

MANAGER = "gpufleet-agent"
# By this label NFD knows the node that a NodeFeature is about.
NODE_NAME_LABEL = "nfd.node.kubernetes.io/node-name"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"


class FeatureOwner(msgspec.Struct, frozen=True, rename="camel"):
    """The Node with which the object goes."""

    name: str
    uid: str
    api_version: str = NODES.api_version
    kind: str = NODES.name


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Name, labels and owner of the object."""

    name: str
    namespace: str
    labels: dict[str, str]
    owner_references: tuple[FeatureOwner, ...]


class Features(msgspec.Struct, frozen=True):
    """Raw features, of which none are given: rules can match labels."""

    flags: dict[str, str] = {}
    attributes: dict[str, str] = {}
    instances: dict[str, str] = {}


class Spec(msgspec.Struct, frozen=True):
    """What the node shall be labelled with; a server makes null of an empty map, and refuses that."""

    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    features: Features = Features()


class NodeFeature(msgspec.Struct, frozen=True, rename="camel"):
    """The object as it is applied."""

    metadata: Metadata
    spec: Spec
    api_version: str = NODE_FEATURES.api_version
    kind: str = NODE_FEATURES.name


class WrittenSpec(msgspec.Struct, frozen=True):
    """The labels of an object that is there."""

    labels: dict[str, str] | None = None


class WrittenNodeFeature(msgspec.Struct, frozen=True):
    """An object that is there."""

    spec: WrittenSpec = WrittenSpec()


_DECODER = msgspec.json.Decoder(WrittenNodeFeature)


class InNodeFeature:
    """The labels of this agent in its NodeFeature."""

    def __init__(self, client: Client, node: str, node_uid: str, namespace: str) -> None:
        self.client = client
        self.node = node
        self.node_uid = node_uid
        self.namespace = namespace
        self.name = f"gpufleet-features-for-{node}"

    async def read(self) -> Labels:
        """What is written now. Raises KubeError."""
        try:
            body = await self.client.get(NODE_FEATURES, self.name, namespace=self.namespace)
        except NotFound:
            return {}
        return decode(body, _DECODER).spec.labels or {}

    async def write(self, labels: Labels) -> None:
        """Have exactly these labels there. Raises KubeError."""
        names = {NODE_NAME_LABEL: self.node, MANAGED_BY_LABEL: "gpufleet"}
        owner = FeatureOwner(self.node, self.node_uid)
        body = NodeFeature(
            Metadata(self.name, self.namespace, names, (owner,)), Spec(labels or msgspec.UNSET)
        )
        await self.client.patch(
            NODE_FEATURES,
            self.name,
            body,
            namespace=self.namespace,
            patch_type=PatchType.APPLY,
            field_manager=MANAGER,
            force=True,
        )
