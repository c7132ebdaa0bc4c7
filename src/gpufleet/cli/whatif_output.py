"""Lays the answer to a what-if out for people: what differs first, then what still waits."""

import datetime as dt
import textwrap
from collections.abc import Callable, Iterator

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.model.phrases import counted, length
from gpufleet.whatif.answer import Answer, Start, Work

# Sentences are wrapped here also on wider terminals: longer lines are hard to read.
WIDTH = 100
# A screen shows them; JSON has all.
LISTED_MAX = 10
# One line of names; JSON has all.
NODES_MAX = 4
UNCHANGED = "Nothing was changed in the cluster."


def show(answer: Answer, output: str) -> None:
    """Print what the changes bring, on standard output."""
    if output == "json":
        echo_json(answer)
        return
    for line in lines(answer):
        echo_line(line)


def lines(answer: Answer) -> Iterator[str]:
    """The whole text."""
    for number, change in enumerate(answer.changes):
        yield from wrapped(f"{'If' if number == 0 else 'and'}  {change}", 4)
    yield ""
    when = StartWords(answer.at)
    told = [
        ("would start", answer.starts, when.start),
        ("would be evicted", answer.evicted, when.evicted),
        ("would lose their node", answer.displaced, when.displaced),
        ("would end for good", answer.lost, lambda work: work.why),
        ("would start later, or not at all", answer.delayed, when.delayed),
        ("would no longer be evicted", answer.spared, lambda _: "goes on"),
    ]
    if not any(work for _, work, _ in told):
        yield "Nothing would start, and nothing would have to end, that does not without it."
    for title, work, words in told:
        if work:
            yield from work_under(f"{counted_pods(work)} {title}:", work, words)
    yield from _queues(answer)
    yield from _waiting(answer)
    for note in answer.notes:
        yield from wrapped(f"Note: {note}", 6)
    yield ""
    yield UNCHANGED


class StartWords:
    """Words for what happens when."""

    def __init__(self, at: str) -> None:
        self.at = dt.datetime.fromisoformat(at)

    def moment(self, start: Start) -> str:
        """Now, or in how long and at what time."""
        if start.in_s < 1:
            return "now"
        then = self.at + dt.timedelta(seconds=start.in_s)
        return f"in {length(start.in_s)} ({then:%H:%M:%S} UTC)"

    def start(self, work: Work) -> str:
        """When and where work starts."""
        if work.start is None:
            return ""
        earlier = "" if work.before is None else f", and not {self.moment(work.before)}"
        return f"{self.moment(work.start)} on {_nodes(work.start)}{earlier}{ready_words(work.start)}"

    def evicted(self, work: Work) -> str:
        """For which work this work is evicted, and what becomes of it."""
        return f"for {work.for_whom}; {self.displaced(work)}"

    def displaced(self, work: Work) -> str:
        """What becomes of work that must leave its place."""
        words = []
        if work.again is not None:
            words.append(f"starts again {self.moment(work.again)} on {_nodes(work.again)}")
        if work.waits_again:
            some = counted(work.waits_again, "pod")
            waits = "waits" if work.waits_again == work.pods else f"{some} of it waits"
            words.append(f"{waits} again: {work.why}")
        return "; ".join(words) or "no controller makes it anew"

    def delayed(self, work: Work) -> str:
        """When it starts now, and when it would have."""
        before = "" if work.before is None else f", instead of {self.moment(work.before)}"
        if work.start is not None:
            return f"{self.moment(work.start)} on {_nodes(work.start)}{before}"
        return f"waits{before}: {work.why}"


def ready_words(start: Start) -> str:
    """How long its data is copied then; "" for work that names no data."""
    if start.ready is None:
        return ""
    data_s = start.ready.data_s
    if data_s is None:
        return ", and copies data of unknown size"
    return f", and copies its data for {length(data_s)}" if data_s else ", where its data is"


def work_under(
    heading: str, work: tuple[Work, ...], words: Callable[[Work], str], more: int = 0
) -> Iterator[str]:
    """A heading, and a line for each piece of work below it; ``more`` pods are in no work here."""
    yield heading
    for one in work[:LISTED_MAX]:
        yield from wrapped(f"  {named(one)}  {words(one)}", 6)
    yield from more_pods(work, more)


def counted_pods(work: tuple[Work, ...]) -> str:
    """How many pods it has."""
    return counted(sum(one.pods for one in work), "pod")


def named(work: Work) -> str:
    """Kind and name, with its pods and what each asks for."""
    gpus = f", GPUs: {work.gpus}" if work.gpus else ""
    if work.kind == "pod":
        return f"{work.title}{' (' + gpus[2:] + ')' if gpus else ''}"
    return f"{work.title} ({counted_pods((work,))}{gpus + ' each' if gpus and work.pods > 1 else gpus})"


def _nodes(start: Start) -> str:
    names = [f"{name} ({count})" if count > 1 else name for name, count in start.nodes.items()]
    if len(names) > NODES_MAX:
        return f"{', '.join(names[:NODES_MAX])} and {counted(len(names) - NODES_MAX, 'more node')}"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _queues(answer: Answer) -> Iterator[str]:
    if not answer.queues:
        return
    yield "Queues use:"
    width = max(len(f"{one.queue} {one.resource}") for one in answer.queues)
    for one in answer.queues[:LISTED_MAX]:
        name = f"{one.queue} {one.resource}"
        use = one.used_after
        if one.used_before != use:
            use += f" instead of {one.used_before}"
        of = one.nominal_after
        if one.nominal_before != of:
            of += f" (was {one.nominal_before})"
        yield f"  {name:<{width}}  {use}, nominal {of}"
    if len(answer.queues) > LISTED_MAX:
        yield f"  and {len(answer.queues) - LISTED_MAX} more"


def _waiting(answer: Answer) -> Iterator[str]:
    if not answer.waiting_pods_after:
        yield "Nothing would wait any more." if answer.waiting_pods_before else "Nothing waits."
        return
    pods = "1 pod waits" if answer.waiting_pods_after == 1 else f"{answer.waiting_pods_after} pods wait"
    yield f"{pods} in the end (without it: {answer.waiting_pods_before}):"
    above = {one.title for one in (*answer.evicted, *answer.displaced, *answer.delayed)}
    others = tuple(one for one in answer.waits if one.title not in above)
    for one in others[:LISTED_MAX]:
        why = one.why or "nothing stands in its way but its turn"
        yield from wrapped(f"  {named(one)}  {why}", 6)
    yield from more_pods(others, answer.waits_more)
    if len(others) < len(answer.waits):
        yield "  and those named above" if others else "  those named above"


def more_pods(work: tuple[Work, ...], pods: int = 0) -> Iterator[str]:
    """How many pods are not listed, where not all are; ``pods`` of them are in no work here."""
    pods += sum(one.pods for one in work[LISTED_MAX:])
    if pods:
        yield f"  and {counted(pods, 'more pod')} (all of it: -o json)"


def wrapped(text: str, indent: int) -> Iterator[str]:
    """A text in lines, those after the first further in."""
    first = text[: len(text) - len(text.lstrip(" "))]
    yield from textwrap.wrap(
        text.strip(),
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
