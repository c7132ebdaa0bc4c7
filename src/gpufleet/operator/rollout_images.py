"""What of the images of a rollout is on a node: by its labels, and by the pods that bring them.

A part is the driver or the toolkit. A rollout minds the parts that its policy names, and those that it has
changed itself and may have to turn back; of the others it says nothing. ``rollout_observing`` and
``rollout_actions`` ask it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from gpufleet.model.node_images import DRIVER, IMAGE_PARTS, TOOLKIT, NodeImages, images_of
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.node_objects import DRIVER_LABEL, TOOLKIT_LABEL
from gpufleet.operator.rollout.stamp import Stamp
from gpufleet.operator.rollout_objects import HeldPod, image_key

LABEL_OF_PART = {DRIVER: DRIVER_LABEL, TOOLKIT: TOOLKIT_LABEL}


class SeenPart(msgspec.Struct, frozen=True):
    """The pods of one part on one node: of the image that its label names, and of others."""

    wanted: tuple[HeldPod, ...] = ()
    leaving: tuple[HeldPod, ...] = ()

    @property
    def runs(self) -> bool | None:
        """Whether it works; None where nothing is known of it."""
        # Two drivers cannot be in one kernel, nor two toolkits in one configuration: the new one works only
        # when the old one has left.
        if self.wanted:
            return self.wanted[0].is_ready and not self.leaving
        return None

    def words(self, part: str) -> str:
        """What is said of a part that does not run, or ""."""
        if self.leaving:
            return f"the {part} of before has not left: pod {self.leaving[0].metadata.name}"
        if not self.wanted:
            return "its pod does not run on the node"
        pod = self.wanted[0]
        return "" if pod.is_ready else pod.words() or f"pod {pod.metadata.name} is not ready"


def part_of(facts: NodeFacts, pods: Sequence[HeldPod], namespace: str, part: str) -> SeenPart:
    """The pods of a part that run on a node."""
    label = LABEL_OF_PART[part]
    key = facts.labels.get(label, "")
    found = [
        one
        for one in pods
        if one.metadata.namespace == namespace and label in one.metadata.labels and not one.has_ended
    ]
    wanted = tuple(one for one in found if one.metadata.labels[label] == key and not one.is_ending)
    return SeenPart(wanted, tuple(one for one in found if one not in wanted))


def minded_parts(stamp: Stamp | None, wanted: NodeImages) -> tuple[str, ...]:
    """The parts that a rollout to these images minds on a node; without images those of its stamp."""
    parts = set(wanted.parts)
    if stamp is not None and (stamp.is_under_way or not parts):
        for text in (stamp.target, stamp.previous, stamp.failed_target):
            parts.update(images_of(text).parts)
    return tuple(part for part in IMAGE_PARTS if part in parts)


def images_there(facts: NodeFacts, parts: Sequence[str], wanted: NodeImages) -> NodeImages:
    """The images of these parts that a node's labels stand for, "" where one has none or an unknown one."""
    return NodeImages(**{part: _image(facts, part, wanted) for part in parts})


def _image(facts: NodeFacts, part: str, wanted: NodeImages) -> str:
    key = facts.labels.get(LABEL_OF_PART[part], "")
    # A label has room for a part of the digest alone, so the image is looked for among those that may be
    # there.
    known = (one.of(part) for one in _known(facts, wanted))
    return next((one for one in known if one and image_key(one) == key), "")


def _known(facts: NodeFacts, wanted: NodeImages) -> Iterator[NodeImages]:
    stamp = facts.stamp
    if stamp is not None:
        yield from map(images_of, (stamp.target, stamp.previous, stamp.failed_target))
    yield NodeImages(facts.driver_image, facts.toolkit_image)
    yield wanted
