"""Answers to Allocate of which it is unknown yet which container took them up.

The kubelet names units and no pod, so after an answer any container that may have been asking may have
them: until the kubelet lists the units with a container, or none of those that may have asked is left.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from gpufleet.agent.holders.holder_record import AllocateAnswer
from gpufleet.agent.state.node_state import Holders


def open_answers(
    answers: Iterable[AllocateAnswer], holders: Holders, is_gone: Callable[[str], bool]
) -> Iterator[AllocateAnswer]:
    """The answers that are still open, each with the containers that may have the units now.

    ``is_gone`` says of a pod's UID that none of its containers runs or will.
    """
    listed = [one for one in holders if one.listed and one.units]
    for answer in answers:
        same = [one for one in listed if one.resource == answer.resource]
        units = frozenset(answer.units)
        # The kubelet lists a container with all of these units: the answer has found its holder.
        if any(units <= frozenset(one.units) for one in same):
            continue
        served = {(one.pod_uid, one.container) for one in same}
        possible = tuple(
            place
            for place in answer.possible
            if (place.pod_uid, place.container) not in served and not is_gone(place.pod_uid)
        )
        if possible:
            yield msgspec.structs.replace(answer, possible=possible)
