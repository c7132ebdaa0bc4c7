"""Answers to Allocate of which nobody knows yet which container took them up.

The kubelet names units and no pod, so after an answer any container that may have been asking may have
them: until the kubelet lists the units with a container, or none of those that may have asked is left.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.agent.known import Holders, NodePods
from gpufleet.agent.kubelet.holder_record import Answer, Place


def open_answers(
    answers: Iterable[Answer], holders: Holders, pods: NodePods, *, complete: bool = True
) -> Iterator[Answer]:
    """The answers that are still open, each with the containers that may have the units now.

    ``complete`` says that ``pods`` are all pods of the node.
    """
    listed = [one for one in holders if one.listed and one.units]
    for answer in answers:
        same = [one for one in listed if one.resource == answer.resource]
        units = frozenset(answer.units)
        if any(units <= frozenset(one.units) for one in same):
            continue
        served = {(one.pod_uid, one.container) for one in same}
        possible = tuple(
            place
            for place in answer.possible
            if (place.pod_uid, place.container) not in served and _may_live(place, pods, complete=complete)
        )
        if possible:
            yield msgspec.structs.replace(answer, possible=possible)


def _may_live(place: Place, pods: NodePods, *, complete: bool) -> bool:
    pod = pods.get(place.pod_uid)
    return not complete if pod is None else not pod.finished
