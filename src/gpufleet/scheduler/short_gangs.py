"""Writing down what a gang that is short of members went through, for the next leader and for ``explain``.

Since when it is short, with how many members it ran, and whether members that come join those that run: none
of it follows from its pods as they stand. It is written into a condition of one running member, and on
another one once that ends. A gang that is whole is not written of, so gangs that start and end as usual cost
no write.
"""

import msgspec

from gpufleet.cluster.engine_time import US_PER_S
from gpufleet.cluster.pods.gang_tracker import GangRecord, GangTracker, stays
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.engine.scheduler import Engine
from gpufleet.kube.codec.lasting_conditions import ShortGang
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.scheduler.condition_writer import ConditionWriter

SETTLES_WITHIN_US = 2 * US_PER_S
"""A gang of which the members are just being bound, or just deleted one by one, is short for less."""


class Note(msgspec.Struct, frozen=True):
    """What was written down of a gang, and the member with the condition."""

    member: PodUid
    said: ShortGang


class ShortGangs:
    """Compares what was written down of gangs with how they stand."""

    def __init__(self, engine: Engine, gangs: GangTracker, conditions: ConditionWriter) -> None:
        self.engine = engine
        self.gangs = gangs
        self.conditions = conditions
        self._notes: dict[GangName, Note] = {}
        self._due_us: dict[GangName, int] = {}

    def after_round(self, *, at_once: bool = False) -> None:
        """A round is over. ``at_once``: also write of gangs that are short since just now."""
        for name, (member, said) in self.gangs.recalled().items():
            self._notes[name] = Note(member, said)
        self.gangs.forget_recalled()
        changed = self.gangs.take_updated()
        # A list, because what is looked at may be forgotten on the way.
        for name in [name for name in (*self._notes, *self._due_us) if name not in changed]:
            if not self._stands(name):
                self._update(name, at_once=at_once)
        for name in changed:
            self._update(name, at_once=at_once)

    def _stands(self, name: GangName) -> bool:
        """Whether what was written down of a gang holds, of which no member changed."""
        note, record = self._notes.get(name), self.gangs.records.get(name)
        return note is not None and record is not None and self._said(name, record) == note.said

    def _said(self, name: GangName, record: GangRecord) -> ShortGang | None:
        """What there is to be written of a gang; None if no member runs, or none is lacking."""
        shortage = self.engine.gang_shortage(name)
        if shortage is None or (shortage.since_us is None and not shortage.lacking):
            return None
        return ShortGang(shortage.since_us, record.ran_with, shortage.started)

    def _update(self, name: GangName, *, at_once: bool) -> None:
        record, note = self.gangs.records.get(name), self._notes.get(name)
        said = None if record is None else self._said(name, record)
        if record is None or (said is None and note is None):
            self._forget(name)
            return
        staying = _staying(record)
        if said is None or not staying:
            # Of a member that ends, the condition goes with the pod.
            if note is not None and note.member in staying:
                self.conditions.gang(staying[note.member].name, None)
            self._forget(name)
            return
        member = note.member if note is not None and note.member in staying else next(iter(staying))
        if note == Note(member, said) or (note is None and not self._is_due(name, said, at_once=at_once)):
            return
        self._due_us.pop(name, None)
        self._notes[name] = Note(member, said)
        self.conditions.gang(staying[member].name, said)

    def _is_due(self, name: GangName, said: ShortGang, *, at_once: bool) -> bool:
        """A gang that ran and has lost members is written of at once: it may be taken back within seconds."""
        due_us = self._due_us.setdefault(name, self.engine.at_us + SETTLES_WITHIN_US)
        has_lost = said.ran_with > 0 and said.since_us is not None
        return at_once or has_lost or self.engine.at_us >= due_us

    def _forget(self, name: GangName) -> None:
        self._notes.pop(name, None)
        self._due_us.pop(name, None)


def _staying(record: GangRecord) -> dict[PodUid, Entry]:
    return {uid: one for uid, one in record.pods.items() if one.place is PodStage.PLACED and stays(one)}
