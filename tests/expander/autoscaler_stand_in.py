"""A stand-in for Cluster Autoscaler, in virtual time: small, and no more than what its choice depends on.

As the real one it looks every ten seconds, leaves out pods that fit nodes which are there or on their way,
offers for each group as many nodes as the other pods need and the group may have, and enlarges one. Nodes
come late, have no GPUs at first, or fail; a group in which a node failed is left alone for five minutes.
Gangs and quotas mean nothing to it. Pods ask for all GPUs of a node, so packing has one answer.

With ``Faults`` a zone is exhausted for a while, so that all launches of a group fail; a provider takes a node
back after a notice, so that its gang leaves whole and waits again; and the autoscaler is started anew, which
forgets which groups it left alone. Nodes that nothing needs for ten minutes are given back.
"""

import datetime as dt
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.waiting_reasons import is_postponed
from gpufleet.expander.answering import Answering
from gpufleet.expander.decisions import POSTPONED_FOR, Decision
from gpufleet.expander.judgement import Seen
from gpufleet.expander.protocol.question import OfferedPod, Option
from gpufleet.kube.codec.chosen_nodes import write_chosen_nodes
from gpufleet.kube.objects.node import Taint
from gpufleet.kube.objects.pod import NODES_CHOSEN, Pod, PodCondition
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS
from gpufleet.model.identifiers import PodUid
from gpufleet.whatif.course import Course
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.expander.offers import CATALOGUE, POOL, group_node

LOOK_EVERY_S = 10
LATE_MOST_S = 14 * 60
"""Below the fifteen minutes after which a node is given up."""

BACKOFF_S = 300
FAILS = 0.15
RESTARTS = 0.1
GPUS = 8
SMALL = "small"
"""A queue whose quota is the GPUs of one node, and less than its gang needs."""

NEVER = ("over", "lacks")
"""Gangs that quota, and members that do not come, keep from ever starting."""

SHOWN_S = 600
"""So long these are shown to the autoscaler, as by a scheduler that says no reason of its own."""


class Chosen(NamedTuple):
    """The options that are left of those that are offered, and what is written of pods."""

    options: Sequence[int]
    decisions: Sequence[tuple[Pod, Decision]] = ()


Choose = Callable[[Sequence[Option], Seen], Chosen]


class Group(msgspec.Struct):
    """A group of nodes, which may have at most so many."""

    name: str
    size_max: int
    size: int = 0
    left_alone_until_s: float = 0.0
    exhausted_until_s: float = 0.0


class Work(msgspec.Struct, frozen=True):
    """A pod: its gang, how many members that has, the group that it selects, and its queue."""

    name: str
    gang: str
    members: int
    group: str
    queue: str = ""


class Faults(NamedTuple):
    """What goes wrong in a story besides. Chances are for each moment at which the autoscaler acts."""

    random: Random
    exhausted: float = 0.01
    taken_back: float = 0.004
    restarts: float = 0.02
    most_taken_back: int = 2


NOTICES_S = (120, 30)
"""How long before a node goes its provider says so: AWS, and Google Cloud and Azure."""

SEEDS_APART = 10**6
"""Faults are drawn from other seeds, so that a story without them stays the same."""

FAULTS_S = 2 * 3600
"""So long things may go wrong before a story ends."""

EXHAUSTED_S = (300, 1800)
UNNEEDED_S = 600


class Coming(msgspec.Struct):
    """A node that was bought: when it joins, when its GPUs are counted, and whether it fails instead."""

    group: Group
    joins_at_s: float
    set_up_at_s: float
    fails: bool


class StandIn:
    """One story: groups, work that waits, and the autoscaler's choice."""

    def __init__(
        self,
        groups: Sequence[Group],
        work: Sequence[Work],
        random: Random,
        choose: Choose,
        faults: Faults | None = None,
    ) -> None:
        self.fleet = Fleet()
        self.fleet.node("system", gpus=0)
        if any(one.queue == SMALL for one in work):
            self.fleet.queue(SMALL, gpu=GPUS)
        self.groups = list(groups)
        self.waiting = {one.name: one for one in work}
        self.running: dict[str, str] = {}
        self.joined: dict[str, Coming] = {}
        self.coming: list[Coming] = []
        self.bought = 0
        self.failed = 0
        self.taken_back = 0
        self.given_back = 0
        self.broken_gangs = 0
        self._faults = faults
        self._goes_at_s: dict[str, float] = {}
        self._unneeded_since_s: dict[str, float] = {}
        self._work = {one.name: one for one in work}
        self._random = random
        self._choose = choose
        self._at_s = 0.0
        self._moved_at_s = 0.0
        self._names = 0
        for one in work:
            self._write(one)
        self.can_start_one = any(self._fits(gang) for gang in {one.gang for one in work})

    def _fits(self, gang: str) -> bool:
        """Whether the groups may have as many nodes as a gang has members for them."""
        wanted = [one.group for one in self.waiting.values() if one.gang == gang]
        return all(wanted.count(group.name) <= group.size_max for group in self.groups)

    def run(self, duration_s: float) -> None:
        """Let so much time pass, or less where nothing more can happen."""
        while self._at_s < duration_s:
            if self._faults is not None:
                self._go_wrong(self._faults)
            if self._nodes_come() | self._nodes_go():
                self._bind()
            self.broken_gangs += any(
                0 < self.started(gang) < len(members) for gang, members in self._gangs().items()
            )
            options = self._options()
            chosen = self._choose(options, self._seen()) if options else Chosen(())
            for pod, decision in chosen.decisions:
                self._decide(pod.metadata.name, decision)
            if chosen.options:
                self._buy(options[chosen.options[0]])
            elif self._is_at_rest():
                return
            self._at_s += LOOK_EVERY_S

    def _is_at_rest(self) -> bool:
        """Whether no node is on its way, no group is left alone, and what was postponed was offered again."""
        pending = any(one.set_up_at_s > self._at_s for one in self.joined.values())
        alone = any(group.left_alone_until_s > self._at_s for group in self.groups)
        if self._faults is not None and self._at_s < FAULTS_S:
            self._moved_at_s = self._at_s
        if self.coming or pending or alone or self._goes_at_s or self._unneeded_since_s:
            self._moved_at_s = self._at_s
        return self._at_s - self._moved_at_s > POSTPONED_FOR.total_seconds() + LOOK_EVERY_S

    @property
    def empty_nodes(self) -> int:
        """Nodes that were bought and hold nothing."""
        return len(self.joined) - len(set(self.running.values()))

    def started(self, gang: str) -> int:
        """How many members of a gang run."""
        return sum(name.startswith(f"{gang}-") for name in self.running)

    def _gangs(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self._work.values():
            found.setdefault(one.gang, []).append(one.name)
        return found

    def _go_wrong(self, faults: Faults) -> None:
        """A zone is exhausted, a node is to be taken back, or the autoscaler is started anew; or nothing."""
        if self._at_s == SHOWN_S:
            for name in [one.name for one in self.waiting.values() if one.gang in NEVER]:
                self._say(name, PodCondition("PodScheduled", "False", "WaitingForQuota"))
        chance = faults.random.random
        for group in self.groups:
            if chance() < faults.exhausted:
                group.exhausted_until_s = self._at_s + faults.random.uniform(*EXHAUSTED_S)
        if chance() < faults.restarts:
            for group in self.groups:
                group.left_alone_until_s = 0.0
        used = sorted(set(self.running.values()) - self._goes_at_s.keys())
        if used and self.taken_back < faults.most_taken_back and chance() < faults.taken_back:
            self._take_back(faults.random.choice(used), faults.random.choice(NOTICES_S))

    def _take_back(self, node: str, notice_s: float) -> None:
        """From the notice on the node takes nothing. Its gang leaves whole, and waits to start again."""
        self.taken_back += 1
        self._goes_at_s[node] = self._at_s + notice_s
        nodes = self.fleet.picture.objects[NODES]
        known = nodes["", node]
        taint = Taint("aws-node-termination-handler/spot-itn", "NoSchedule")
        nodes["", node] = replace(known, spec=replace(known.spec, taints=(taint,)))
        gangs = {self._work[name].gang for name, place in self.running.items() if place == node}
        for name in [name for name in self.running if self._work[name].gang in gangs]:
            del self.running[name]
            self.fleet.picture.objects[PODS].pop(("default", name))
            # A controller makes another pod in its place.
            again = replace(self._work.pop(name), name=f"{name}-again{self.taken_back}")
            self._work[again.name] = self.waiting[again.name] = again
            self._write(again)

    def _nodes_go(self) -> bool:
        """Nodes whose notice is over, and those that nothing needed for long. Whether some went."""
        gone = [name for name, at_s in self._goes_at_s.items() if at_s <= self._at_s]
        for name in gone:
            del self._goes_at_s[name]
        if self._faults is not None:
            unneeded = self._unneeded()
            self._unneeded_since_s = {name: self._unneeded_since_s.get(name, self._at_s) for name in unneeded}
            old = [name for name, at_s in self._unneeded_since_s.items() if self._at_s - at_s >= UNNEEDED_S]
            self.given_back += len(old)
            gone += old
        for name in gone:
            self.joined.pop(name).group.size -= 1
            self.fleet.picture.objects[NODES].pop(("", name))
            self.fleet.picture.objects[NODE_DEVICES].pop(("", name), None)
        return bool(gone)

    def _unneeded(self) -> list[str]:
        """Empty nodes beyond those that work which waits would fit: the autoscaler counts these as used."""
        used = set(self.running.values())
        found: list[str] = []
        for group in self.groups:
            empty = [
                name
                for name, one in self.joined.items()
                if one.group is group
                and one.set_up_at_s <= self._at_s
                and name not in used
                and name not in self._goes_at_s
            ]
            waits = sum(one.group == group.name for one in self.waiting.values())
            found += empty[waits:]
        return found

    def _decide(self, name: str, decision: Decision) -> None:
        """What the expander writes of a pod."""
        self._say(name, PodCondition(NODES_CHOSEN, *write_chosen_nodes(decision)))

    def _say(self, name: str, condition: PodCondition) -> None:
        pods = self.fleet.picture.objects[PODS]
        pod = pods["default", name]
        others = tuple(one for one in pod.status.conditions if one.type != condition.type)
        pods["default", name] = replace(pod, status=replace(pod.status, conditions=(*others, condition)))

    def _is_postponed(self, name: str) -> bool:
        """Whether the scheduler does not show the autoscaler that the pod needs a node."""
        return is_postponed(
            self.fleet.picture.objects[PODS]["default", name], engine_time_us(self._seen().at)
        )

    def _seen(self) -> Seen:
        return Seen(self.fleet.picture, Settings(identity="test"), AT + dt.timedelta(seconds=self._at_s))

    def _write(self, one: Work, node: str = "") -> None:
        self.fleet.pod(
            one.name,
            gpus=GPUS,
            job=one.gang,
            gang=one.members,
            queue=one.queue,
            node=node,
            nodeSelector={POOL: one.group},
        )

    def _nodes_come(self) -> bool:
        """Nodes that join, are set up, or fail. Whether some changed."""
        is_changed = False
        for one in list(self.coming):
            if one.fails and one.joins_at_s <= self._at_s:
                one.group.size -= 1
                one.group.left_alone_until_s = self._at_s + BACKOFF_S
                self.failed += 1
                self.coming.remove(one)
            elif not one.fails and one.joins_at_s <= self._at_s:
                self._names += 1
                name = f"{one.group.name}-{self._names}"
                self.joined[name] = one
                self.coming.remove(one)
                self._write_node(name, 0)
        for name, one in self.joined.items():
            node = self.fleet.picture.find(NODES, name)
            assert node is not None
            if one.set_up_at_s <= self._at_s and "nvidia.com/gpu" not in node.status.allocatable:
                self._write_node(name, GPUS)
                is_changed = True
        return is_changed

    def _write_node(self, name: str, gpus: int) -> None:
        self.fleet.node(name, gpus=gpus, labels={POOL: name.rpartition("-")[0]})
        nodes = self.fleet.picture.objects[NODES]
        node = nodes["", name]
        if not gpus:
            del node.status.allocatable["nvidia.com/gpu"]
        created = (AT + dt.timedelta(seconds=self.joined[name].joins_at_s)).isoformat()
        nodes["", name] = replace(node, metadata=replace(node.metadata, creation_timestamp=created))

    def _bind(self) -> None:
        """What the scheduler does: its engine says which pods start, and gangs start whole."""
        seen = self._seen()
        facts = Facts(seen.picture.copied(), seen.settings, Moment(seen.at))
        course = Course(facts, engine_time_us(seen.at), 0)
        for name in list(self.waiting):
            running = course.start_of(PodUid(f"uid-of-{name}"))
            if running is not None:
                self.running[name] = str(running.node)
                self._write(self.waiting.pop(name), str(running.node))

    def _options(self) -> list[Option]:
        used = set(self.running.values())
        options = []
        for group in self.groups:
            free = sum(
                one.group is group and name not in used and name not in self._goes_at_s
                for name, one in self.joined.items()
            )
            on_the_way = sum(one.group is group for one in self.coming)
            shown = [
                one
                for one in self.waiting.values()
                if not self._is_postponed(one.name) and (one.gang not in NEVER or self._at_s < SHOWN_S)
            ]
            needy = [one for one in shown if one.group == group.name][free + on_the_way :]
            count = min(len(needy), group.size_max - group.size)
            if count > 0 and group.left_alone_until_s <= self._at_s:
                pods = tuple(OfferedPod(PodUid(f"uid-of-{one.name}"), "gpufleet") for one in needy[:count])
                options.append(Option(group.name, count, pods, group_node(group.name, gpus=GPUS)))
        return options

    def _buy(self, option: Option) -> None:
        (group,) = (one for one in self.groups if one.name == option.group)
        group.size += option.node_count
        for _ in range(option.node_count):
            joins_at_s = self._at_s + self._random.uniform(30, LATE_MOST_S / 2)
            set_up_at_s = joins_at_s + self._random.uniform(0, LATE_MOST_S / 2)
            fails = self._random.random() < FAILS or group.exhausted_until_s > self._at_s
            self.coming.append(Coming(group, joins_at_s, set_up_at_s, fails))
            self.bought += 1


def with_the_expander(restarts: Random | None = None) -> Choose:
    """The choice of ``gpufleet expander``, which forgets what it chose before about every tenth question."""
    answering = Answering(CATALOGUE)

    def choose(options: Sequence[Option], seen: Seen) -> Chosen:
        nonlocal answering
        if restarts is not None and restarts.random() < RESTARTS:
            answering = Answering(CATALOGUE)
        answered = answering.answer(seen, options, time.monotonic() + 3600)
        answering.sent(answered)
        return Chosen(answered.choice.options, answered.decisions)

    return choose


def alone(random: Random) -> Choose:
    """The autoscaler's own choice without another rule: any option."""
    return lambda options, _: Chosen([random.randrange(len(options))])


def story(seed: int, choose: Choose, gangs: int = 1, *, faults: bool = False) -> StandIn:
    """A fleet without nodes: two groups of some size, and gangs, of which some fit and some do not.

    The leader of about every third gang selects the second group.
    """
    goes_wrong = Faults(Random(seed + SEEDS_APART)) if faults else None
    random = Random(seed)
    groups = [Group("a", random.randint(1, 6)), Group("b", random.randint(0, 2))]
    work = []
    for number in range(gangs):
        members = random.randint(1, 5)
        has_leader_elsewhere = random.randrange(3) == 0
        for member in range(members):
            group = "b" if has_leader_elsewhere and member == 0 else "a"
            work.append(Work(f"gang{number}-{member}", f"gang{number}", members, group))
    if faults:
        work += [Work(f"over-{member}", "over", 2, "a", SMALL) for member in range(2)]
        work += [Work(f"lacks-{member}", "lacks", 3, "a") for member in range(2)]
    return StandIn(groups, work, random, choose, goes_wrong)
