"""FleetQueues as they come and change: what the engine is told, and whose work waits where."""

from typing import Any

from gpufleet.cluster.queues.queue_book import QueueBook
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


class ChangeQueue:
    """A book over a shelf on which queues and namespaces are put."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.book = QueueBook(self.shelf)

    def queue(self, name: str, **spec: Any) -> list[object]:
        """Put a queue there, and what the engine hears of it."""
        self.shelf.put(resources.FLEET_QUEUES, FleetQueue, name, spec=spec)
        return list(self.book.regard(QueueName(name)))

    def gone(self, name: str) -> list[object]:
        """Take a queue away."""
        del self.shelf._objects[resources.FLEET_QUEUES, "", name]
        return list(self.book.regard(QueueName(name)))

    def namespace(self, name: str, **labels: str) -> list[str]:
        """Label a namespace, and which namespaces are other queues' for it."""
        self.shelf.put(resources.NAMESPACES, Namespace, name, metadata={"labels": labels})
        return self.book.take_moved([name])

    def queue_of(self, namespace: str) -> str | None:
        """Where the work of a namespace waits that names no queue."""
        return self.book.of_namespace(namespace).mapped


def test_a_queue_is_told_once_and_its_end() -> None:
    desk = ChangeQueue()
    assert desk.queue("a", priority=5) == [QueueSet(Queue(A, priority=5))]
    assert desk.queue("a", priority=5) == []
    assert desk.queue("a", priority=6) == [QueueSet(Queue(A, priority=6))]
    assert desk.gone("a") == [QueueRemoved(A)]
    assert desk.queue("a") == [QueueSet(Queue(A))]


def test_a_bad_version_keeps_the_last_good_one_until_it_is_mended() -> None:
    desk = ChangeQueue()
    desk.queue("a", priority=5)
    assert desk.queue("a", priority=6, parent="a") == []
    assert desk.book.problems[A].startswith("FleetQueue a, spec.parent: its own parent")
    assert desk.book.known[A].queue.priority == 5
    assert desk.queue("a", priority=6) == [QueueSet(Queue(A, priority=6))]
    assert desk.book.problems == {}


def test_what_cannot_be_decoded_harms_only_itself() -> None:
    desk = ChangeQueue()
    desk.queue("a", namespaces=["team"])
    assert desk.book.regard(A, "Expected `object`, got `array` - at `$.spec`") == []
    assert desk.queue_of("team") == "a"
    assert desk.book.regard(B, "\x1b[31mbad\n") == []
    assert desk.book.problems[B].isprintable()
    assert desk.book.regard(B) == []
    assert B not in desk.book.problems


def test_a_namespace_waits_where_it_is_listed_else_where_it_is_selected() -> None:
    desk = ChangeQueue()
    desk.namespace("team-x", team="x")
    desk.namespace("other", team="y")
    desk.queue("b", namespaceSelector={"matchLabels": {"team": "x"}})
    desk.queue("c", namespaceSelector={})
    assert (desk.queue_of("team-x"), desk.queue_of("other")) == ("b", "c")
    desk.queue("a", namespaces=["other"])
    assert desk.queue_of("other") == "a"
    # Nobody has described this one yet: it has no labels.
    assert desk.queue_of("new") == "c"


def test_of_two_that_list_a_namespace_the_first_by_name_has_it_and_the_other_can_say_so() -> None:
    desk = ChangeQueue()
    desk.queue("b", namespaces=["team", "mine"])
    assert desk.queue_of("team") == "b"
    desk.queue("a", namespaces=["team"])
    assert desk.queue_of("team") == "a"
    assert desk.book.shared_namespaces(B) == {"team": A}
    assert desk.book.shared_namespaces(A) == {}
    desk.gone("a")
    assert desk.queue_of("team") == "b"


def test_only_namespaces_that_moved_are_told() -> None:
    desk = ChangeQueue()
    for name in ("one", "two", "three"):
        desk.queue_of(name)
    desk.queue("a", namespaces=["one"], localQueues=[{"namespace": "two", "name": "user-queue"}])
    assert desk.book.take_moved([]) == ["one", "two"]
    assert desk.book.take_moved([]) == []
    desk.queue("a", namespaces=["one"], localQueues=[{"namespace": "two", "name": "user-queue"}], weight=2)
    assert desk.book.take_moved([]) == []
    assert desk.book.of_namespace("two") == NamespaceQueues(None, {"user-queue": A})


def test_a_label_moves_a_namespace() -> None:
    desk = ChangeQueue()
    desk.queue("a", namespaceSelector={"matchLabels": {"team": "x"}})
    assert desk.queue_of("n") is None
    assert desk.namespace("n", team="x") == ["n"]
    assert desk.queue_of("n") == "a"
    assert desk.namespace("n", team="x", more="y") == []
    assert desk.namespace("n") == ["n"]


def test_there_is_one_table_of_prices() -> None:
    desk = ChangeQueue()
    told = desk.queue("b", prices=[{"model": "T4", "price": "0.5"}, {"model": "H100-80GB", "price": 4}])
    assert told[1:] == [PricesSet(((H100, 4000), (T4, 500)))]
    assert desk.queue("a", prices=[{"model": "T4", "price": 1}])[1:] == [
        PricesSet(((H100, 4000), (T4, 1000)))
    ]
    # Another's word on a model that is taken changes nothing.
    assert desk.queue("c", prices=[{"model": "T4", "price": 9}])[1:] == []
    assert desk.gone("a")[1:] == [PricesSet(((H100, 4000), (T4, 500)))]


def test_ten_thousand_queues_are_mapped_in_one_go() -> None:
    desk = ChangeQueue()
    for number in range(10_000):
        desk.queue(f"queue-{number:05}", namespaces=[f"team-{number:05}"], parent="root")
    assert desk.queue_of("team-09999") == "queue-09999"
