"""A line of interchangeable work ends with its last workload, and another may then stand for its key."""

from gpufleet.engine.queueing.waiting import LineKey, WaitingLines
from gpufleet.model.identifiers import QueueName

KEY = LineKey(QueueName("team"), 0, 7)


def test_a_line_that_has_ended_leaves_its_successor_alone() -> None:
    """A turn holds on to its line while the work of the line leaves and work like it comes."""
    waiting = WaitingLines()
    waiting.put(KEY, 1, 10, "first", waiting.next_sequence())
    held = waiting.lines[KEY]
    waiting.withdraw(1)
    waiting.put(KEY, 2, 20, "second", waiting.next_sequence())
    successor = waiting.lines[KEY]
    assert successor is not held
    assert not waiting.trim(held)
    assert waiting.lines == {KEY: successor}
    assert waiting.first(KEY.queue) is successor


def test_a_line_that_has_ended_leaves_a_parked_successor_parked() -> None:
    waiting = WaitingLines()
    waiting.put(KEY, 1, 10, "first", waiting.next_sequence())
    held = waiting.lines[KEY]
    waiting.park(held)
    waiting.withdraw(1)
    waiting.put(KEY, 2, 20, "second", waiting.next_sequence())
    waiting.park(waiting.lines[KEY])
    assert not waiting.trim(held)
    assert waiting.waits_for_room(KEY)
    waiting.wake(KEY)
    assert waiting.first(KEY.queue) is waiting.lines[KEY]
