"""The promises that a run is judged by, from outside: only by what the API server saw.

Names are those of the reliability reference (I1 to I14). Each check reads the whole history and tells
every place where the promise broke. A check that found nothing to look at says nothing: the tests
break each promise on purpose to see that its check can fail.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from gpufleet.simulation.audited import findings_of
from gpufleet.simulation.eviction_judge import (
    Teams,
    no_eviction_is_in_vain,
    owed_and_waiting,
    was_told_to_end,
)
from gpufleet.simulation.free_capacity import rooms_for, rooms_of
from gpufleet.simulation.history import NODE_DEVICES, PODS, History
from gpufleet.simulation.object_store import Written
from gpufleet.simulation.pod_facts import (
    condition,
    facts_of,
    gang_of,
    gang_said,
    grant_of,
    is_controlled,
    is_over,
    node_of,
)
from gpufleet.simulation.refusal import JsonObject

REQUESTS_PER_OBJECT = 60
REQUESTS_PER_S = 40
"""Both bounds are far above what a healthy run asks; retries without a pause break them."""

BINDS_PER_POD = 25
"""Faults may fail a Binding many times; a loop tries it more often."""

REASON = re.compile(r"[A-Z][A-Za-z]+")


PROMISES = {
    "alive": "no process of the scheduler ends by a mistake of its own",
    "I1": "no device and no node is given away beyond what it has",
    "I2": "every unfinished pod has a node or was told why it waits",
    "I3": "no gang stays half bound past its deadline",
    "I4": "at rest, what nodes report as held is what was granted",
    "I5": "no admission takes a queue beyond its limits",
    "I6": "no leader binds after a newer one has begun to",
    "I7": "no pod is bound twice, or while it is gated or going away",
    "I8": "the engine says the same when it hears the same again",
    "I9": "once the world is calm, nothing waits that would fit, or for what others borrowed",
    "I10": "requests grow with the work, not with the trouble",
    "I11": "the owner of a broken object is told, and no other work suffers",
    "I12": "no running pod is taken away, but members of a gang in part, and as queues and priorities allow",
    "I13": "conditions say what is so",
    "I14": "no pod gains a device, a quota or a place that was not granted",
    "benefit": "no pod is evicted in vain",
    "explain": "explain and the scheduler's next decision agree on every pod that waits",
}
"""The names and the promises behind them. ``alive`` and I8 are judged by the run itself, and ``explain`` by
``agreement`` where that looks on.
"""


class Broken(msgspec.Struct, frozen=True):
    """A promise that did not hold: which, when, and what was seen."""

    invariant: str
    at_s: float
    revision: int
    words: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at_s:.3f} s, revision {self.revision}: {self.words}"


def _name(pod: JsonObject) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _uid(pod: JsonObject) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def no_device_is_granted_twice(history: History) -> Iterator[Broken]:
    """I1: at no moment do the bound, unfinished pods hold more of a device than there is.

    A pod holds what its node reports, and as long as nothing is reported what it was granted. Beside a pod to
    which a kubelet gave another device than granted, a grant may be made before that is known.
    """
    granted: dict[str, tuple[str, dict[str, int]]] = {}
    reported: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    facts: dict[str, dict[str, int]] = {}
    holding: dict[str, dict[str, int]] = {}
    used: Counter[str] = Counter()
    for written in history.writes:
        if written.kind == NODE_DEVICES:
            before, after = reported.get(written.name, {}), facts_of(written.value)
            reported[written.name] = after
            for uid in before:
                facts.pop(uid, None)
            facts.update(after)
            touched = [uid for uid in {*before, *after} if uid in granted]
        elif written.kind == PODS:
            pod, uid = written.value, _uid(written.latest)
            granted.pop(uid, None)
            if pod is not None and node_of(pod) and not is_over(pod):
                granted[uid] = _name(pod), {one.device: one.gpu_milli for one in grant_of(pod)[1]}
            touched = [uid]
        else:
            continue
        # A dict as an ordered set: one seed tells of its findings in one order in every process.
        more: dict[str, None] = {}
        for uid in sorted(touched):
            then = holding.pop(uid, {})
            now = {} if uid not in granted else facts.get(uid) or granted[uid][1]
            used.subtract(then)
            used.update(now)
            holding[uid] = now
            if now != then:
                more |= dict.fromkeys(now)
        for device in more:
            holders = [uid for uid, held in holding.items() if device in held]
            if used[device] > 1000 and history.rules.swapped.isdisjoint(holders):
                names = ", ".join(sorted(granted[uid][0] for uid in holders))
                words = f"{device} is granted {used[device]} thousandths, to {names}"
                yield Broken("I1", written.at_s, written.revision, words)


def no_node_is_overfull(history: History) -> Iterator[Broken]:
    """I1, of what has no ids: CPU, memory, pods and unnamed GPUs at the end of the run."""
    for name, room in rooms_of(history).items():
        named = bool(room.devices)
        left = {"CPU": room.cpu_milli, "memory": room.memory_bytes, "pods": room.pods}
        if not named:
            left["GPUs"] = room.unnamed_gpus
        for resource, free in left.items():
            if free < 0:
                words = f"node {name} has {-free} less {resource} than its pods ask for"
                yield Broken("I1", history.ended_at_s, 0, words)


def _ours(history: History) -> list[JsonObject]:
    """Our unfinished pods at the end of the run, that are not going away."""
    return [
        pod
        for pod in history.final(PODS).values()
        if pod["spec"].get("schedulerName") == history.rules.scheduler_name
        and not is_over(pod)
        and "deletionTimestamp" not in pod["metadata"]
    ]


def _is_settled(history: History) -> bool:
    return history.ended_at_s - history.rules.calm_since_s >= history.rules.settle_s


def no_pod_is_lost(history: History) -> Iterator[Broken]:
    """I2: every unfinished pod of ours is bound, or was told why it waits."""
    if not _is_settled(history):
        return
    for pod in _ours(history):
        if node_of(pod) or _uid(pod) in history.rules.poisoned:
            continue
        told = condition(pod, "PodScheduled")
        if told is None or told["status"] != "False" or not told.get("reason"):
            yield Broken("I2", history.ended_at_s, 0, f"{_name(pod)} has no node and was not told why")


def no_gang_stays_half_bound(history: History) -> Iterator[Broken]:
    """I3: past its deadline no gang has some members running but fewer than it needs.

    Bare members, which no controller would make anew, may stay. A gang that had enough members once and lost
    some because they finished is not half bound, and neither is one of which a member says since that fewer
    are enough: that is its owner's to say.
    """
    members: dict[str, dict[str, JsonObject]] = {}
    half_since: dict[str, float] = {}
    told: set[str] = set()
    deadline_s = history.rules.gang_deadline_s + history.rules.gang_grace_s

    def late(now_s: float, revision: int) -> Iterator[Broken]:
        for gang, half_since_s in half_since.items():
            since_s = max(half_since_s, history.rules.blind_until_s)
            if gang not in told and now_s - since_s > deadline_s:
                told.add(gang)
                bound = sum(1 for pod in members[gang].values() if node_of(pod))
                words = f"gang {gang} has been half bound ({bound} members) for {now_s - since_s:.0f} s"
                yield Broken("I3", now_s, revision, words)

    for written in history.of(PODS):
        # Before this write counts: until now the gangs were as the writes before had left them.
        yield from late(written.at_s, written.revision)
        found = gang_of(written.latest)
        if found is None:
            continue
        gang, minimum = found
        pods = members.setdefault(gang, {})
        if written.value is None:
            pods.pop(_uid(written.latest), None)
        else:
            pods[_uid(written.latest)] = written.value
        placed = [pod for pod in pods.values() if node_of(pod)]
        running = [pod for pod in placed if not is_over(pod)]
        said = [words[1] for words in map(gang_said, pods.values()) if words is not None and words[0] == gang]
        half = running and len(placed) < min([minimum, *said]) and any(is_controlled(pod) for pod in running)
        if not half:
            half_since.pop(gang, None)
        else:
            half_since.setdefault(gang, written.at_s)
    yield from late(history.ended_at_s, 0)


def no_stale_epoch_wins(history: History) -> Iterator[Broken]:
    """I6: after the first Binding of an epoch there is none of an older one."""
    newest = -1
    for written, pod in _bindings(history):
        epoch = grant_of(pod)[0]
        if epoch is None:
            continue
        if epoch < newest:
            words = f"{_name(pod)} was bound by epoch {epoch} after epoch {newest} had begun to bind"
            yield Broken("I6", written.at_s, written.revision, words)
        # Per epoch and not per leader: a leader that lost its Lease and took it again has a new epoch.
        newest = max(newest, epoch)


def _bindings(history: History) -> Iterator[tuple[Written, JsonObject]]:
    """The writes that gave a pod its node."""
    for written in history.of(PODS):
        pod = written.value
        if pod is not None and node_of(pod) and (written.before is None or not node_of(written.before)):
            yield written, pod


def no_pod_is_bound_twice(history: History) -> Iterator[Broken]:
    """I7: a uid gets one node for ever; none is given to a pod that is gated or going away."""
    nodes: dict[str, str] = {}
    for written in history.of(PODS):
        pod = written.value
        if pod is None or not node_of(pod):
            continue
        first = nodes.setdefault(_uid(pod), node_of(pod))
        if first != node_of(pod):
            words = f"{_name(pod)} moved from {first} to {node_of(pod)}"
            yield Broken("I7", written.at_s, written.revision, words)
        fresh = written.before is None or not node_of(written.before)
        if fresh and written.before is not None:
            if pod["spec"].get("schedulingGates") or "deletionTimestamp" in written.before["metadata"]:
                words = f"{_name(pod)} was bound while it was gated or going away"
                yield Broken("I7", written.at_s, written.revision, words)
    accepted = Counter(
        request.target.partition("?")[0]
        for request in history.requests
        if request.code == 201 and request.target.endswith("/binding")
    )
    uids = Counter(
        f"/api/v1/namespaces/{name[0]}/pods/{name[1]}/binding" for name in _first_bindings(history)
    )
    for target, times in accepted.items():
        if times > uids[target]:
            words = f"{times} Bindings were accepted at {target} for {uids[target]} pods of that name"
            yield Broken("I7", history.ended_at_s, 0, words)


def _first_bindings(history: History) -> Iterator[tuple[str, str]]:
    for written, _ in _bindings(history):
        yield written.name


def everything_that_fits_runs(history: History) -> Iterator[Broken]:
    """I9: once the world was calm long enough, no pod and no gang waits that would fit."""
    if not _is_settled(history):
        return
    waiting = [
        pod
        for pod in _ours(history)
        if not node_of(pod)
        and not pod["spec"].get("schedulingGates")
        and _uid(pod) not in history.rules.poisoned
    ]
    gangs: dict[str, list[JsonObject]] = {}
    for pod in waiting:
        gang = gang_of(pod)
        gangs.setdefault(gang[0] if gang else _name(pod), []).append(pod)
    for name, pods in gangs.items():
        if _fits_together(history, pods):
            words = f"{name} waits though all its {len(pods)} waiting pods would fit"
            yield Broken("I9", history.ended_at_s, 0, words)


def _fits_together(history: History, pods: list[JsonObject]) -> bool:
    """Whether first fit finds room for all; it may miss a way, and never claims one that is none."""
    gang = gang_of(pods[0])
    if gang is not None:
        members = [pod for pod in _ours(history) if gang_of(pod) == gang]
        if len(members) < gang[1]:
            return False
    rooms = rooms_of(history)
    for pod in pods:
        usable = rooms_for(history, pod, rooms).values()
        room = next((room for room in usable if room.fits(pod)), None)
        if room is None:
            return False
        # The members of a gang need room beside each other.
        room.place(pod)
    return True


def requests_stay_bounded(history: History) -> Iterator[Broken]:
    """I10: what the scheduler asks for grows with what there is to do, not with its troubles."""
    users = history.rules.scheduler_users
    asked = [request for request in history.requests if request.user in users]
    objects = len({(written.kind, written.name) for written in history.writes})
    most = REQUESTS_PER_OBJECT * objects + REQUESTS_PER_S * history.ended_at_s
    if len(asked) > most:
        words = f"{len(asked)} requests of the scheduler for {objects} objects in {history.ended_at_s:.0f} s"
        yield Broken("I10", history.ended_at_s, 0, words)
    per_pod = Counter(request.target for request in asked if request.target.endswith("/binding"))
    for target, times in sorted(per_pod.items()):
        if times > BINDS_PER_POD:
            yield Broken("I10", history.ended_at_s, 0, f"{times} Bindings were tried at {target}")


def poison_is_told_to_its_owner(history: History) -> Iterator[Broken]:
    """I11: the owner of a broken object is told; that no other object suffers is I2 and I9."""
    if not _is_settled(history):
        return
    for pod in _ours(history):
        if _uid(pod) not in history.rules.poisoned:
            continue
        if node_of(pod):
            yield Broken("I11", history.ended_at_s, 0, f"{_name(pod)} is broken and was bound all the same")
        elif (condition(pod, "PodScheduled") or {}).get("reason") is None:
            yield Broken("I11", history.ended_at_s, 0, f"{_name(pod)} is broken and its owner was not told")


def running_pods_are_left_alone(history: History) -> Iterator[Broken]:
    """I12: our scheduler takes no running pod away, but for members of a gang that lacks others, and pods
    that the policies of their queues, or outside of these their priority, let others have evicted.
    """
    teams = Teams(history)
    placed: dict[str, dict[str, None]] = {}
    taken = _taken(history)
    for written in history.of(PODS):
        # Asked before this write counts, about the cluster in which the scheduler decided.
        permitted = was_told_to_end(history, written) and teams.permit(written.latest, written.at_s)
        teams.follow(written)
        pod = written.value
        gang = gang_of(written.latest)
        if gang is not None:
            members = placed.setdefault(gang[0], {})
            if pod is not None and node_of(pod) and "deletionTimestamp" not in pod["metadata"]:
                members[_uid(pod)] = None
        if written.user not in history.rules.scheduler_users or written.before is None:
            continue
        going = pod is None or "deletionTimestamp" in pod["metadata"]
        if not going or "deletionTimestamp" in written.before["metadata"] or not node_of(written.before):
            continue
        half_bound = gang is not None and len(placed[gang[0]]) < gang[1]
        if gang is not None:
            placed[gang[0]].pop(_uid(written.latest), None)
            half_bound = half_bound or len(placed[gang[0]]) + 1 < gang[1] or gang[0] in taken
        if not half_bound and not permitted and not is_over(written.before):
            words = f"{_name(written.latest)} was taken away by {written.user}"
            yield Broken("I12", written.at_s, written.revision, words)


def no_victim_without_benefit(history: History) -> Iterator[Broken]:
    """What was evicted for the queues' sake has let others run, once the world is calm."""
    if _is_settled(history):
        for words in no_eviction_is_in_vain(history):
            yield Broken("benefit", history.ended_at_s, 0, words)


def what_is_owed_is_given(history: History) -> Iterator[Broken]:
    """I9: once the world was calm long enough, no workload waits for what other queues have borrowed."""
    if _is_settled(history):
        for words in owed_and_waiting(history):
            yield Broken("I9", history.ended_at_s, 0, words)


def _taken(history: History) -> set[str]:
    """Gangs of which a member was rejected or lost, so that the rest may have to start anew."""
    return {
        gang[0]
        for written in history.of(PODS)
        if (gang := gang_of(written.latest)) is not None
        and (written.value is None or written.value.get("status", {}).get("phase") == "Failed")
    }


def conditions_tell_the_truth(history: History) -> Iterator[Broken]:
    """I13: PodScheduled says what is so, in words without nonsense."""
    for written in history.of(PODS):
        pod = written.value
        told = condition(pod, "PodScheduled") if pod is not None else None
        if pod is None or told is None or written.user not in history.rules.scheduler_users:
            continue
        message = told.get("message") or ""
        problem = ""
        if told["status"] == "False" and node_of(pod):
            problem = "is said not to be scheduled and has a node"
        elif told["status"] == "True" and not node_of(pod):
            problem = "is said to be scheduled and has no node"
        elif told["status"] == "False" and not REASON.fullmatch(told.get("reason") or ""):
            problem = f"has the reason {told.get('reason')!r}"
        elif told["status"] == "False" and (not message or "nan" in message.lower().split()):
            problem = f"is told {message!r}"
        if problem:
            yield Broken("I13", written.at_s, written.revision, f"{_name(pod)} {problem}")


def ledger_and_fact_agree(history: History) -> Iterator[Broken]:
    """I4, as far as the API knows: at rest, what nodes report as held is what was granted."""
    if not _is_settled(history):
        return
    reports = history.final(NODE_DEVICES)
    for pod in history.final(PODS).values():
        running = (pod.get("status") or {}).get("phase") == "Running"
        report = reports.get(("", node_of(pod)))
        if not running or report is None or "deletionTimestamp" in pod["metadata"]:
            continue
        granted = {one.device: one.gpu_milli for one in grant_of(pod)[1]}
        held = facts_of(report).get(_uid(pod), {})
        # Its kubelet gave it another device on purpose, so only the amounts can agree.
        if _uid(pod) in history.rules.swapped:
            agree = sorted(granted.values()) == sorted(held.values())
        else:
            agree = granted == held
        if not agree:
            words = f"{_name(pod)} was granted {granted} and holds {held}"
            yield Broken("I4", history.ended_at_s, 0, words)


def the_auditor_finds_nothing(history: History) -> Iterator[Broken]:
    """I1, I4, I5, I12 and I14 as the auditor reads them, which shares no code with the scheduler."""
    for finding in findings_of(history, at_rest=_is_settled(history)):
        words = f"the auditor: {', '.join(finding.objects)}: {finding.words}"
        yield Broken(finding.promise, finding.at_s, 0, words)


Check = Callable[[History], Iterator[Broken]]
CHECKS: tuple[Check, ...] = (
    no_device_is_granted_twice,
    no_node_is_overfull,
    no_pod_is_lost,
    no_gang_stays_half_bound,
    ledger_and_fact_agree,
    no_stale_epoch_wins,
    no_pod_is_bound_twice,
    everything_that_fits_runs,
    requests_stay_bounded,
    poison_is_told_to_its_owner,
    running_pods_are_left_alone,
    no_victim_without_benefit,
    what_is_owed_is_given,
    conditions_tell_the_truth,
    the_auditor_finds_nothing,
)


def judge(history: History) -> list[Broken]:
    """Every promise that broke, in the order of the checks."""
    return [broken for check in CHECKS for broken in check(history)]
