"""What a closed queue ends: running work of a stopped one, and places kept for work that may not start.

Work of a stopped queue ends without a beneficiary, so neither priority nor minimum run times protect it, and
what is not preemptible ends too. Disruption budgets do protect it: a pod that a budget keeps ends when the
budget allows it. What another scheduler placed without a GPU, such as the services of the cluster, never ends
for a queue.
"""

from collections.abc import Iterator

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import WhyBarred
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.engine_state import EngineState


def closed_nominations(state: EngineState) -> list[Nomination]:
    """Nominations of work whose queue lets nothing start any more."""
    if not state.gate.is_active:
        return []
    nominations = state.departures.nominations.values()
    return [one for one in nominations if any(state.gate.bar(row) is not None for row in one.rows)]


def running_in_stopped_queues(state: EngineState) -> Iterator[int]:
    """The rows of pods that are to be told to end now, because their queue or one above it is stopped."""
    stopped = state.queues.tree.rows_barred(WhyBarred.STOPPED) if state.gate.is_active else []
    if not stopped:
        return
    rows, pods = len(state.pods.pods), state.store.tables.pods
    here = np.isin(pods[layout.POD_QUEUE, :rows], stopped)
    here &= pods[layout.POD_STATE, :rows] == int(PodState.BOUND)
    for row in np.flatnonzero(here).tolist():
        pod = state.pods.pod_at(row)
        # Services of the cluster were never let in by a queue, so no queue stops them.
        if pod.is_service:
            continue
        if state.departures.is_departing(pod.uid) or pod.uid in state.departures.refused_until_us:
            continue
        # Asked anew for each row: those before it were told meanwhile and count in the budgets.
        if not state.budgets.forbids(pod):
            yield row
