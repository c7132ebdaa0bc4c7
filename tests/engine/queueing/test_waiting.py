"""A line of interchangeable work ends with its last workload, and another may then stand for its key."""

from gpufleet.engine.queueing.line import LineKey
from gpufleet.engine.queueing.waiting import WaitingLines
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


def test_of_many_lines_those_that_have_ended_are_left_out() -> None:
    waiting = WaitingLines()
    keys = [LineKey(QueueName("team"), 0, shape) for shape in range(3)]
    for row, key in enumerate((*keys, keys[1])):
        waiting.put(key, row, 10, f"pod-{row}", waiting.next_sequence())
    lines = [waiting.lines[key] for key in keys]
    waiting.take_out(0)
    waiting.take_out(1)
    assert waiting.trimmed(lines) == lines[1:]
    assert lines[0].closed
    assert lines[1].head().name == "pod-3"


def test_a_pod_that_left_and_came_back_waits_once() -> None:
    """It keeps its sequence, and what stood for it before stands for nothing any more."""
    waiting = WaitingLines()
    first = waiting.next_sequence()
    waiting.put(KEY, 1, 10, "first", first)
    waiting.put(KEY, 2, 20, "second", waiting.next_sequence())
    waiting.take_out(1)
    waiting.put(KEY, 1, 10, "first", first)
    line = waiting.lines[KEY]
    waiting.advance(line)
    waiting.take_out(1)
    assert waiting.trim(line)
    assert line.head().name == "second"


def test_a_pod_is_told_once_why_it_waits() -> None:
    waiting = WaitingLines()
    sequence = waiting.next_sequence()
    waiting.put(KEY, 1, 10, "first", sequence)
    line = waiting.lines[KEY]
    assert line.unreported == {sequence: 1}
    assert line.take_unreported(sequence)
    assert not line.take_unreported(sequence)


def test_a_pod_that_was_told_why_it_waits_is_not_told_again_in_another_line() -> None:
    waiting = WaitingLines()
    told, other = waiting.next_sequence(), KEY._replace(late=True)
    waiting.put(KEY, 1, 10, "told", told)
    waiting.lines[KEY].take_unreported(told)
    waiting.move_first(waiting.lines[KEY], other)
    assert waiting.lines[other].unreported == {}
