"""The engine and the reference side by side: a story is told to the engine, and each decision is judged.

The engine decides; the picture follows what it says. So a choice among equals, such as a node, is no
disagreement, and each decision is judged by the picture before it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Nominated, NominationWithdrawn
from gpufleet.model.device import Serves
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName, TopologyLevelName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape
from tests.engine.pod_life import PodLives
from tests.engine.reference.judgement import Disagreement, Judge, Nomination, Start
from tests.engine.reference.picture import Job, Machine, Picture, Run
from tests.engine.reference.story import Arrival, End, EndAsked, Happening, Plan, StrangersLeave

STEPS_MAX = 60
"""Work that still evicts other work after so many steps without news goes round in a circle."""
QUIET_STEPS = 3
PAUSE_US = 60 * SECOND_US
"""How long nothing happens before a story goes on: longer than the engine waits before it looks again."""


class SideBySide:
    """One story. ``found`` are the disagreements."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.told = Story("best-fit")
        self.told.queues(*plan.queues)
        self.told.levels("rack")
        self.told.nodes(*map(engine_node, plan.nodes))
        queues = {str(queue.name): queue for queue in plan.queues}
        self.picture = Picture(0, queues, plan.nodes, {})
        self.judge = Judge(self.picture)
        self.lives = PodLives(self.told.engine)
        self.base: dict[str, tuple[str, int]] = {}
        self.made = 0
        self.bound: dict[str, tuple[str, ...]] = {}
        self.confirm: list[str] = []
        self.steps_left: dict[str, int] = {}
        self.returning: set[str] = set()
        self.evictions = 0
        self.decisions = Counter[str]()

    @property
    def found(self) -> list[Disagreement]:
        """What the two do not agree in."""
        return self.judge.found

    def run(self) -> "SideBySide":
        """The whole story."""
        for number, happening in enumerate(self.plan.happenings):
            self.judge.moment = number
            events = list(self.events_of(happening))
            if happening.steps and number + 1 < len(self.plan.happenings):
                self.steps(events, happening.steps)
                continue
            if not self.settle(events):
                self.judge.note("circle", "evictions do not come to rest")
                break
            self.judge.rest(self.picture)
        return self

    def steps(self, events: list[event.Event], count: int) -> None:
        """So many steps, of which the first has these events."""
        for number in range(count):
            self.step([] if number else events)

    def settle(self, events: list[event.Event]) -> bool:
        """A step with these events, and further ones until nothing happens; False if that has no end."""
        quiet = 0
        for _ in range(STEPS_MAX * max(self.plan.leaves_after)):
            quiet = 0 if self.step(events) or not self.picture.is_clean else quiet + 1
            events = []
            if quiet == QUIET_STEPS:
                self.now(self.picture.now_us + PAUSE_US)
                if not self.step([]):
                    return True
        return False

    def now(self, at_us: int) -> None:
        """The time is another."""
        self.picture = msgspec.structs.replace(self.picture, now_us=at_us)

    def step(self, events: list[event.Event]) -> bool:
        """A second later; evicted pods have ended. True if something was decided."""
        self.now(self.picture.now_us + SECOND_US)
        self.told.at_us = self.picture.now_us
        facts = [*self.confirmations(), *self.ends_of(self.leave()), *events]
        self.picture = msgspec.structs.replace(self.picture, placed_now=frozenset())
        self.judge.begin_step()
        said = self.told.happen(*facts)
        self.lives.follow(facts, said)
        for decision in decisions(said, self.picture):
            self.decisions[type(decision).__name__] += 1
            self.judge.decided(self.picture, decision)
            self.apply(decision)
        self.withdraw(said)
        self.bound |= {one.uid: one.devices for one in said if isinstance(one, Bind)}
        self.confirm = [one.uid for one in said if isinstance(one, Bind)]
        for uid in [one.uid for one in said if isinstance(one, Evict)]:
            times = self.plan.leaves_after
            self.steps_left[uid] = times[self.evictions % len(times)]
            self.returning.add(uid)
            self.evictions += 1
        return any(isinstance(one, Bind | Evict | Nominated) for one in said)

    def leave(self) -> list[str]:
        """A step goes by for the pods that leave; those that are gone with it."""
        self.steps_left = {uid: left - 1 for uid, left in self.steps_left.items()}
        gone = [uid for uid, left in self.steps_left.items() if left <= 0]
        self.steps_left = {uid: left for uid, left in self.steps_left.items() if left > 0}
        return gone

    def told_to_end(self, name: str, after: int) -> Iterator[event.Event]:
        """The pods of a job that run leave, though the engine evicts none of them."""
        picture = self.picture
        named = [uid for uid in picture.runs if self.base[self.job_name(uid)][0] == name]
        leaving = [uid for uid in named if uid not in picture.leaving]
        self.picture = msgspec.structs.replace(picture, leaving=picture.leaving | set(leaving))
        self.steps_left |= dict.fromkeys(leaving, after)
        for uid in leaving:
            yield event.PodAdded(msgspec.structs.replace(self.pod_of(uid), leaving=True))

    def confirmations(self) -> Iterator[event.Event]:
        """The pods that were bound run."""
        for uid in self.confirm:
            run = self.picture.runs.get(uid)
            if run is not None and uid not in self.picture.leaving:
                ids = tuple(DeviceId(one) for one in self.bound[uid])
                yield event.PodBound(self.pod_of(uid), NodeName(run.node), ids, run.since_us)

    def pod_of(self, uid: str) -> Pod:
        """A pod as the engine hears of it."""
        return engine_pod(self.picture.job_of(uid), uid)

    def events_of(self, happening: Happening) -> Iterator[event.Event]:
        """What happens, as the engine hears of it; the picture follows."""
        match happening:
            case Arrival(job, count):
                yield from self.arrive(job, job.name, count)
            case End(name):
                named = [pod for pod in self.picture.job_by_pod if self.base[self.job_name(pod)][0] == name]
                yield from self.gone(named, by_itself=True)
            case EndAsked(name, after):
                yield from self.told_to_end(name, after)
            case StrangersLeave(name):
                free = {one.name: msgspec.structs.replace(one, held=0) for one in self.plan.nodes}
                nodes = tuple(free[name] if one.name == name else one for one in self.picture.nodes)
                self.picture = msgspec.structs.replace(self.picture, nodes=nodes)
                if name in free:
                    yield event.NodeSet(engine_node(free[name]))

    def job_name(self, uid: str) -> str:
        """The job of a pod."""
        return self.picture.job_by_pod[uid]

    def arrive(self, job: Job, base: str, count: int) -> Iterator[event.Event]:
        """A job comes, or pods of a gang that is there."""
        self.made += 1
        jobs = self.picture.jobs
        if job.name not in jobs:
            job = msgspec.structs.replace(job, created_us=self.picture.now_us + SECOND_US, order=self.made)
            jobs = jobs | {job.name: job}
            self.base[job.name] = (base, count)
            if job.is_gang:
                yield event.GangSet(engine_gang(job))
        job = jobs[job.name]
        pods = [f"{job.name}-{self.made}-{number}" if job.is_gang else job.name for number in range(count)]
        by_pod = self.picture.job_by_pod | dict.fromkeys(pods, job.name)
        self.picture = msgspec.structs.replace(self.picture, jobs=jobs, job_by_pod=by_pod)
        for one in pods:
            yield event.PodAdded(engine_pod(job, one))

    def ends_of(self, evicted: list[str]) -> list[event.Event]:
        """Evicted pods are gone, and may be made anew."""
        here = [uid for uid in evicted if uid in self.picture.job_by_pod]
        returning = [uid for uid in here if uid in self.returning]
        anew = [(self.picture.job_of(uid), self.base[self.job_name(uid)][0]) for uid in returning]
        events = list(self.gone(here, by_itself=False))
        if not self.plan.returns:
            return events
        self.now(self.picture.now_us - SECOND_US)
        for job, base in anew:
            again = job
            if not job.is_gang:
                again = msgspec.structs.replace(job, name=f"{base}+{self.made}")
            events += self.arrive(again, base, 1)
        self.now(self.picture.now_us + SECOND_US)
        return events

    def gone(self, uids: Iterable[str], *, by_itself: bool) -> Iterator[event.Event]:
        """Pods are gone. Who ran and ended by itself renews the claims of its queue."""
        for uid in uids:
            picture = self.picture
            immune = {one: held for one, held in picture.immune_to.items() if one != uid}
            if by_itself and uid in picture.runs and uid not in picture.leaving:
                queue = picture.job_of(uid).queue
                immune = {one: held - {queue} for one, held in immune.items()}
            self.picture = msgspec.structs.replace(
                picture,
                job_by_pod={one: job for one, job in picture.job_by_pod.items() if one != uid},
                runs={one: run for one, run in picture.runs.items() if one != uid},
                promised={one: place for one, place in picture.promised.items() if one != uid},
                leaving=picture.leaving - {uid},
                immune_to=immune,
            )
            yield event.PodRemoved(PodUid(uid))

    def apply(self, decision: "Start | Nomination") -> None:
        """The picture after a decision."""
        picture = self.picture
        if isinstance(decision, Start):
            runs = {uid: Run(place, picture.now_us) for uid, place in decision.places.items()}
            promised = {one: place for one, place in picture.promised.items() if one not in runs}
            self.picture = msgspec.structs.replace(
                picture,
                runs=picture.runs | runs,
                promised=promised,
                placed_now=picture.placed_now | set(runs),
            )
            return
        lost = {picture.job_of(uid).queue for uid in decision.victims}
        lost |= {queue for uid in decision.victims for queue in picture.immune_to.get(uid, frozenset())}
        held = frozenset(lost) - {decision.job.queue}
        immune = picture.immune_to | {
            uid: held | picture.immune_to.get(uid, frozenset()) for uid in decision.places
        }
        self.picture = msgspec.structs.replace(
            picture,
            leaving=picture.leaving | set(decision.victims),
            promised=picture.promised | decision.places,
            immune_to=immune,
        )

    def withdraw(self, said: Iterable[AnyInstruction]) -> None:
        """Places that are not kept any more."""
        lost = {one.uid for one in said if isinstance(one, NominationWithdrawn)}
        promised = {one: place for one, place in self.picture.promised.items() if one not in lost}
        self.picture = msgspec.structs.replace(self.picture, promised=promised)


def engine_node(machine: Machine) -> Node:
    """A node as the engine hears of it; the GPUs that strangers hold are given to no pod."""
    labels = {"rack": machine.rack} if machine.rack else {}
    found = node(machine.name, machine.gpus, model=machine.model, cpu_milli=1_000_000, labels=labels)
    kept = machine.gpus - machine.held
    devices = (
        one if number < kept else msgspec.structs.replace(one, serves=Serves.NOTHING)
        for number, one in enumerate(found.devices)
    )
    return msgspec.structs.replace(found, devices=tuple(devices))


def engine_pod(job: Job, uid: str) -> Pod:
    """A pod as the engine hears of it."""
    return pod(
        uid,
        shape(job.gpus, models=(job.model,) if job.model else (), cpu_milli=1),
        queue=job.queue,
        priority=job.priority,
        gang=job.name if job.is_gang else None,
        created_at_us=job.created_us,
        preemptible=job.preemptible,
    )


def engine_gang(job: Job) -> Gang:
    """A gang as the engine hears of it."""
    return Gang(
        GangName(job.name),
        job.minimum,
        QueueName(job.queue),
        job.priority,
        TopologyLevelName("rack") if job.in_rack else None,
        created_at_us=job.created_us,
    )


def decisions(said: Iterable[AnyInstruction], picture: Picture) -> Iterator[Start | Nomination]:
    """What the engine decided, one job after the other: it says of each first who goes, then its places."""
    victims: list[str] = []
    kept: Start | Nomination | None = None
    for one in said:
        if isinstance(one, Evict):
            if kept is not None:
                yield kept
            kept = None
            victims.append(one.uid)
        if not isinstance(one, Bind | Nominated):
            continue
        job = picture.job_of(one.uid)
        made = Start if isinstance(one, Bind) else Nomination
        same = isinstance(kept, made) and kept.job.name == job.name
        if kept is not None and not same:
            yield kept
            kept = None
        if isinstance(one, Bind):
            places = kept.places if kept is not None else {}
            kept = Start(job, {**places, one.uid: one.node})
        else:
            before = kept if isinstance(kept, Nomination) else Nomination(job, {}, tuple(victims))
            kept = Nomination(job, {**before.places, one.uid: one.node}, before.victims)
            victims = []
    if kept is not None:
        yield kept
