"""Which pods belong together, as the engine was told, and which gangs are bound in part.

What each pod says of its gang is read with the pod; here the words of all members are put together whenever
one of them changed. Where they contradict each other no member is placed, and all of them are told why.
Members that succeeded count as had: a gang that ran must not wait for them again.
"""

import datetime as dt
import logging
from collections.abc import Set as AbstractSet

import msgspec

from gpufleet.cluster.pods.pod_entry import Entry, PlacedPod, PodStage
from gpufleet.engine.event import Event, GangRemoved, GangSet
from gpufleet.kube import keys
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.codec.gangs import make_gang, read_membership
from gpufleet.kube.codec.lasting_conditions import ShortGang, read_short_gang
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.pod import GangPart
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.codec.waits import Wait
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.pod import POD_SCHEDULED, SUCCEEDED, Pod
from gpufleet.model.bound_terms import NEVER_STALE, BoundGang, BoundTerms
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, NodeName, PodUid, TopologyLevelName
from gpufleet.model.model_errors import InputError
from gpufleet.model.violation import GangIncomplete, GangMember

LOG = logging.getLogger(__name__)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""Times of the API count microseconds from here."""

STALE_AFTER_S = 60.0
"""A gang that lost members waits for others as long as it does under KAI."""
TURNS_KEPT_MAX = 10_000
"""Gangs that never come back are forgotten after so many others."""

LATEST_US = 250_000_000_000_000_000
"""The last moment that a datetime can hold lies a little later, at the end of the year 9999."""


class HalfBound(msgspec.Struct, frozen=True):
    """A gang of which some members have a node, but fewer than it needs.

    ``members`` are those that stay; ``ending`` more were told to end and are not gone. ``since`` is
    what an earlier leader wrote down, else as early as the API lets us say: the gang may then have been whole
    in between. None where the API says nothing that makes sense: then for now. ``leaving`` of the members are
    on nodes that are taken back, of which ``node`` is one.
    """

    gang: GangName
    min_members: int
    members: tuple[PlacedPod, ...]
    since: dt.datetime | None
    deadline_s: float
    ending: int = 0
    leaving: int = 0
    node: NodeName | None = None

    @property
    def violation(self) -> GangIncomplete:
        """What the engine is told of it."""
        members = tuple(GangMember(one.pod.uid, one.may_be_taken) for one in self.members)
        allowed_us = int(self.deadline_s * 1e6)
        bound = len(members) + self.ending - self.leaving
        return GangIncomplete(self.gang, self.min_members, bound, members, allowed_us, self.node)


class GangRecord(msgspec.Struct):
    """A gang: its pods, the members that succeeded, and what the engine was told.

    ``ran_with`` is the minimum that it had while we saw it whole, 0 if it never was. ``meant`` is what the
    engine was told, as if no member had succeeded.
    """

    pods: dict[PodUid, Entry] = {}
    succeeded: dict[PodUid, None] = {}
    engine_gang: Gang | None = None
    meant: Gang | None = None
    problem: str = ""
    ran_with: int = 0


class GangTracker:
    """All gangs by name."""

    def __init__(self, deadline_s: float, stale_after_s: float = STALE_AFTER_S) -> None:
        self.deadline_s = deadline_s
        self.stale_after_s = stale_after_s
        self.records: dict[GangName, GangRecord] = {}
        self._memberships: dict[PodUid, Membership] = {}
        self._bound: dict[PodUid, BoundGang] = {}
        self._touched: dict[GangName, None] = {}
        self._half: dict[GangName, HalfBound] = {}
        self._recalled: dict[PodUid, ShortGang] = {}
        self._regarded: dict[GangName, None] = {}
        self._taken_back: set[NodeName] = set()
        self._turns: dict[GangName, int] = {}
        """Since when gangs wait in line that left with a node: they come back to their place there."""

    def part(self, pod: Pod, lookup: Lookup) -> GangPart | Wait | None:
        """The pod's gang and its role there. Raises ObjectError for what cannot be."""
        uid = PodUid(pod.metadata.uid)
        membership = read_membership(pod, lookup)
        if not isinstance(membership, Membership):
            self._memberships.pop(uid, None)
            return membership
        if self._memberships.get(uid) != membership:
            self._memberships[uid] = membership
            self._touched[membership.gang] = None
        return GangPart(membership.gang, membership.role)

    def hold(self, pod: Pod, terms: BoundTerms, lookup: Lookup) -> Membership | None:
        """Note the gang that a placed pod was bound with; what it says of a gang now, if that can be read."""
        uid = PodUid(pod.metadata.uid)
        try:
            read = read_membership(pod, lookup)
        # What it says wrongly now changes nothing: it is held to what it was bound with.
        except ObjectError:
            read = None
        words = read if isinstance(read, Membership) else None
        bound = terms.gang
        if bound is None:
            self._memberships.pop(uid, None)
            return words
        same = words if words is not None and words.gang == bound.gang.name else None
        if self._bound.get(uid) != bound or self._memberships.get(uid) != same:
            self._bound[uid] = bound
            self._memberships.pop(uid, None)
            if same is not None:
                self._memberships[uid] = same
            self._touched[bound.gang.name] = None
        return words

    def bound_with(self, uid: PodUid, entry: Entry) -> BoundGang | None:
        """The gang of a pod that is bound now, as it is held to; None for a pod that stands alone."""
        name = None if entry.meaning is None else entry.meaning.gang
        record = None if name is None else self.records.get(name)
        if entry.meaning is None or record is None or record.meant is None:
            return None
        words = self._memberships.get(uid)
        stale_after_us = None if words is None else words.terms.stale_after_us
        opted_in = entry.object.metadata.annotations.get(keys.DELETE_INCOMPLETE) == "true"
        return BoundGang(record.meant, entry.meaning.role, stale_after_us, opted_in)

    def node_read(self, name: NodeName, *, taken_back: bool) -> None:
        """Whether a node goes away for good within minutes."""
        if taken_back == (name in self._taken_back):
            return
        (self._taken_back.add if taken_back else self._taken_back.discard)(name)
        for gang, record in self.records.items():
            if any(entry.node == name for entry in record.pods.values()):
                self._touched[gang] = None

    def _gang_of(self, uid: PodUid) -> GangName | None:
        bound, words = self._bound.get(uid), self._memberships.get(uid)
        if bound is not None:
            return bound.gang.name
        return None if words is None else words.gang

    def enter(self, uid: PodUid, entry: Entry) -> None:
        """A pod of a gang is here, or has another place."""
        if entry.meaning is not None and entry.meaning.gang is not None:
            self.records.setdefault(entry.meaning.gang, GangRecord()).pods[uid] = entry
            self._touched[entry.meaning.gang] = None

    def leave(self, uid: PodUid, gang: GangName) -> None:
        """A pod is no longer here."""
        record = self.records.get(gang)
        if record is not None and record.pods.pop(uid, None) is not None:
            self._touched[gang] = None

    def forget(self, uid: PodUid) -> None:
        """The pod is gone from the API, and with it that it succeeded."""
        name = self._gang_of(uid)
        self._memberships.pop(uid, None)
        self._bound.pop(uid, None)
        record = None if name is None else self.records.get(name)
        if name is not None and record is not None:
            record.succeeded.pop(uid, None)
            self._touched[name] = None

    def ended(self, pod: Pod, lookup: Lookup, terms: BoundTerms | None) -> None:
        """A pod ended; if it succeeded its gang has had it."""
        # A member that failed is not had: the gang needs another one in its place.
        if pod.status.phase != SUCCEEDED:
            return
        uid = PodUid(pod.metadata.uid)
        if terms is not None:
            self.hold(pod, terms, lookup)
            gang = self._gang_of(uid)
        else:
            gang = self._gang_said(pod, lookup)
        if gang is not None:
            record = self.records.setdefault(gang, GangRecord())
            record.succeeded[uid] = None
            self._touched[gang] = None

    def _gang_said(self, pod: Pod, lookup: Lookup) -> GangName | None:
        try:
            part = self.part(pod, lookup)
        except ObjectError:
            return None
        return part.gang if isinstance(part, GangPart) else None

    def problem(self, gang: GangName) -> str:
        """Why no member of this gang is placed; "" if nothing is wrong with it."""
        record = self.records.get(gang)
        return "" if record is None else record.problem

    def waiting(self, gang: GangName) -> list[Entry]:
        """The members that wait."""
        record = self.records.get(gang)
        pods = () if record is None else record.pods.values()
        return [entry for entry in pods if entry.place is PodStage.WAITING]

    def size(self, gang: GangName) -> int:
        """How many of the gang are here."""
        record = self.records.get(gang)
        return 0 if record is None else len(record.pods)

    def half_bound(self) -> list[HalfBound]:
        """Gangs of which some members that stay, but fewer than needed, have a node."""
        return list(self._half.values())

    def levels(self) -> frozenset[TopologyLevelName]:
        """The topology levels that gangs ask for; each is named as the node label of its domains."""
        engine_gang = [
            record.engine_gang for record in self.records.values() if record.engine_gang is not None
        ]
        asked = {
            level
            for one in engine_gang
            for level in (one.required_level, one.preferred_level, *(each.level for each in one.slices))
        }
        return frozenset(level for level in asked if level is not None)

    def changes(self) -> list[Event]:
        """The events of gangs with members that changed."""
        touched, self._touched = self._touched, {}
        events: list[Event] = []
        for name in touched:
            events += self._update(name)
        return events

    def _update(self, name: GangName) -> list[Event]:
        record = self.records.get(name)
        if record is None:
            return []
        if not record.pods:
            self._half.pop(name, None)
            engine_gang, record.engine_gang = record.engine_gang, None
            # Members that succeeded count as long as their pods are in the API: that many fewer are needed.
            if not record.succeeded:
                del self.records[name]
            return [] if engine_gang is None else [GangRemoved(name)]
        gang = self._gang(name, record)
        self._update_half(name, record, gang)
        self._regarded[name] = None
        if gang == record.engine_gang:
            return []
        record.engine_gang = gang
        return [GangRemoved(name) if gang is None else GangSet(gang)]

    def _gang(self, name: GangName, record: GangRecord) -> Gang | None:
        """The gang as the engine is to know it; None where nothing describes it."""
        record.meant = self._bound_gang(record) or self._said_gang(name, record)
        if record.meant is None:
            return None
        had = len(record.succeeded)
        least = max(1, record.meant.min_members - had)
        return msgspec.structs.replace(record.meant, min_members=least) if had else record.meant

    def _bound_gang(self, record: GangRecord) -> Gang | None:
        """The gang with which members that run were bound; members that come later join it as it is.

        Only a smaller minimum counts that is said since: it makes members easier to take back.
        """
        bound = [self._bound[uid].gang for uid in record.pods if uid in self._bound]
        if not bound:
            return None
        record.problem = ""
        # The minimum may have been lowered between two Bindings; every process must choose the same terms.
        gang = min(bound, key=lambda one: (one.min_members, one.queue, -one.priority, one.created_at_us))
        said = [self._memberships[uid].terms.min_members for uid in record.pods if uid in self._memberships]
        least = max(1, min(said, default=gang.min_members))
        if least >= gang.min_members:
            return gang
        # No role can need more members than its gang.
        roles = tuple((role, min(count, least)) for role, count in gang.role_minimums)
        return msgspec.structs.replace(gang, min_members=least, role_minimums=roles)

    def _said_gang(self, name: GangName, record: GangRecord) -> Gang | None:
        """The gang that the members describe; None if they contradict each other."""
        said = [
            (entry.meaning, self._memberships[uid])
            for uid, entry in record.pods.items()
            if entry.meaning is not None and uid in self._memberships
        ]
        if not said:
            return None
        try:
            gang = make_gang(name, said)
        except ObjectError as problem:
            if record.problem != str(problem):
                LOG.warning("a gang is set aside", extra={"gang": str(name), "problem": str(problem)})
            record.problem = str(problem)
            return None
        record.problem = ""
        turn_us = self._turns.get(name, gang.created_at_us)
        return msgspec.structs.replace(gang, created_at_us=min(turn_us, gang.created_at_us))

    def _update_half(self, name: GangName, record: GangRecord, gang: Gang | None) -> None:
        """Note whether too few members run: fewer than are asked for now, and than it ran with before.

        Those that were told to end count until they are gone; where no others run the gang begins anew. Those
        on a node that is taken back do not count: a gang that is short without them leaves at once and whole.
        """
        placed = [entry for entry in record.pods.values() if entry.place is PodStage.PLACED]
        staying = [entry for entry in placed if stays(entry)]
        recalled = self._recalled_of(record)
        if gang is None or not staying:
            record.ran_with = 0
            self._half.pop(name, None)
            return
        if recalled is not None:
            record.ran_with = recalled[1].ran_with
        if len(placed) >= gang.min_members:
            record.ran_with = gang.min_members
        # A minimum that was raised since does not make a gang short that runs as it began.
        needed = min(gang.min_members, record.ran_with or gang.min_members)
        leaving = [entry for entry in placed if entry.node in self._taken_back]
        if len(placed) - len(leaving) >= needed:
            self._half.pop(name, None)
            self._turns.pop(name, None)
            return
        deadline_s = self._deadline_s(record)
        if deadline_s is None:
            self._half.pop(name, None)
            return
        members = tuple(bound_member(entry) for entry in staying)
        since = None if recalled is None else _since(recalled[1])
        half = HalfBound(
            name, needed, members, since or short_since(record), deadline_s, len(placed) - len(staying)
        )
        if leaving:
            half = msgspec.structs.replace(half, deadline_s=0.0, leaving=len(leaving), node=leaving[0].node)
            self._keep_turn(gang)
        self._half[name] = half

    def _keep_turn(self, gang: Gang) -> None:
        self._turns.setdefault(gang.name, gang.created_at_us)
        if len(self._turns) > TURNS_KEPT_MAX:
            del self._turns[next(iter(self._turns))]

    def recall(self, pod: Pod) -> None:
        """Note what an earlier leader wrote down of the gang of a pod that has a node."""
        said = read_short_gang(pod)
        if said is not None:
            self._recalled[PodUid(pod.metadata.uid)] = said

    def _recalled_of(self, record: GangRecord) -> tuple[PodUid, ShortGang] | None:
        """What was written down of a gang, with the member that says it: rather one that stays."""
        if not self._recalled:
            return None
        found = [
            uid
            for uid, entry in record.pods.items()
            if uid in self._recalled and entry.place is PodStage.PLACED
        ]
        found.sort(key=lambda uid: not stays(record.pods[uid]))
        return (found[0], self._recalled[found[0]]) if found else None

    def recalled(self) -> dict[GangName, tuple[PodUid, ShortGang]]:
        """All that was written down, by gang; it is forgotten with ``forget_recalled``."""
        if not self._recalled:
            return {}
        names = dict.fromkeys(map(self._gang_of, self._recalled))
        records = {name: self.records[name] for name in names if name in self.records}
        found = {name: self._recalled_of(record) for name, record in records.items()}
        return {name: said for name, said in found.items() if said is not None}

    def forget_recalled(self) -> None:
        """From now on the tracker itself sees what gangs go through."""
        self._recalled = {}

    def take_updated(self) -> AbstractSet[GangName]:
        """The gangs with members that changed since this was asked last."""
        regarded, self._regarded = self._regarded, {}
        return regarded.keys()

    def _deadline_s(self, record: GangRecord) -> float | None:
        """How long the gang may be short of members; None for any time.

        One that never was whole has the time in which gangs must be completed. One that ran has a grace
        period, its own or the usual one, which is no longer than that.
        """
        terms = next((self._memberships[uid].terms for uid in record.pods if uid in self._memberships), None)
        said = [None if terms is None else terms.stale_after_us]
        bound = next((self._bound[uid] for uid in record.pods if uid in self._bound), None)
        if bound is not None:
            # What is said since may only shorten it.
            said = [bound.stale_after_us, *(said if terms is not None else ())]
        allowed_s = [self._allowed_s(own_us, ran=bool(record.ran_with)) for own_us in said]
        return min((one for one in allowed_s if one is not None), default=None)

    def _allowed_s(self, own_us: int | None, *, ran: bool) -> float | None:
        if own_us == NEVER_STALE:
            return None
        if not ran:
            return self.deadline_s
        if own_us is not None:
            return own_us / 1e6
        return None if self.stale_after_s < 0 else min(self.stale_after_s, self.deadline_s)


def bound_member(entry: Entry) -> PlacedPod:
    """A placed member, and what may be done with it."""
    metadata = entry.object.metadata
    opted_in = metadata.annotations.get(keys.DELETE_INCOMPLETE) == "true"
    controlled, terms = metadata.controller is not None, entry.terms
    if terms is not None:
        controlled = controlled or terms.replaceable
        opted_in = opted_in or (terms.gang is not None and terms.gang.may_be_deleted)
    return PlacedPod(entry.name, controlled, opted_in)


def stays(entry: Entry) -> bool:
    """Whether a pod was not told to end."""
    return entry.object.metadata.deletion_timestamp is None


def _since(short: ShortGang) -> dt.datetime | None:
    """Since when a gang is short, as an earlier leader wrote it down."""
    if not short.since_us:
        return None
    return EPOCH + dt.timedelta(microseconds=min(short.since_us, LATEST_US))


def short_since(record: GangRecord) -> dt.datetime | None:
    """Since when a gang may be short, as early as the API lets us say; None where that makes no sense."""
    noted = [scheduled_at(one.object) for one in record.pods.values() if one.place is PodStage.PLACED]
    since = min(filter(None, noted), default=None)
    # A member that is younger than the others' placing replaces one that was there.
    waiting = [created_at(one.object) for one in record.pods.values() if one.place is not PodStage.PLACED]
    first = min(filter(None, waiting), default=None)
    return since if since is None or first is None else max(since, first)


def scheduled_at(pod: Pod) -> dt.datetime | None:
    """When the API server noted that the pod has a node; its creation where that was not noted."""
    condition = pod.condition(POD_SCHEDULED)
    noted = None if condition is None or condition.status != "True" else condition.last_transition_time
    return moment(noted) if noted else created_at(pod)


def created_at(pod: Pod) -> dt.datetime | None:
    """When the pod was created."""
    return moment(pod.metadata.creation_timestamp)


def moment(text: str | None) -> dt.datetime | None:
    """A time of the API; None for what is none."""
    try:
        at_us = microseconds(text)
    except InputError:
        return None
    return None if at_us == 0 else EPOCH + dt.timedelta(microseconds=min(at_us, LATEST_US))
