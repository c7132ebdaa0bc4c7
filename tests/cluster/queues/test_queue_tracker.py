"""FleetQueues as they come and change: what the engine is told, and whose work waits where."""

from typing import Any

from gpufleet.cluster.queues.queue_tracker import QueueTracker
from gpufleet.engine.event import PricesSet, QueueRemoved, QueueSet
from gpufleet.kube import resources
from gpufleet.kube.codec.queues import NamespaceQueues
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.objects.namespace import Namespace
from gpufleet.model.identifiers import GpuModelName, QueueName
from gpufleet.model.queue import Queue
from tests.kube.shelf import Shelf

H100, T4 = GpuModelName("H100-80GB"), GpuModelName("T4")
A, B = QueueName("a"), QueueName("b")


class Followed:
    """A book over a shelf on which queues and namespaces are put."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.book = QueueTracker(self.shelf)

    def queue(self, name: str, **spec: Any) -> list[object]:
        """Put a queue there, and what the engine hears of it."""
        self.shelf.put(resources.FLEET_QUEUES, FleetQueue, name, spec=spec)
        return list(self.book.update(QueueName(name)))

    def gone(self, name: str) -> list[object]:
        """Take a queue away."""
        del self.shelf._objects[resources.FLEET_QUEUES, "", name]
        return list(self.book.update(QueueName(name)))

    def namespace(self, name: str, **labels: str) -> list[str]:
        """Label a namespace, and which namespaces are other queues' for it."""
        self.shelf.put(resources.NAMESPACES, Namespace, name, metadata={"labels": labels})
        return self.book.take_moved([name])

    def queue_of(self, namespace: str) -> str | None:
        """Where the work of a namespace waits that names no queue."""
        return self.book.of_namespace(namespace).mapped


def test_a_queue_is_told_once_and_its_end() -> None:
    followed = Followed()
    assert followed.queue("a", priority=5) == [QueueSet(Queue(A, priority=5))]
    assert followed.queue("a", priority=5) == []
    assert followed.queue("a", priority=6) == [QueueSet(Queue(A, priority=6))]
    assert followed.gone("a") == [QueueRemoved(A)]
    assert followed.queue("a") == [QueueSet(Queue(A))]


def test_a_bad_version_keeps_the_last_good_one_until_it_is_mended() -> None:
    followed = Followed()
    followed.queue("a", priority=5)
    assert followed.queue("a", priority=6, parent="a") == []
    assert followed.book.problems[A].startswith("FleetQueue a, spec.parent: its own parent")
    assert followed.book.known[A].queue.priority == 5
    assert followed.queue("a", priority=6) == [QueueSet(Queue(A, priority=6))]
    assert followed.book.problems == {}


def test_what_cannot_be_decoded_harms_only_itself() -> None:
    followed = Followed()
    followed.queue("a", namespaces=["team"])
    assert followed.book.update(A, "Expected `object`, got `array` - at `$.spec`") == []
    assert followed.queue_of("team") == "a"
    assert followed.book.update(B, "\x1b[31mbad\n") == []
    assert followed.book.problems[B].isprintable()
    assert followed.book.update(B) == []
    assert B not in followed.book.problems


def test_a_namespace_waits_where_it_is_listed_else_where_it_is_selected() -> None:
    followed = Followed()
    followed.namespace("team-x", team="x")
    followed.namespace("other", team="y")
    followed.queue("b", namespaceSelector={"matchLabels": {"team": "x"}})
    followed.queue("c", namespaceSelector={})
    assert (followed.queue_of("team-x"), followed.queue_of("other")) == ("b", "c")
    followed.queue("a", namespaces=["other"])
    assert followed.queue_of("other") == "a"
    # Nobody has described this one yet: it has no labels.
    assert followed.queue_of("new") == "c"


def test_of_two_that_list_a_namespace_the_first_by_name_has_it_and_the_other_can_say_so() -> None:
    followed = Followed()
    followed.queue("b", namespaces=["team", "mine"])
    assert followed.queue_of("team") == "b"
    followed.queue("a", namespaces=["team"])
    assert followed.queue_of("team") == "a"
    assert followed.book.shared_namespaces(B) == {"team": A}
    assert followed.book.shared_namespaces(A) == {}
    followed.gone("a")
    assert followed.queue_of("team") == "b"


def test_only_namespaces_that_moved_are_told() -> None:
    followed = Followed()
    for name in ("one", "two", "three"):
        followed.queue_of(name)
    followed.queue("a", namespaces=["one"], localQueues=[{"namespace": "two", "name": "user-queue"}])
    assert followed.book.take_moved([]) == ["one", "two"]
    assert followed.book.take_moved([]) == []
    followed.queue(
        "a", namespaces=["one"], localQueues=[{"namespace": "two", "name": "user-queue"}], weight=2
    )
    assert followed.book.take_moved([]) == []
    assert followed.book.of_namespace("two") == NamespaceQueues(None, {"user-queue": A})


def test_a_label_moves_a_namespace() -> None:
    followed = Followed()
    followed.queue("a", namespaceSelector={"matchLabels": {"team": "x"}})
    assert followed.queue_of("n") is None
    assert followed.namespace("n", team="x") == ["n"]
    assert followed.queue_of("n") == "a"
    assert followed.namespace("n", team="x", more="y") == []
    assert followed.namespace("n") == ["n"]


def test_there_is_one_table_of_prices() -> None:
    followed = Followed()
    told = followed.queue("b", prices=[{"model": "T4", "price": "0.5"}, {"model": "H100-80GB", "price": 4}])
    assert told[1:] == [PricesSet(((H100, 4000), (T4, 500)))]
    assert followed.queue("a", prices=[{"model": "T4", "price": 1}])[1:] == [
        PricesSet(((H100, 4000), (T4, 1000)))
    ]
    # Another's word on a model that is taken changes nothing.
    assert followed.queue("c", prices=[{"model": "T4", "price": 9}])[1:] == []
    assert followed.gone("a")[1:] == [PricesSet(((H100, 4000), (T4, 500)))]


def test_ten_thousand_queues_are_mapped_in_one_go() -> None:
    followed = Followed()
    for number in range(10_000):
        followed.queue(f"queue-{number:05}", namespaces=[f"team-{number:05}"], parent="root")
    assert followed.queue_of("team-09999") == "queue-09999"


def test_a_hold_that_cannot_be_read_or_is_over_holds_nothing() -> None:
    """19:00 on the 28th of November 2026 is 1,795,892,400 s after 1970."""
    followed = Followed()
    followed.book.now_us = lambda: 1_795_892_400 * 10**6
    for until, spent in (("2026-11-28T19:00:01Z", "9 EUR"), ("2026-11-28T19:00:00Z", ""), ("soon", "")):
        budget = {"spent": "9 EUR", "cost": "10 EUR", "checkedAt": "2026-11-28T18:00:00Z", "heldUntil": until}
        status = {"budget": budget}
        followed.shelf.put(resources.FLEET_QUEUES, FleetQueue, "a", spec={}, status=status)
        assert followed.book.update(A) == [QueueSet(Queue(A, spent_budget=spent))] or until == "soon"
        assert followed.book.known[A].queue.spent_budget == spent
    assert followed.book.take_released() == []
