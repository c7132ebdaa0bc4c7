"""Whether ``explain`` and the live scheduler say the same of every pod that waits.

At moments that a seed chooses, in the middle of faults too, and half of them right after a write, a copy of
the whole process is made (``forked_copy``), and in it both sides are asked about the very objects that the
API server holds. So the run itself goes on as if nothing had been asked.

- *explain*: all objects are listed as by a user with full rights, and answered from as by ``gpufleet
  explain``. It knows nothing but these. Its clock is as the leader's.
- *the live scheduler*: the leader's mirrors are given the same objects, as if its watches had just
  delivered them, and it takes one round: its next decision. It is then asked through the same functions,
  over its own trackers and its own engine.

What the leader has decided and the server does not hold yet is shown as if it had arrived
(``writes_under_way``): Bindings, statuses of queues and places kept to both sides, other conditions to
*explain*. Some of these conditions follow from the round itself: they rest on what the API does not tell
later, such as that a kubelet has just turned a pod away.

Compared is every pod of ours that waits in the API: it has no node, has not ended and is not being deleted.
Both must say the same *state* (it waits, is held, is gated), and the same *cause*: of a pod that the
scheduler decides to bind now "about-to-run"; of one for which a place is kept "nominated"; of any other its
first cause, and after how many nodes. Words may differ: numbers of GPUs, names of nodes and
victims among equals.

Passed over, and counted, are moments without a leader that has listed the cluster: there is no next
decision. Then ``explain`` says "no-leader" by itself.
"""

from collections.abc import Iterator
from random import Random

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.scheduler_lease import leading_by
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.mirrors import WATCHED, Watched
from gpufleet.cluster.watching.picture import Picture
from gpufleet.explain.answer import Asked
from gpufleet.explain.answering import Answering
from gpufleet.kube import resources
from gpufleet.kube.clock import Clock
from gpufleet.kube.objects.pod import Pod
from gpufleet.scheduler.rounds import Rounds
from gpufleet.simulation import history
from gpufleet.simulation.admission_policies import LEASE_NAME, LEASE_NAMESPACE
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.forked_copy import in_a_copy
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.live_answer import LeadersTime, let_decide, live_answering
from gpufleet.simulation.live_scheduler import LiveScheduler
from gpufleet.simulation.world import World
from gpufleet.simulation.writes_under_way import (
    Listed,
    with_bindings,
    with_conditions,
    with_nominations,
    with_queue_statuses,
)

EVERY_S = 20.0
EVERY_WRITES = 20.0
"""One comparison, on average, in so much time and one in so many writes: a run takes about three times as
long with them."""


LOADS_UNTIL = 100
"""After so many answers nearly all kernels of the engine are loaded; a copy loads the others by itself."""


class Said(msgspec.Struct, frozen=True):
    """What one side says of a pod. ``nodes`` counts the nodes that it looked at for the cause."""

    state: str
    cause: str
    nodes: int
    why: str

    @property
    def verdict(self) -> tuple[str, str, int]:
        """What must be equal."""
        return self.state, self.cause, self.nodes

    def __str__(self) -> str:
        return f"{self.state}, {self.cause} ({self.why})"


class Pair(msgspec.Struct, frozen=True):
    """What both sides say of a pod."""

    pod: str
    live: Said
    explained: Said

    @property
    def agrees(self) -> bool:
        """Whether both say the same, in other words perhaps."""
        return self.live.verdict == self.explained.verdict


class Moment(msgspec.Struct, frozen=True):
    """All that was compared at a moment; ``passed_over`` says why nothing was."""

    at_s: float
    pairs: tuple[Pair, ...] = ()
    passed_over: str = ""


_PAIRS = msgspec.msgpack.Decoder(tuple[Pair, ...])


class Agreement:
    """Looks on at runs of a live scheduler, and compares."""

    def __init__(
        self, scheduler: LiveScheduler, every_s: float = EVERY_S, every_writes: float = EVERY_WRITES
    ) -> None:
        self.scheduler = scheduler
        self.every_s = every_s
        self.every_writes = every_writes
        self.moments: list[Moment] = []
        self.compared = 0
        self._random = Random(0)
        self._next_s = 0.0
        self._next_revision = 0

    def watch(self, world: World) -> None:
        """Look on from the beginning of a run."""
        self.moments = []
        self._random = Random(f"{world.seed}/agreement")
        self._next_s = self._random.expovariate(1 / self.every_s)
        self._next_revision = world.server.store.revision
        world.loop.before_jump = lambda to_s: self._look(world, to_s)

    def _look(self, world: World, to_s: float) -> None:
        """Everything of this instant was done, and nothing happens before ``to_s``."""
        if world.over:
            return
        revision = world.server.store.revision
        if revision >= self._next_revision:
            self._next_revision = revision + 1 + int(self._random.expovariate(1 / self.every_writes))
            self._compare(world, world.loop.time())
        while self._next_s < to_s:
            # A moment that was due before now is taken now, as virtual time cannot go back.
            at_s = max(self._next_s, world.loop.time())
            self._compare(world, at_s)
            self._next_s = at_s + self._random.expovariate(1 / self.every_s)

    def _compare(self, world: World, at_s: float) -> None:
        leader = world.leader()
        rounds = None if leader is None else self.scheduler.rounds_of(leader.identity)
        if leader is None or not leader.process.alive:
            self.moments.append(Moment(at_s, passed_over="no scheduler leads"))
        elif rounds is None:
            self.moments.append(Moment(at_s, passed_over="the leader has not listed everything yet"))
        else:
            # A copy keeps nothing that it loads, so what is loaded here is loaded once and not in each copy.
            if self.compared < LOADS_UNTIL:
                load_kernels(world.server, self.scheduler.settings)
            pairs = in_a_copy(lambda: _ask_both(world, rounds, self.scheduler.settings, at_s))
            self.moments.append(Moment(at_s, _PAIRS.decode(pairs)))
            self.compared += len(self.moments[-1].pairs)

    def broken(self) -> Iterator[Broken]:
        """All pods of which the two sides said different things in the last run."""
        for moment in self.moments:
            for pair in moment.pairs:
                if not pair.agrees:
                    words = f"{pair.pod}: the scheduler says {pair.live}, explain says {pair.explained}"
                    yield Broken("explain", moment.at_s, 0, words)

    def summary(self) -> str:
        """How much was compared, in all runs."""
        return f"explain and the scheduler were compared on {self.compared} pods that waited"


def _ask_both(world: World, rounds: Rounds, settings: Settings, at_s: float) -> bytes:
    world.loop.stand_at(at_s)
    return msgspec.msgpack.encode(tuple(ask_both(world.server, rounds, settings)))


def ask_both(server: ApiServer, rounds: Rounds, settings: Settings) -> Iterator[Pair]:
    """What both sides say of all pods that wait now. It changes the scheduler."""
    listed = {watched: raws_of(server, watched) for watched in WATCHED}
    # Newer than all that the leader's mirrors have seen, so that they take the lists for news.
    position = str(server.store.revision + 1)
    shown = with_queue_statuses(with_bindings(listed, rounds, position), rounds)
    shown = with_nominations(shown, rounds)
    let_decide(rounds, shown, position)
    clock = LeadersTime(server.clock, rounds)
    explained = explain(server, with_conditions(shown, rounds), settings, clock)
    fresh, leading = explained.facts, explained.leading
    live = live_answering(rounds, fresh, leading)
    for pod in fresh.picture.all(resources.PODS):
        if waits(pod, settings):
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            yield Pair(name, ask(live, pod), ask(explained, pod))


def explain(server: ApiServer, listed: Listed, settings: Settings, clock: Clock) -> Answering:
    """A fresh explain of what was listed, on a machine with this clock."""
    picture = Picture()
    for watched, raws in listed.items():
        picture.read(watched, raws)
    lease = server.store.get(history.LEASES, (LEASE_NAMESPACE, LEASE_NAME))
    raw_lease = None if lease is None else msgspec.json.encode(lease)
    leading = leading_by(raw_lease, settings, server.clock.now())
    return Answering(Facts(picture, settings, clock), leading)


def load_kernels(server: ApiServer, settings: Settings) -> None:
    """Ask a fresh explain of all pods that wait, so that no copy has to load what it needs of the engine."""
    listed = {watched: raws_of(server, watched) for watched in WATCHED}
    answering = explain(server, listed, settings, server.clock)
    for pod in answering.facts.picture.all(resources.PODS):
        if waits(pod, settings):
            ask(answering, pod)


def raws_of(server: ApiServer, watched: Watched) -> list[msgspec.Raw]:
    """All objects of a kind in the order of a list; none of a kind that is not served."""
    kind = watched.kind
    if (kind.group, kind.version, kind.plural) not in server.kinds:
        return []
    objects = server.store.all((kind.group, kind.plural))
    return [msgspec.Raw(msgspec.json.encode(objects[name])) for name in sorted(objects)]


def waits(pod: Pod, settings: Settings) -> bool:
    """Whether a pod waits for a node of ours, as far as the API tells."""
    ours = pod.spec.scheduler_name == settings.scheduler_name
    return ours and not (pod.terminal or pod.spec.node_name or pod.metadata.deletion_timestamp)


def ask(answering: Answering, pod: Pod) -> Said:
    """What a side says of a pod."""
    answer = answering.about_pod(pod, Asked("pod", pod.metadata.namespace, pod.metadata.name))
    return Said(answer.state.value, answer.cause, answer.nodes, answer.why)
