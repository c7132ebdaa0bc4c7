"""Which namespaces may use which queue: by name, by labels, from above, and what strangers get."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.engine import event
from gpufleet.engine.explanations.queue_words import bar_words, shortage_words
from gpufleet.engine.explanations.sentences import explain
from gpufleet.engine.instruction import AnyInstruction, QuotaLimit, Verdict, WhyBarred
from gpufleet.engine.preempt.victims import NoVictims
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.labels import LabelSelector, Operator, Requirement, equals
from gpufleet.model.queue import AdmittedNamespaces, Queue
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import Story, device, evicted, gang, node, placed, pod, refused, shape
from tests.engine.queueing.queue_builder import available, queue, quota, used

GPUS = 1000
ALL = LabelSelector()


def admitting(*namespaces: str, selector: LabelSelector | None = None, **labels: str) -> AdmittedNamespaces:
    """Admits these namespaces, and those with these labels."""
    if labels:
        selector = LabelSelector(equals(labels.items()))
    return AdmittedNamespaces(namespaces, selector)


def story(*queues: Queue, gpus: int = 8) -> Story:
    """An engine with one node and these queues, in which nobody is evicted."""
    told = Story(victims=NoVictims())
    told.nodes(node("n", gpus))
    told.queues(*queues)
    return told


def arrive(
    told: Story, namespace: str, uid: str, name: str = "vision", gpus: int = 1
) -> list[AnyInstruction]:
    """A pod of a namespace wants to run in a queue."""
    return told.arrive(pod(uid, shape(gpus), queue=name, namespace=namespace))


def verdict(told: Story, uid: str) -> Verdict:
    """What a waiting pod is told."""
    found = told.engine.explain(PodUid(uid))
    assert found is not None
    return found


def refusal(told: Story, uid: str) -> str:
    """Why the queue of a waiting pod does not admit it, in words."""
    bar = verdict(told, uid).bar
    assert bar is not None
    assert bar.why is WhyBarred.NOT_ADMITTED
    return bar_words(bar)


VISION = queue("vision", quota("gpu", 4 * GPUS), admitted=admitting("vision", "vision-dev"))


def test_only_work_of_the_namespaces_that_a_queue_names_starts_in_it() -> None:
    told = story(VISION)
    assert placed(arrive(told, "vision-dev", "own")) == ["own"]
    said = arrive(told, "team-b", "stranger")
    assert refused(said) == ["stranger"]
    words = "namespace team-b may not use queue vision: it admits namespaces vision, vision-dev"
    assert refusal(told, "stranger") == words
    assert words in explain(verdict(told, "stranger"), shape(1))


def test_work_that_comes_with_the_first_queue_is_in_that_queue_also_where_it_is_not_admitted() -> None:
    """All pods get their queue then. To those that it does not admit no other queue is given."""
    told = story()
    stranger = pod("stranger", shape(1), queue="vision", namespace="team-b")
    assert refused(told.happen(event.PodAdded(stranger), event.QueueSet(VISION))) == ["stranger"]
    assert "namespace team-b may not use queue vision" in refusal(told, "stranger")


def test_a_refusal_names_a_few_of_many_namespaces() -> None:
    told = story(queue("vision", admitted=admitting(*(f"n{number}" for number in range(9)))))
    arrive(told, "x", "stranger")
    assert refusal(told, "stranger").endswith("it admits namespaces n0, n1, n2, n3, n4 and 4 more")


def test_a_queue_that_names_no_namespaces_admits_those_of_the_nearest_above_it() -> None:
    told = story(
        queue("company", admitted=admitting("ops")),
        queue("research", parent="company", admitted=admitting("lab")),
        queue("vision", parent="research"),
        queue("speech", parent="research", admitted=admitting("speech")),
    )
    assert placed(arrive(told, "lab", "own")) == ["own"]
    arrive(told, "ops", "from-above")
    assert refusal(told, "from-above").endswith("queue research, above it, admits namespace lab")
    assert placed(arrive(told, "speech", "speech", "speech")) == ["speech"]
    arrive(told, "lab", "sibling", "speech")
    assert refusal(told, "sibling").endswith("may not use queue speech: it admits namespace speech")


def test_queues_are_open_until_one_of_the_cluster_names_namespaces() -> None:
    told = story(queue("vision"), queue("speech"))
    assert placed(arrive(told, "x", "before")) == ["before"]
    told.queues(queue("speech", admitted=admitting("speech")))
    arrive(told, "x", "after")
    assert refusal(told, "after").endswith(
        "neither it nor a queue above it names namespaces, and other queues do"
    )
    assert placed(told.happen(event.QueueRemoved(QueueName("speech")))) == ["after"]


def test_an_empty_selector_opens_a_queue_to_all() -> None:
    told = story(
        queue("vision", admitted=admitting(selector=ALL)), queue("speech", admitted=admitting("speech"))
    )
    assert placed(arrive(told, "anybody", "p")) == ["p"]


def test_labels_of_a_namespace_open_and_close_a_queue_for_work_that_waits() -> None:
    told = story(queue("vision", admitted=admitting(team="vision")), gpus=1)
    arrive(told, "lab", "first")
    assert refusal(told, "first").endswith("it admits namespaces with labels team In [vision]")
    assert placed(told.namespace("lab", team="vision")) == ["first"]
    assert refused(arrive(told, "lab", "second")) == ["second"], "there is no room"
    told.namespace("lab", team="speech")
    assert refusal(told, "second").startswith("namespace lab may not use queue vision")
    assert placed(told.depart("first")) == []
    assert placed(told.namespace("lab", team="vision")) == ["second"]


def test_a_selector_that_asks_for_no_label_admits_namespaces_without_it() -> None:
    without = LabelSelector((Requirement("restricted", Operator.DOES_NOT_EXIST),))
    told = story(queue("vision", admitted=admitting(selector=without)))
    told.namespace("lab", restricted="yes")
    arrive(told, "lab", "restricted")
    assert refused(told.said) == ["restricted"]
    assert placed(arrive(told, "free", "free")) == ["free"]
    assert placed(told.happen(event.NamespaceRemoved("lab"))) == ["restricted"]


def test_work_of_several_namespaces_waits_in_one_queue_each_by_its_own_right() -> None:
    told = story(VISION, gpus=2)
    names = ["b", "vision", "b", "vision-dev", "c", "vision"]
    pods = [
        pod(f"p{number}", shape(1), queue="vision", namespace=name, created_at_us=number)
        for number, name in enumerate(names)
    ]
    assert placed(told.arrive(*pods)) == ["p1", "p3"]
    assert [uid for uid in ("p0", "p2", "p4", "p5") if verdict(told, uid).bar] == ["p0", "p2", "p4"]
    assert placed(told.queues(queue("vision", quota("gpu", 4 * GPUS), admitted=admitting("b")))) == []
    assert placed(told.depart("p1")) == ["p0"]


def test_strangers_hold_back_nobody_in_a_strict_queue() -> None:
    told = story(queue("vision", quota("gpu", 4 * GPUS), strict=True, admitted=admitting("vision")))
    arrive(told, "x", "stranger")
    told.gangs(gang("x/g", 2, queue="vision"))
    told.arrive(*(pod(f"g{one}", shape(1), gang="x/g", namespace="x") for one in range(2)))
    assert placed(arrive(told, "vision", "own")) == ["own"]


@pytest.mark.parametrize("namespaces", [("vision", "x"), ("x", "vision")])
def test_a_gang_with_one_member_that_is_not_admitted_does_not_start(namespaces: tuple[str, str]) -> None:
    told = story(VISION)
    told.gangs(gang("g", 2, queue="vision"))
    told.arrive(*(pod(f"g-{one}", shape(1), gang="g", namespace=one) for one in namespaces))
    assert placed(told.said) == []
    assert "namespace x may not use queue vision" in refusal(told, "g-vision")


def test_the_queue_of_a_gang_and_not_that_of_its_members_decides() -> None:
    told = story(VISION, queue("open", admitted=admitting(selector=ALL)))
    told.gangs(gang("g", 1, queue="vision"))
    told.arrive(pod("g-0", shape(1), gang="g", namespace="x", queue="open"))
    assert placed(told.said) == []


def test_what_runs_goes_on_and_counts_when_the_door_closes() -> None:
    told = story(queue("vision", quota("gpu", 4 * GPUS)))
    arrive(told, "x", "runs", gpus=3)
    assert evicted(told.queues(VISION)) == {}
    assert used(told.engine.state, "vision", "gpu") == (3 * GPUS, 3 * GPUS)
    assert placed(arrive(told, "vision", "own", gpus=2)) == []


@pytest.mark.parametrize("name", ["nobody", "default", "speech"])
def test_placed_work_stays_charged_where_it_was_if_it_names_a_queue_that_it_could_not_have_started_in(
    name: str,
) -> None:
    told = story(VISION, queue("speech", admitted=admitting("speech")))
    arrive(told, "vision", "runs", gpus=4)
    told.arrive(pod("runs", shape(4), queue=name, namespace="vision"))
    assert used(told.engine.state, "vision", "gpu") == (4 * GPUS, 4 * GPUS)
    assert placed(arrive(told, "vision", "more")) == []
    told.queues(queue("other"))
    assert used(told.engine.state, "vision", "gpu") == (4 * GPUS, 4 * GPUS), (
        "also when the tree is settled anew"
    )


def test_what_another_scheduler_placed_takes_nothing_of_a_queue_that_does_not_admit_it() -> None:
    told = story(queue("vision", quota("gpu", 4 * GPUS)), gpus=8)
    alien = msgspec.structs.replace(pod("alien", shape(3), queue="vision", namespace="x"), foreign=True)
    told.run_on(alien, "n", "n/0", "n/1", "n/2")
    assert used(told.engine.state, "vision", "gpu") == (3 * GPUS, 3 * GPUS)
    told.queues(VISION)
    assert used(told.engine.state, "vision", "gpu") == (0, 0)
    assert placed(arrive(told, "vision", "own", gpus=4)) == ["own"]
    told.queues(queue("vision", quota("gpu", 4 * GPUS), admitted=admitting("vision", "x")))
    assert used(told.engine.state, "vision", "gpu") == (7 * GPUS, 7 * GPUS)


def test_work_outside_of_every_queue_gets_nothing_that_queues_own() -> None:
    told = story(VISION)
    arrive(told, "x", "outside", "default")
    short = verdict(told, "outside").quota
    assert short is not None
    assert short.limit is QuotaLimit.OUTSIDE
    assert "waits outside of every queue" in shortage_words(short)
    assert placed(told.arrive(pod("cpu", shape(), namespace="x"))) == ["cpu"], "no queue owns cores"
    told.queues(queue("default", admitted=admitting(selector=ALL)))
    assert "outside" in told.binds


def test_work_outside_of_every_queue_gets_what_no_queue_owns() -> None:
    told = Story(victims=NoVictims())
    told.nodes(node("a", 1), node("t", 1, devices=(device("t/0", model="T4"),)))
    told.queues(queue("vision", quota("gpu/A100", GPUS), admitted=admitting("vision")))
    assert placed(told.arrive(pod("one", shape(1), namespace="x"))) == ["one"]
    assert told.binds["one"][0] == "t"
    assert placed(told.arrive(pod("two", shape(1), namespace="x"))) == []


def test_work_that_runs_outside_is_reclaimed_by_who_owns_what_it_has() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.arrive(*(pod(f"p{one}", shape(1), namespace="x") for one in range(4)))
    told.queues(VISION)
    assert len(evicted(arrive(told, "vision", "own", gpus=2))) == 2


def test_a_described_default_queue_has_a_door_like_any_other() -> None:
    told = story(VISION, queue("default"))
    arrive(told, "x", "outside", "default")
    assert "may not use queue default" in refusal(told, "outside")


def test_work_of_a_queue_that_is_gone_counts_above_it() -> None:
    told = story(
        queue("root", quota("gpu", 2 * GPUS)),
        queue("a", quota("gpu", 2 * GPUS), parent="root"),
        queue("b", parent="root"),
    )
    told.arrive(pod("runs", shape(3), queue="a"))
    told.happen(event.QueueRemoved(QueueName("a")))
    assert used(told.engine.state, "root", "gpu") == (3 * GPUS, 3 * GPUS)
    assert placed(told.arrive(pod("more", shape(1), queue="b"))) == []
    assert placed(told.depart("runs")) == ["more"]
    assert available(told.engine.state, "b", "gpu") == 1 * GPUS


def test_work_below_a_queue_that_is_gone_counts_above_that() -> None:
    told = story(
        queue("root", quota("gpu", 4 * GPUS)),
        queue("middle", parent="root"),
        queue("a", parent="middle"),
        queue("b", parent="root"),
    )
    told.arrive(pod("runs", shape(3), queue="a"))
    told.happen(event.QueueRemoved(QueueName("middle")))
    assert available(told.engine.state, "b", "gpu") == 1 * GPUS
    told.happen(event.QueueRemoved(QueueName("a")))
    assert available(told.engine.state, "b", "gpu") == 1 * GPUS


def test_who_is_owed_what_work_of_a_queue_that_is_gone_has_gets_it_back() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.queues(
        queue("root", quota("gpu")),
        queue("a", quota("gpu", 4 * GPUS), parent="root"),
        queue("b", quota("gpu", 4 * GPUS), parent="root"),
    )
    told.arrive(*(pod(f"b{one}", shape(1), queue="b") for one in range(4)))
    told.happen(event.QueueRemoved(QueueName("b")))
    said = told.arrive(pod("a0", shape(2), queue="a"))
    assert len(evicted(said)) == 2


NAMESPACES = ("red", "green", "blue")


def a_door(chance: random.Random) -> AdmittedNamespaces | None:
    """None, or namespaces by name or by label."""
    kind = chance.random()
    if kind < 0.4:
        return None
    if kind < 0.7:
        return admitting(*chance.sample(NAMESPACES, chance.randint(1, 2)))
    return admitting(team=chance.choice(NAMESPACES)) if kind < 0.95 else admitting(selector=ALL)


class Town:
    """Random queues, admitted namespaces and namespaces, judged by a plain reading of the rule."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.told = Story()
        self.told.nodes(node("n", 6))
        self.queues: dict[str, Queue] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.owner: dict[str, tuple[str, str]] = {}
        for number in range(4):
            self.describe(number)

    def describe(self, number: int) -> None:
        """A queue below one of lower number, or a root, that admits some namespaces."""
        above = [None, *(f"q{one}" for one in range(number))]
        name, amount = f"q{number}", self.chance.choice((0, 1, 2)) * GPUS
        one = queue(
            name, quota("gpu", amount), parent=self.chance.choice(above), admitted=a_door(self.chance)
        )
        self.queues[name] = one
        self.judge(self.told.queues(one))

    def admits(self, name: str, namespace: str) -> bool:
        """The rule, read from below."""
        if name == "default":
            owned = any(one.quotas[0].nominal for one in self.queues.values())
            return not (owned and any(one.admitted for one in self.queues.values()))
        found: Queue | None = self.queues.get(name)
        if found is None:
            return False
        while found is not None and found.admitted is None:
            found = None if found.parent is None else self.queues[found.parent]
        if found is None or found.admitted is None:
            return not any(one.admitted for one in self.queues.values())
        selector, labels = found.admitted.selector, self.labels.get(namespace, {})
        return namespace in found.admitted.namespaces or (selector is not None and selector.accepts(labels))

    def judge(self, said: list[AnyInstruction]) -> None:
        """Nothing starts in a queue that does not admit its namespace."""
        for uid in placed(said):
            name, namespace = self.owner[uid]
            assert self.admits(name, namespace), f"{namespace} starts in {name}"

    def step(self) -> None:
        """Something happens."""
        chance, kind = self.chance, self.chance.random()
        if kind < 0.5:
            uid, namespace = f"p{len(self.owner)}", chance.choice(NAMESPACES)
            name = chance.choice(("q0", "q1", "q2", "q3", "default", "nobody"))
            self.owner[uid] = (name, namespace)
            gpus, priority = chance.choice((1, 1, 2)), chance.choice((0, 0, 5))
            self.judge(
                self.told.arrive(pod(uid, shape(gpus), queue=name, namespace=namespace, priority=priority))
            )
        elif kind < 0.75 and self.owner:
            uid = chance.choice(sorted(self.owner))
            self.judge(self.told.depart(uid))
        elif kind < 0.9:
            namespace = chance.choice(NAMESPACES)
            self.labels[namespace] = chance.choice(({}, {"team": chance.choice(NAMESPACES)}))
            self.judge(self.told.namespace(namespace, **self.labels[namespace]))
        else:
            self.describe(chance.randrange(4))


@settings(max_examples=40 * EFFORT, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_no_work_ever_starts_in_a_queue_that_does_not_admit_its_namespace(chance: random.Random) -> None:
    town = Town(chance)
    for _ in range(30):
        town.step()
