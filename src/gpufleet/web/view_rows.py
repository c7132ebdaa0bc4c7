"""The rows of all views for one kind of rights, kept current; any number of streams read them.

Rows are made anew only of what has changed. ``streaming`` tells them.
"""

import asyncio
import heapq
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpufleet.overview.rows.known import FleetPart, Known
from gpufleet.web.documents import VIEWS, FleetRow, NodeRow
from gpufleet.web.fleet_state import Changed, FleetState
from gpufleet.web.rights import Rights
from gpufleet.web.rows.decisions import DECISIONS_MAX
from gpufleet.web.rows.fleet import fleet_row
from gpufleet.web.rows.nodes import node_row
from gpufleet.web.rows.queues import queue_rows
from gpufleet.web.rows.work import WorkWords, gang_rows, key_of, without_engine_words
from gpufleet.web.versioned_rows import VersionedRows

_ENCODER = msgspec.json.Encoder()


class ViewRows:
    """The views. ``version`` grows with each change of a row; ``name`` is another for each object, so that a
    browser of another one is told all.
    """

    def __init__(self, state: FleetState, rights: Rights) -> None:
        self.rights = rights
        self.name = secrets.token_hex(4)
        self.version = 1
        self.views = {view: VersionedRows() for view in VIEWS}
        self.unread = dict.fromkeys(VIEWS, "")
        self.unread_at = dict.fromkeys(VIEWS, 0)
        """The version at which a view's ``unread`` changed: a browser that was told less gets all of it."""
        self.watchers: set[asyncio.Event] = set()
        """Each stream's own, set when there is something to tell."""
        self._state = state
        self._nodes: dict[str, NodeRow] = {}
        self._gangs: set[str] = set()
        self.update(state.everything(), has_report=True)

    def update(self, changed: Changed, *, has_report: bool) -> None:
        """Bring the rows up to date; with ``has_report`` the engine's answer is another one."""
        known = self._known()
        before = self.version
        # A version is told as a whole: streams read between two updates, never within one.
        self.version += 1
        is_new = [
            self._update_nodes(changed.nodes, known),
            self._update_work(changed.pods, known, has_report=has_report),
            has_report
            and self._replace("queues", ((one.key, one) for one in queue_rows(known, self.rights))),
        ]
        if changed.pods:
            is_new.append(self._update_decisions())
        if changed.nodes or changed.pods:
            is_new.append(self._put("fleet", "fleet", self._fleet()))
        is_new.append(self._tell_unread(known))
        if any(is_new):
            self.wake()
        else:
            self.version = before

    def wake(self) -> None:
        """Have every stream look."""
        for one in self.watchers:
            one.set()

    def node(self, name: str) -> NodeRow | None:
        """The row of one node; None where there is none, or none for these rights."""
        return self._nodes.get(name)

    def nodes(self) -> Mapping[str, NodeRow]:
        """The rows of all nodes, by name. Do not keep it over an await."""
        return self._nodes

    def _known(self) -> Known:
        known = self._state.known
        if not self.rights.devices:
            known = known.without(FleetPart.DEVICES, "you may not list nodedevices")
        return known if self.rights.namespaces is None else without_engine_words(known)

    def _update_nodes(self, names: Iterable[str], known: Known) -> bool:
        is_new = False
        for name in names:
            row = node_row(name, self._state.placed(name), known, self.rights)
            if row is None:
                self._nodes.pop(name, None)
                is_new |= self.views["nodes"].remove(name, self.version)
            else:
                self._nodes[name] = row
                is_new |= self._put("nodes", name, row)
        return is_new

    def _update_work(self, pods: Iterable[tuple[str, str]], known: Known, *, has_report: bool) -> bool:
        words = WorkWords(known)
        wanted = {*pods, *self._state.waiting()} if has_report else set(pods)
        is_new = False
        for key in wanted:
            fact = self._state.facts.get(key)
            row = None if fact is None else words.pod_row(fact, self.rights)
            name = key_of("pod", *key)
            is_new |= (
                self.views["work"].remove(name, self.version) if row is None else self._put("work", name, row)
            )
        if not has_report:
            return is_new
        gangs = {row.key: row for row in gang_rows(known, self.rights)}
        for name in self._gangs - gangs.keys():
            is_new |= self.views["work"].remove(name, self.version)
        for name, row in gangs.items():
            is_new |= self._put("work", name, row)
        self._gangs = set(gangs)
        return is_new

    def _update_decisions(self) -> bool:
        seen = (row for key, row in self._state.decisions.items() if self.rights.sees(key[0]))
        newest = heapq.nlargest(DECISIONS_MAX, seen, key=lambda row: (row.at, row.key))
        return self._replace("decisions", ((row.key, row) for row in newest))

    def _fleet(self) -> FleetRow:
        if not self.rights.nodes:
            return FleetRow("fleet", "? nodes")
        waits = None
        if self.rights.namespaces is None and self._state.known.reads(FleetPart.PODS):
            waits = len(self._state.waiting())
        return fleet_row(self._nodes.values(), waits)

    def _tell_unread(self, known: Known) -> bool:
        refused = {
            "nodes": [
                known.unread[part] for part in (FleetPart.NODES, FleetPart.DEVICES) if part in known.unread
            ],
            "work": [known.unread[FleetPart.PODS]] if FleetPart.PODS in known.unread else [],
            "queues": [known.unread[FleetPart.ENGINE]] if FleetPart.ENGINE in known.unread else [],
        }
        if not self.rights.nodes:
            refused["nodes"].append("you may not list nodes")
        elif not self.rights.devices:
            refused["nodes"].append("you may not list nodedevices: cards and their holders are not shown")
        if not self.rights.queues:
            refused["queues"].append("you may not list fleetqueues")
        found = {view: "; ".join(reasons) for view, reasons in refused.items()}
        changed = [view for view, text in found.items() if text != self.unread[view]]
        self.unread.update(found)
        self.unread_at.update(dict.fromkeys(changed, self.version))
        return bool(changed)

    def _replace(self, view: str, rows: Iterable[tuple[str, Any]]) -> bool:
        """Set all rows of a view; those that are not among them are gone."""
        found = dict(rows)
        gone = [self.views[view].remove(key, self.version) for key in self.views[view].keys() - found.keys()]
        put = [self._put(view, key, row) for key, row in found.items()]
        return any(gone) or any(put)

    def _put(self, view: str, key: str, row: object) -> bool:
        return self.views[view].put(key, _ENCODER.encode(row), self.version)
