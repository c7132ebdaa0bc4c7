"""Lines by labels: those of the pod that a line is about, or of the node where it is about no pod. Pure."""

from collections.abc import Iterable
from typing import Any

from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.labels import LabelSelector
from gpufleet.overview.rows.known import Known
from gpufleet.overview.rows.lines import IdleLine, NodeLine, PodLine

WITHOUT_LABELS = frozenset({"queue", "gang"})
"""Views of which one line is about many objects."""

ALL_SHOWN = "--selector chooses nodes, pods and idle GPUs; queues and gangs are all shown"


def labelled(lines: Iterable[Any], known: Known, selector: LabelSelector) -> list[Any]:
    """The lines whose object has the labels; one whose object is not known is left out."""
    found = ((line, _object_of(line, known)) for line in lines)
    return [line for line, one in found if one is not None and selector.accepts(one.metadata.labels)]


def _object_of(line: NodeLine | PodLine | IdleLine, known: Known) -> Node | Pod | None:
    if isinstance(line, NodeLine):
        return known.nodes.get(("", line.name))
    if line.namespace:
        return known.pods.get((line.namespace, line.name))
    return known.nodes.get(("", line.node))
