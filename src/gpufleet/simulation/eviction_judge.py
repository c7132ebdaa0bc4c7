"""Judges evictions for queues: policy must allow each, and each must help a waiting pod.

It knows the queues that ``team_recipe`` makes: a flat tree under one root, nominal amounts of GPUs, the
policies as they are by default (own work of lower priority; whatever others borrow). Outside of every
queue work of lower priority makes room, and all of it for what a queue is owed. All amounts are thousandths
of a GPU.
"""

from collections import Counter
from collections.abc import Iterator

from gpufleet.simulation.history import FLEET_QUEUES, PODS, History
from gpufleet.simulation.object_store import Written
from gpufleet.simulation.pod_facts import (
    gang_of,
    is_leaving,
    is_over,
    needs_of,
    node_of,
    priority_of,
    queue_of,
)
from gpufleet.simulation.refusal import JsonObject

NEWS_WITHIN_S = 0.1
"""A watch that nothing hinders tells within less that a pod has left, so an eviction may rest on that pod."""


class Teams:
    """How much each queue has of the GPUs, as the writes go by."""

    def __init__(self, history: History) -> None:
        self.nominal: dict[str, int] = {}
        for (_, name), queue in history.final(FLEET_QUEUES).items():
            for quota in queue["spec"].get("quotas") or []:
                self.nominal[name] = 1000 * int(quota["nominal"])
        self.pods: dict[str, JsonObject] = {}
        self._left: list[tuple[float, JsonObject]] = []

    def follow(self, written: Written) -> None:
        """A write of a pod."""
        uid = written.latest["metadata"]["uid"]
        before = self.pods.get(uid)
        if before is not None and waits(before) and (written.value is None or is_leaving(written.value)):
            self._left.append((written.at_s, before))
        if written.value is None or is_over(written.value):
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = written.value

    def used(self) -> Counter[str]:
        """What the pods of each queue hold, those that are leaving among them."""
        found: Counter[str] = Counter()
        for pod in self.pods.values():
            if node_of(pod):
                found[queue_of(pod)] += needs_of(pod).gpu_milli
        return found

    def waiting(self) -> list[JsonObject]:
        """Pods that have no node yet."""
        return [pod for pod in self.pods.values() if waits(pod)]

    def permit(self, victim: JsonObject, at_s: float) -> bool:
        """Whether a pod that waits, or did until just now, may have this pod evicted."""
        queue, used = queue_of(victim), self.used()
        self._left = [(left_s, pod) for left_s, pod in self._left if at_s - left_s <= NEWS_WITHIN_S]
        known = (*self.waiting(), *(pod for _, pod in self._left))
        waiting = [pod for pod in known if queue_of(pod) in self.nominal]
        owed = (
            queue_of(pod) != queue
            and used[queue_of(pod)] + needs_of(pod).gpu_milli <= self.nominal[queue_of(pod)]
            for pod in waiting
        )
        if queue not in self.nominal:
            # Outside of every queue priority alone counts, of work that is outside as well. Such work owns
            # nothing, so what it holds is lent by the queues.
            outside = (pod for pod in known if queue_of(pod) not in self.nominal)
            return any(priority_of(pod) > priority_of(victim) for pod in outside) or any(owed)
        if any(queue_of(pod) == queue and priority_of(pod) > priority_of(victim) for pod in waiting):
            return True
        # Other queues may take back what was borrowed, and nothing of what is within the own quota.
        return used[queue] > self.nominal[queue] and any(owed)


def waits(pod: JsonObject) -> bool:
    """Whether a pod has no node yet and is to have one."""
    return not node_of(pod) and not is_leaving(pod)


def was_told_to_end(history: History, written: Written) -> bool:
    """Whether this write is the one by which our scheduler has a placed pod end."""
    if written.user not in history.rules.scheduler_users or written.before is None:
        return False
    before = written.before
    going = written.value is None or is_leaving(written.value)
    return going and not is_leaving(before) and bool(node_of(before)) and not is_over(before)


def no_eviction_is_in_vain(history: History) -> Iterator[str]:
    """Words for each queue from which more was evicted than others gained.

    What was evicted of a queue is no more than what others got a node for since then, of other queues or of
    higher priority: the pods that waited, or pods with an earlier turn that came meanwhile.
    """
    teams = Teams(history)
    if not teams.nominal:
        return
    evicted: Counter[str] = Counter()
    priorities: dict[str, int] = {}
    gained: Counter[str] = Counter()
    for written in history.of(PODS):
        if was_told_to_end(history, written) and written.before is not None:
            victim = written.before
            queue, priority = queue_of(victim), priority_of(victim)
            evicted[queue] += needs_of(victim).gpu_milli
            # The lowest one, so that whatever went before any of the victims counts as a gain.
            priorities[queue] = min(priority, priorities.get(queue, priority))
        pod = written.value
        if pod is not None and node_of(pod) and (written.before is None or not node_of(written.before)):
            for queue, priority in priorities.items():
                if queue_of(pod) != queue or priority_of(pod) > priority:
                    gained[queue] += needs_of(pod).gpu_milli
    for queue, milli in evicted.items():
        if milli > gained[queue]:
            yield f"{milli} thousandths of queue {queue} were evicted, and others gained {gained[queue]}"


def owed_and_waiting(history: History) -> Iterator[str]:
    """Words for each pod or gang that waits for what others have borrowed, though its queue is owed it."""
    teams = Teams(history)
    for written in history.of(PODS):
        teams.follow(written)
    used = teams.used()
    over = [queue for queue, nominal in teams.nominal.items() if used[queue] > nominal]
    if not over:
        return
    by_work: dict[str, list[JsonObject]] = {}
    for pod in teams.waiting():
        gang = gang_of(pod)
        by_work.setdefault(gang[0] if gang else pod["metadata"]["name"], []).append(pod)
    for name, pods in by_work.items():
        queue = queue_of(pods[0])
        needed = sum(needs_of(pod).gpu_milli for pod in pods)
        gang = gang_of(pods[0])
        whole = gang is None or len(pods) >= gang[1]
        if whole and needed and queue in teams.nominal and used[queue] + needed <= teams.nominal[queue]:
            yield f"{name} of queue {queue} waits for {needed} thousandths that {', '.join(over)} borrowed"
