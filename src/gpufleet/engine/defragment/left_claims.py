"""Resource claims of pods that are made anew elsewhere: what they have is free once these pods are gone.

The claim of a template belongs to its pod, and the pod that its controller makes has another one that asks
for the same. A claim that pods share is given up with the last of them, as Kubernetes does.
"""

from collections import defaultdict
from collections.abc import Collection

from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.trial import Trial


def claims_of(state: EngineState, row: int) -> tuple[str, ...]:
    """The claims of a pod."""
    return state.pods.pod_at(row).shape.relations.device_claims


def leave_claims(state: EngineState, trial: Trial, rows: Collection[int]) -> None:
    """See the fleet without what these pods have by claims, as long as the trial lasts."""
    claims = state.neighbours.device_claims
    left = claims.left | left_with(state, rows)
    if left != claims.left:
        trial.put(state.neighbours, "left_claims", left)


def left_with(state: EngineState, rows: Collection[int]) -> frozenset[str]:
    """The claims that no pod uses any more once these are gone."""
    asked = {path for row in rows for path in claims_of(state, row)}
    if not asked:
        return frozenset()
    users: defaultdict[str, set[int]] = defaultdict(set)
    # Few fleets share claims, and moves are few: no index of users is kept for them.
    for row in state.pods.row_by_uid.values():
        if state.pods.node_row(row) is not None:
            for path in claims_of(state, row):
                users[path].add(row)
    return frozenset(path for path in asked if users[path] <= set(rows))
