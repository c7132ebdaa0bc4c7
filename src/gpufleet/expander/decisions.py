"""What an answer decides about waiting pods: nodes are coming for them, or none are asked for.

Both stand in conditions of the pods (``kube.codec.chosen_nodes``). So the scheduler keeps nodes that join for
the work for which they were bought, and shows the autoscaler no work that nodes do not start now.
"""

import datetime as dt
from collections.abc import Sequence

from gpufleet.cluster.nodes.kept_nodes import group_of
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.expander.choice import Choice
from gpufleet.expander.coming_nodes import JOINS_WITHIN
from gpufleet.expander.judgement import Judgement
from gpufleet.expander.protocol.question import Option
from gpufleet.kube.codec.chosen_nodes import NodesComing, Postponed, read_chosen_nodes
from gpufleet.kube.objects.pod import Pod

POSTPONED_FOR = dt.timedelta(minutes=5)
"""As long as the autoscaler leaves a group alone in which a node failed."""

POSTPONED_BRIEFLY_FOR = dt.timedelta(seconds=30)
"""The autoscaler looks every 10 s, and the reason of the pods has to reach it first."""

Decision = NodesComing | Postponed


def decisions(
    choice: Choice, options: Sequence[Option], judgement: Judgement, at: dt.datetime
) -> tuple[tuple[Pod, Decision], ...]:
    """What is new of each waiting pod that the choice concerns."""
    # What an eviction makes wait anew is not there yet.
    waiting = judgement.waiting
    pause = POSTPONED_BRIEFLY_FOR if choice.is_brief else POSTPONED_FOR
    later = Postponed(engine_time_us(at + pause))
    postponed = tuple((waiting[uid], later) for uid in sorted(choice.postponed & waiting.keys()))
    if not choice.pods:
        return postponed
    (chosen,) = choice.options
    at_us, until_us = engine_time_us(at), engine_time_us(at + JOINS_WITHIN)
    coming = NodesComing(group_of(options[chosen].node), at_us, until_us)
    bought = [
        (waiting[uid], _prolonged(waiting[uid], coming)) for uid in sorted(choice.pods & waiting.keys())
    ]
    gangs = {judgement.gangs[uid] for uid in choice.pods if uid in judgement.gangs}
    # Members whose nodes have joined wait with those whose nodes failed, and their nodes are kept as long.
    others = (
        waiting[uid]
        for uid in sorted(waiting.keys() - choice.pods)
        if judgement.gangs.get(uid) in gangs and uid in judgement.gangs
    )
    said = ((pod, read_chosen_nodes(pod)) for pod in others)
    kept = [(pod, one._replace(until_us=until_us)) for pod, one in said if isinstance(one, NodesComing)]
    return (*postponed, *bought, *kept)


def _prolonged(pod: Pod, coming: NodesComing) -> NodesComing:
    """From the first choice on, where that still counts: of its nodes some failed, and others have joined."""
    said = read_chosen_nodes(pod)
    if isinstance(said, NodesComing) and said.group == coming.group and said.until_us > coming.since_us:
        return coming._replace(since_us=said.since_us)
    return coming
