"""Where running work would go if nodes were emptied one after the other: each answer counts on those before.

``drain`` asks this for a plan. Nothing is moved: all of it stands on a trial that is taken back at the end.
"""

from collections.abc import Collection, Iterable, Iterator
from types import TracebackType
from typing import Self

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.defragment.left_claims import leave_claims
from gpufleet.engine.defragment.moves import by_size, least_broken_up, placed_on
from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.model.identifiers import NodeName, PodUid


class Relocating:
    """A fleet from which work leaves, and in which it is placed again; to be used in a ``with`` block."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self._trial: Trial = state.trial()
        self._gone: set[int] = set()

    def __enter__(self) -> Self:
        self._trial.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._trial.__exit__(kind, error, traceback)

    def leave(self, uids: Iterable[PodUid]) -> None:
        """Let pods end: their room is free. Pods that are gone already change nothing."""
        rows = [row for row in self._rows(uids) if row not in self._gone]
        self._gone.update(rows)
        # Before their rows are free: who uses a claim is told by the pods that have a place.
        leave_claims(self.state, self._trial, self._gone)
        self._trial.release_all(rows)

    def has_room(self, uids: Iterable[PodUid], closed: Collection[NodeName]) -> bool:
        """True if ``place`` would find places for these pods; nothing changes."""
        rows, none = list(self._rows(uids)), self._node_rows(())
        scopes = self._scopes(rows, self._open(closed), none)
        return any(self._placed_within(rows, scope, none, keeps=False) for scope in scopes)

    def place(
        self, uids: Iterable[PodUid], closed: Collection[NodeName], avoided: Collection[NodeName]
    ) -> dict[PodUid, NodeName] | None:
        """Take these pods off their nodes and place all of them on nodes that are not ``closed``.

        Nodes that are ``avoided`` get those that fit nowhere else. A pod stays where it is if it may. None,
        and nothing changes, where one of them fits nowhere.
        """
        rows = list(self._rows(uids))
        last = self._node_rows(avoided)
        scopes = self._scopes(rows, self._open(closed), last)
        if not any(self._placed_within(rows, scope, last, keeps=True) for scope in scopes):
            return None
        self._gone.difference_update(rows)
        return {self.state.pods.pod_at(row).uid: self._node_of(row) for row in rows}

    def _scopes(self, rows: list[int], nodes: Int64Array, last: Int64Array) -> Iterable[Int64Array]:
        """The sets of nodes within which all of a gang has to be, those without nodes to be avoided first."""
        gang = self.state.workloads.gang_of(rows[0]) if rows else None
        if gang is None or gang.required_level is None:
            return (nodes,)
        domains = self.state.domains.inside(gang.required_level, nodes)
        return sorted(domains, key=lambda domain: int(np.isin(domain, last).sum()))

    def _open(self, closed: Collection[NodeName]) -> Int64Array:
        """The nodes that are there and not closed."""
        nodes = np.flatnonzero(self.state.store.tables.nodes[layout.NODE_PRESENT] == 1)
        return nodes[~np.isin(nodes, self._node_rows(closed))]

    def _placed_within(self, rows: list[int], scope: Int64Array, last: Int64Array, *, keeps: bool) -> bool:
        state = self.state
        with state.trial() as attempt:
            own = {row: state.pods.node_row(row) for row in rows}
            leave_claims(state, attempt, {*rows, *self._gone})
            attempt.release_all(rows)
            better = scope[~np.isin(scope, last)]
            # Those that may stay where they are come first, or others would take their room.
            for row in sorted(by_size(state, rows), key=lambda row: own[row] not in better):
                groups = self._in_order(row, own[row], scope, last)
                if not any(placed_on(state, attempt, row, group) for group in groups):
                    return False
            if keeps:
                attempt.keep_within(self._trial)
        return True

    def _in_order(
        self, row: int, own: int | None, scope: Int64Array, last: Int64Array
    ) -> Iterator[Int64Array]:
        """The nodes where a pod may be, the best first: its own, then others, then those to be avoided."""
        nodes = self.state.related.feasible(row)
        nodes = nodes[np.isin(nodes, scope)]
        is_last = np.isin(nodes, last)
        better, worse = nodes[~is_last], nodes[is_last]
        if own is not None and own in better:
            yield np.array([own], np.int64)
        yield from least_broken_up(self.state, row, better)
        yield from least_broken_up(self.state, row, worse)

    def _rows(self, uids: Iterable[PodUid]) -> list[int]:
        known = self.state.pods.row_by_uid
        return [known[uid] for uid in uids if uid in known]

    def _node_rows(self, names: Collection[NodeName]) -> Int64Array:
        known = self.state.fleet.row_by_name
        return np.array(sorted(known[name] for name in names if name in known), np.int64)

    def _node_of(self, row: int) -> NodeName:
        node = self.state.pods.node_row(row)
        if node is None:
            raise BrokenInvariantError("a pod that was placed has no node")
        return self.state.fleet.node_at(node).name
