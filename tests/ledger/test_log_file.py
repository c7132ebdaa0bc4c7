"""A file of observations is read as it was written, in whatever order, cut off or put together."""

import random

import pytest

from gpufleet.ledger.buckets import BusySpan
from gpufleet.ledger.interval_log import IntervalLog, encoded
from gpufleet.ledger.log_file import added, heading_line, observation_line, read_log, written
from gpufleet.ledger.spans import Span
from gpufleet.ledger.versions import Listed, ObjectKind
from gpufleet.model.identifiers import DeviceId, PodUid
from gpufleet.model.model_errors import InputError
from tests.ledger.recording import observations


def recorded() -> IntervalLog:
    log = IntervalLog()
    for seen in observations():
        log.take(seen)
    log.measure(BusySpan(DeviceId("GPU-a"), PodUid("p"), Span(1, 5), 250_000))
    return log


def read(lines: list[bytes]) -> IntervalLog:
    log = IntervalLog()
    read_log(lines, "a.ledger", log)
    return log


def test_a_log_is_read_as_it_was_written() -> None:
    log = recorded()
    again = read(list(written(log, "c")))
    assert encoded(again.intervals()) == encoded(log.intervals())
    assert again.busy() == log.busy()
    assert list(written(again, "c")) == list(written(log, "c"))


@pytest.mark.parametrize("seed", range(5))
def test_lines_in_any_order_and_twice_are_written_back_alike(seed: int) -> None:
    heading, *lines = written(recorded(), "c")
    mixed = [*lines, *random.Random(seed).choices(lines, k=9)]
    random.Random(seed).shuffle(mixed)
    assert list(written(read([heading, *mixed]), "c")) == [heading, *lines]


def lists(seed: int = 1) -> list[Listed]:
    """Lists of two kinds, each of four hundred objects of which now and then one comes and one goes."""
    draw = random.Random(seed)
    found = []
    for kind in (ObjectKind.POD, ObjectKind.NODE):
        uids = {f"{kind}-{number}" for number in range(400)}
        for number in range(10, 40):
            if draw.random() < 0.3:
                uids = {*uids - {draw.choice(sorted(uids))}, f"{kind}-new-{number}"}
            found.append(Listed(kind, number, number * 1_000, frozenset(uids)))
    return found


def test_a_file_grows_by_what_changes_in_lists_and_not_by_what_there_is() -> None:
    whole, log = IntervalLog(), IntervalLog()
    lines = [heading_line("c")]
    for one in lists():
        whole.take(one)
        news = IntervalLog()
        news.take(one)
        lines += added(log, news)
    full = [line for line in lines if len(line) > 1_000]
    assert len(full) == 2
    assert sum(map(len, lines)) < 2 * 400 * 20 + 60 * 150
    random.Random(2).shuffle(shaken := lines[1:])
    assert list(read([lines[0], *shaken]).seen()) == list(whole.seen())
    assert list(read(list(written(whole, "c"))).seen()) == list(whole.seen())


def test_a_list_that_comes_late_is_the_difference_to_the_one_before_it() -> None:
    log, lines = IntervalLog(), [heading_line("c")]
    for one in random.Random(3).sample(lists(), 60):
        news = IntervalLog()
        news.take(one)
        lines += added(log, news)
    assert list(read(lines).seen()) == list(log.seen())
    assert set(log.seen()) == set(lists())


def test_a_difference_to_a_list_that_is_missing_is_refused() -> None:
    heading, _, *lines = written(read([heading_line("c"), *map(observation_line, lists())]), "c")
    with pytest.raises(InputError) as refused:
        read([heading, *lines])
    assert "line 2: differs from a list of node of version 10, which the file does not have" in str(
        refused.value
    )


def test_a_line_that_a_kill_cut_off_is_left_out_and_every_other_is_kept() -> None:
    """Whole after every byte: what was cut off is missing, and nothing else."""
    text = b"".join(written(recorded(), "c"))
    lines = text.splitlines(keepends=True)
    for cut in range(len(lines[0]), len(text), 97):
        kept = text[:cut].splitlines(keepends=True)
        whole = [line for line in kept if line.endswith(b"\n")]
        assert b"".join(written(read(kept), "c")) == b"".join(written(read(whole), "c"))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "no ledger"),
        ([b"time,pod\n"], "no ledger"),
        ([b'{"ledger": "v9"}\n'], "unknown format"),
        ([b'{"ledger": "gpufleet.io/ledger/v1"}\n'], "unknown format"),
        ([b'{"ledger": "gpufleet.io/ledger/v2"}\n'], "a.ledger, cluster: names no cluster"),
        ([heading_line("c"), b'{"type": "comet"}\n'], "a.ledger, line 2: not an observation"),
    ],
)
def test_what_is_no_log_is_refused_by_line(lines: list[bytes], words: str) -> None:
    with pytest.raises(InputError) as refused:
        read(lines)
    assert words in str(refused.value)


def test_files_of_two_clusters_are_not_put_together() -> None:
    log = IntervalLog()
    origin = read_log([heading_line("c-1")], "a.ledger", log)
    assert read_log([heading_line("c-1")], "b.ledger", log, origin) == origin
    with pytest.raises(InputError) as refused:
        read_log([heading_line("c-2")], "c.ledger", log, origin)
    words = "c.ledger, cluster: is of another cluster than a.ledger, found 'c-2'; expected 'c-1'"
    assert words in str(refused.value)
