"""By which names pods say that they belong to one group, a gang, in the words of several projects.

What the group asks for is said elsewhere: by an object of that name (``kube.codec.pod_groups``), or on the
pods themselves (``LEAST_MEMBERS``).
"""

from collections.abc import Iterator, Mapping

import msgspec

from gpufleet.kube import keys

LABELS, ANNOTATIONS = "labels", "annotations"


class GroupName(msgspec.Struct, frozen=True):
    """One way of naming a group: under which keys, and in which part of the metadata they are looked for.

    ``api_group`` is that of the PodGroup that is named; "" where no object stands for the group.
    """

    keys: tuple[str, ...]
    parts: tuple[str, ...]
    api_group: str = ""

    @property
    def field(self) -> str:
        """Where the name is written, as people are told."""
        return f"metadata.{self.parts[0]}[{self.keys[0]}]" if self.parts else self.keys[0]

    def said(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str | None:
        """The name; None where these do not name a group in this way."""
        for key in self.keys:
            for part in self.parts:
                name = (labels if part == LABELS else annotations).get(key)
                if name is not None:
                    return name
        return None


# Kubernetes 1.36 and later has a field of the spec instead of a key.
NATIVE = GroupName(("spec.schedulingGroup.podGroupName",), (), "scheduling.k8s.io")
PLUGINS = GroupName((keys.PLUGINS_POD_GROUP, keys.PLUGINS_POD_GROUP_OLD), (LABELS,), "scheduling.x-k8s.io")
VOLCANO = GroupName((keys.VOLCANO_GROUP,), (ANNOTATIONS,), "scheduling.volcano.sh")
KAI = GroupName((keys.KAI_GROUP,), (ANNOTATIONS,), "scheduling.run.ai")
KUEUE = GroupName((keys.KUEUE_GROUP,), (ANNOTATIONS, LABELS))
OWN = GroupName((keys.GANG,), (ANNOTATIONS, LABELS))
GROUP_NAMES = (NATIVE, PLUGINS, VOLCANO, KAI, KUEUE, OWN)

LEAST_MEMBERS = {OWN: keys.GANG_MIN_MEMBERS, KUEUE: keys.KUEUE_GROUP_TOTAL}
"""Where no object stands for a group, each of its pods says how many start together."""

BARE_MINIMUMS = (keys.VOLCANO_GROUP_MINIMUM, keys.KAI_MINIMUM)
"""How many pods of one controller start together, where the pods name no group."""


def named_groups(
    labels: Mapping[str, str], annotations: Mapping[str, str], native: str | None
) -> Iterator[tuple[GroupName, str]]:
    """Every group that a pod names, in whichever way; ``native`` is the name in its spec."""
    if native is not None:
        yield NATIVE, native
    if labels or annotations:
        for way in GROUP_NAMES:
            name = way.said(labels, annotations)
            if name is not None:
                yield way, name


def said_of_gang(labels: Mapping[str, str], annotations: Mapping[str, str], key: str) -> str | None:
    """What a pod says of its gang under a key: the annotation, else the label."""
    return annotations.get(key, labels.get(key))
