"""A gang as it stands: which members have come, which are missing and why, and what it needs."""

import datetime as dt
from collections.abc import Sequence

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.explain.answer import Finding, GangRow, MemberRow, RoleRow, State
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.pod import FAILED, Pod
from gpufleet.model.gang import Gang, short_gang_name
from gpufleet.model.identifiers import GangName
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted, listed, verb

# The scheduler's places in the words of an answer.
STATE_BY_PLACE = {
    PodStage.GATED: State.GATED,
    PodStage.HELD: State.HELD,
    PodStage.WAITING: State.WAITS,
    PodStage.PLACED: State.PLACED,
}


def state_of(facts: Facts, pod: Pod) -> State:
    """Where a pod stands, before the engine is asked."""
    if pod.terminal:
        return State.ENDED
    entry = facts.entry(pod)
    # Before the scheduler's name: a pod that has a node is placed, whatever scheduler placed it.
    if entry is not None and entry.place is PodStage.PLACED:
        return State.RUNS if pod.status.phase == "Running" else State.PLACED
    if pod.spec.scheduler_name != facts.settings.scheduler_name:
        return State.FOREIGN
    if pod.metadata.deletion_timestamp is not None:
        return State.LEAVES
    return State.WAITS if entry is None else STATE_BY_PLACE[entry.place]


def member_row(facts: Facts, pod: Pod) -> MemberRow:
    """A pod in one line."""
    membership = facts.membership(pod)
    entry = facts.entry(pod)
    held = "" if entry is None or entry.held is None else entry.held.message
    return MemberRow(
        pod=pod.metadata.name,
        state=state_of(facts, pod),
        node=pod.spec.node_name,
        role="" if membership is None else membership.role,
        why=held or (_end(pod) if pod.terminal else ""),
    )


def _end(pod: Pod) -> str:
    return f"{pod.status.phase} {printable(pod.status.reason)}" if pod.status.reason else pod.status.phase


def gang_row(facts: Facts, name: GangName) -> GangRow:
    """A gang with all its members; those that were told to end do not count as come, as for the engine."""
    record = facts.gangs.records.get(name)
    members = tuple(member_row(facts, pod) for pod in sorted(facts.members(name), key=_order))
    engine_gang = None if record is None else record.engine_gang
    half = next((one for one in facts.gangs.half_bound() if one.gang == name), None)
    here = [] if record is None else record.pods.values()
    arrived = [entry for entry in here if entry.object.metadata.deletion_timestamp is None]
    return GangRow(
        name=name,
        min_members=0 if engine_gang is None else engine_gang.min_members,
        arrived=len(arrived),
        placed=sum(entry.place is PodStage.PLACED for entry in arrived),
        roles=() if engine_gang is None else tuple(_roles(engine_gang, arrived)),
        members=members,
        deadline="" if half is None else _deadline(half.since, half.deadline_s),
    )


def _order(pod: Pod) -> str:
    return pod.metadata.name


def _deadline(since: dt.datetime | None, deadline_s: float) -> str:
    if since is None:
        return ""
    due = since + dt.timedelta(seconds=deadline_s)
    return due.strftime("%Y-%m-%dT%H:%M:%SZ")


def _roles(gang: Gang, arrived: list[Entry]) -> list[RoleRow]:
    roles = [entry.meaning.role for entry in arrived if entry.meaning is not None]
    return [RoleRow(role, needed, roles.count(role)) for role, needed in gang.role_minimums]


def short_of_members(row: GangRow, counted_members: int, others: Sequence[str] = ()) -> Finding:
    """Too few members have come: how many are missing, of which role, and which pods could still come.

    ``counted_members`` are those that the engine counts, which are fewer than have come while some
    were told to end, or pause. ``others`` are the names of gangs that are short of members too: the name of
    one of the two may be a slip.
    """
    roles = [one for one in row.roles if one.arrived < one.needed]
    if roles:
        words = listed(f"{one.needed - one.arrived} of role {harmless(one.role)}" for one in roles)
        missing = sum(one.needed - one.arrived for one in roles)
    else:
        missing = row.min_members - row.arrived
        words = counted(missing, "member")
    needed = f"{_title(row)} needs {counted(row.min_members, 'member')} at once"
    if missing < 1:
        return _not_all_count(row, needed, row.arrived - counted_members)
    came = f"{row.arrived} {verb(row.arrived, 'have')} come"
    why = f"{needed} and {came}: {words} {verb(missing, 'are')} missing"
    aside = [one for one in row.members if one.state in {State.GATED, State.HELD, State.FOREIGN}]
    ways = [f"{harmless(one.pod)} would count, but is {_aside(one)}" for one in aside]
    failed = [one.pod for one in row.members if one.state is State.ENDED and one.why.startswith(FAILED)]
    if failed:
        ways.append(f"{listed(failed)} failed: see why, and make {'it' if len(failed) == 1 else 'them'} anew")
    meant = nearest(row.name.rpartition("/")[2], others)
    if meant is not None:
        ways.append(f"gang {harmless(meant)} waits for members too: did its pods, or these, mean the other?")
    lower = "" if roles else f", or ask for at most {row.arrived} at once"
    ways.append(f"create the missing {'member' if missing == 1 else 'members'}{lower}")
    return Finding("gang-short", why, tuple(ways))


def _not_all_count(row: GangRow, needed: str, aside: int) -> Finding:
    """Enough members have come, but some were told to end, or pause, and cannot start with the others."""
    aside = max(1, aside)
    does = "does" if aside == 1 else "do"
    why = (
        f"{needed} and {row.arrived} have come, but {aside} of them {does} not count now: such a member "
        "has to end, or pauses because its Binding was refused"
    )
    return Finding("gang-short", why, ("see the Events of its members; it is tried again by itself",))


def _aside(row: MemberRow) -> str:
    match row.state:
        case State.GATED:
            return "gated"
        case State.FOREIGN:
            return "of another scheduler"
        case _:
            return f"held back: {row.why}"


def does_not_fit(row: GangRow, placeable: int, role: str, found: Finding) -> Finding:
    """The gang has come, but not all that it needs fit at once."""
    of_role = f" of role {harmless(role)}" if role else ""
    needed = f"{_title(row)} needs {counted(row.min_members, 'member')} at once"
    why = f"{needed}, and room is for {placeable}; for the next one{of_role} {found.why}"
    smaller = () if placeable < 1 or role else (f"ask for at most {counted(placeable, 'member')} at once",)
    return Finding(found.cause, why, (*found.way_out, *smaller))


def half_bound(row: GangRow) -> str:
    """What happens to a gang of which some members have a node, but too few."""
    return (
        f"{_title(row)} is bound in part: {row.placed} of {counted(row.min_members, 'member')} "
        f"{verb(row.placed, 'have')} a node; if the others do not follow until {row.deadline}, "
        "those with a controller are evicted to start again"
    )


def _title(row: GangRow) -> str:
    return f"gang {harmless(short_gang_name(row.name))}"
