"""Counts, choices and reasons follow the places of pods, there and back, as plain rules say."""

import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.place.relations.neighbours import Neighbours
from gpufleet.model.host_port import HostPort
from gpufleet.model.identifiers import NodeName
from gpufleet.model.pod_affinity import PodTerm
from gpufleet.model.shape import Shape
from gpufleet.model.topology_spread import SpreadConstraint
from gpufleet.model.volumes import Attachment, UnboundClaim
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, pod, shape
from tests.engine.plain_neighbours import Placed, PlainNeighbours
from tests.engine.relation_builder import (
    HOST,
    ZONE,
    app,
    claim,
    in_zone,
    on_node,
    related,
    spread,
    term,
    volume,
)

APPS = ("a", "b", "c")
SPACES = ("", "other")
KEYS = (ZONE, HOST, "rack")


def any_term(chance: random.Random) -> PodTerm:
    """A term over few apps, keys and namespaces."""
    labelled = chance.choice((None, None, {"team": "x"}, {}))
    spaces = chance.choice(((""), ("other",), SPACES)) if labelled is None else ()
    return term(
        *chance.sample(APPS, chance.choice((0, 1, 1, 2))),
        key=chance.choice(KEYS),
        namespaces=tuple(spaces) or ("",),
        namespace_labels=labelled,
    )


def any_constraint(chance: random.Random) -> SpreadConstraint:
    """A constraint over few apps and keys."""
    return spread(
        *chance.sample(APPS, chance.choice((0, 1, 1, 2))),
        max_skew=chance.choice((1, 1, 2)),
        key=chance.choice(KEYS),
        required=chance.random() < 0.8,
        min_domains=chance.choice((1, 1, 3)),
        honor_affinity=chance.random() < 0.7,
        honor_taints=chance.random() < 0.3,
    )


def any_claim(chance: random.Random, name: str) -> UnboundClaim:
    """A claim with some volumes, and perhaps a provisioner."""
    reaches = (in_zone("x"), in_zone("x", "y"), on_node("n1"))
    volumes = [
        volume(name, chance.choice(reaches))
        for name in chance.sample(("p1", "p2", "p3"), chance.randint(0, 3))
    ]
    return claim(name, *volumes, provision=chance.choice((None, (), (in_zone("y"),))))


def some(chance: random.Random, most: int) -> range:
    """As many as chance will have it, mostly none."""
    return range(chance.choice((*[0] * 3, *range(1, most + 1))))


def any_shape(chance: random.Random, namespace: str, own: str, claims: list[UnboundClaim]) -> Shape:
    """A shape that asks for anything of its neighbours."""
    return shape(
        chance.choice((0, 1)),
        affinity=chance.choice((shape().affinity, in_zone("x", "y"))),
        relations=related(
            own,
            namespace=namespace,
            ports=tuple(HostPort(80 + chance.randint(0, 1)) for _ in some(chance, 1)),
            affinity=tuple(any_term(chance) for _ in some(chance, 2)),
            anti_affinity=tuple(any_term(chance) for _ in some(chance, 2)),
            spread=tuple(any_constraint(chance) for _ in some(chance, 2)),
            attachments=tuple(
                Attachment(chance.choice(("disk", "net")), f"v{number}") for number in some(chance, 3)
            ),
            exclusive=tuple(f"e{chance.randint(0, 2)}" for _ in some(chance, 1)),
            unbound=tuple(chance.sample(claims, len(some(chance, 3)))),
        ),
    )


class Town:
    """A random fleet whose pods ask much of each other."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.story = Story(seed=seed)
        self.state = self.story.engine.state
        self.claims = [any_claim(self.chance, f"c{number}") for number in range(5)]
        for number in range(5):
            self._node(f"n{number}")
        for number in range(40):
            self._something(number)

    def _node(self, name: str) -> None:
        chance = self.chance
        labels = {key: chance.choice("xyz") for key in (ZONE, "rack") if chance.random() < 0.8}
        limits = chance.choice(((), (("disk", 1),), (("disk", 2), ("net", 1))))
        self.story.nodes(node(name, 3, labels=labels | {HOST: name}, volume_limits=limits))

    def _something(self, number: int) -> None:
        chance = self.chance
        namespace, own = chance.choice(SPACES), chance.choice(APPS)
        one = pod(
            f"p{number}", any_shape(chance, namespace, own, self.claims), namespace=namespace, labels=app(own)
        )
        match chance.randrange(10):
            case 0 | 1:
                self.story.run_on(one, f"n{chance.randrange(6)}")
            case 2:
                known = list(self.state.pods.row_by_uid)
                self.story.depart(*chance.sample(known, min(2, len(known))))
            case 3:
                self._node(f"n{chance.randrange(5)}")
            case 4:
                self.story.namespace(chance.choice(SPACES), team=chance.choice("xy"))
            case 5 if chance.random() < 0.5:
                self.story.lose(f"n{chance.randrange(5)}")
            case _:
                self.story.arrive(one)

    def plain(self) -> PlainNeighbours:
        """The same, from who sits where now, be it in a trial."""
        state = self.state
        placed: list[Placed] = []
        kept: list[Placed] = []
        lost = {uid: name for name, uids in state.pods.on_lost_node.items() for uid in uids}
        for uid, row in state.pods.row_by_uid.items():
            at = state.pods.node_row(row)
            name = lost.get(uid) if at is None else state.fleet.node_at(at).name
            if name is not None:
                volumes = state.neighbours.volumes_of(row)
                there = state.pods.state(row) is not PodState.NOMINATED
                (placed if there else kept).append(Placed(state.pods.pod_at(row), NodeName(name), volumes))
        nodes = {one.name: one for one in state.fleet.nodes if one is not None}
        return PlainNeighbours(nodes, placed, state.neighbours.equivalence_classes.namespaces, kept)

    def check(self) -> None:
        """What is held against each pod without a place is what the plain rules say."""
        plain = self.plain()
        placed = {one.pod.uid for one in plain.placed}
        for uid, row in self.state.pods.row_by_uid.items():
            if uid not in placed:
                found = self.state.neighbours.reasons(row)
                for name, node_row in self.state.fleet.row_by_name.items():
                    expected = plain.reasons(self.state.pods.pod_at(row), plain.nodes[name])
                    assert int(found[node_row]) == expected, (uid, name)

    def in_state(self, *states: PodState) -> list[str]:
        """Pods that stand so."""
        pods = self.state.pods
        return [uid for uid, row in pods.row_by_uid.items() if pods.state(row) in states]


def counts(neighbours: Neighbours) -> str:
    """Everything that is counted, as text, in an order of its own."""
    classes = neighbours.equivalence_classes
    selections = sorted(
        (
            str(one.criteria),
            sorted(one.pods_by_node.items()),
            sorted(one.kept_by_node.items()),
            sorted((key, sorted(held.items())) for key, held in one.barriers.items()),
        )
        for one in classes._selections.values()
    )
    volumes = sorted(neighbours.claims.choice_by_row.items())
    claims = sorted((name, sorted(users)) for name, users in neighbours.exclusive._users.items())
    return f"{selections} {volumes} {classes.barrier_count} {claims}"


@pytest.mark.parametrize("seed", seeds(40))
def test_reasons_are_those_of_the_plain_rules(seed: int) -> None:
    Town(seed).check()


@pytest.mark.parametrize("seed", seeds(40))
def test_what_is_tried_is_counted_and_what_is_taken_back_is_not(seed: int) -> None:
    town = Town(seed)
    chance, state = town.chance, town.state
    before = counts(state.neighbours)
    with state.trial() as trial:
        for _ in range(3):
            running = town.in_state(PodState.ASSUMED, PodState.BOUND)
            for uid in chance.sample(running, min(len(running), chance.randint(0, 4))):
                trial.release(uid)  # type: ignore[arg-type]
            town.check()
            waiting = town.in_state(PodState.WAITING)
            for uid in chance.sample(waiting, min(len(waiting), chance.randint(0, 4))):
                trial.place_pod(uid)  # type: ignore[arg-type]
            town.check()
            if chance.random() < 0.3:
                trial.undo()
                assert counts(state.neighbours) == before
    assert counts(state.neighbours) == before
    town.check()


@pytest.mark.parametrize("seed", seeds(40))
def test_a_place_that_is_only_kept_may_keep_others_off_and_lets_nobody_in(seed: int) -> None:
    town = Town(seed)
    state = town.state
    before = counts(state.neighbours)
    there = town.in_state(PodState.ASSUMED, PodState.BOUND)
    rows = [state.pods.row_by_uid[uid] for uid in town.chance.sample(there, len(there) // 2)]  # type: ignore[index]
    states = [state.pods.state(row) for row in rows]
    for row in rows:
        state.pods.mark(row, PodState.NOMINATED)
        state.neighbours.follow(row)
    town.check()
    for row, pod_state in zip(rows, states, strict=True):
        state.pods.mark(row, pod_state)
        state.neighbours.follow(row)
    assert counts(state.neighbours) == before
    town.check()


@pytest.mark.parametrize("seed", seeds(10))
def test_nothing_is_left_when_everybody_is_gone(seed: int) -> None:
    town = Town(seed)
    town.story.depart(*list(town.state.pods.row_by_uid))
    neighbours = town.state.neighbours
    assert not neighbours.is_active
    assert neighbours.equivalence_classes.barrier_count == 0
    assert counts(neighbours) == counts(Story().engine.state.neighbours)


def test_who_asked_first_finds_those_who_came_before() -> None:
    told = Story()
    told.nodes(node("n", 8, labels={ZONE: "x"}), node("m", 8, labels={ZONE: "y"}))
    told.run_on(pod("early", labels=app("a")), "m")
    told.arrive(pod("late", shape(relations=related(affinity=(term("a"),)))))
    assert told.binds["late"][0] == "m"
    assert told.happen(event.PodRemoved(pod("late").uid)) == []
