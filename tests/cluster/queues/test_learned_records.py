"""Learned run times in the statuses of queues: written and read again within limits; nonsense is dropped."""

import logging

import pytest

from gpufleet.cluster.queues.learned_records import TEMPLATES_MAX, read, written
from gpufleet.engine.event import LearnedRuns
from gpufleet.engine.learn.run_times import LONGEST_US, RUNS_KEPT
from gpufleet.kube.objects.fleet_queues import LearnedRunTimeStatus
from gpufleet.model.identifiers import QueueName

TEAM, OTHER = QueueName("team"), QueueName("other")


def template(number: int) -> str:
    return f"{number:032x}"


def test_what_is_written_is_read_again_queue_by_queue() -> None:
    told = (
        LearnedRuns(TEAM, template(1), (5, 7)),
        LearnedRuns(OTHER, template(2), (9,)),
        LearnedRuns(TEAM, template(3), tuple(range(RUNS_KEPT))),
    )
    found = written(told)
    assert read(found[TEAM], TEAM) == (told[0], told[2])
    assert read(found[OTHER], OTHER) == (told[1],)


def test_a_status_has_the_templates_whose_runs_ended_last() -> None:
    many = [LearnedRuns(TEAM, template(number), (1,)) for number in range(TEMPLATES_MAX + 3)]
    assert [one.template for one in written(many)[TEAM]] == [
        template(number) for number in range(3, TEMPLATES_MAX + 3)
    ]


@pytest.mark.parametrize(
    "bad",
    [
        LearnedRunTimeStatus("nightly", (1,)),
        LearnedRunTimeStatus(template(1).upper() + "\n", (1,)),
        LearnedRunTimeStatus(template(1), ()),
        LearnedRunTimeStatus(template(1), (-1,)),
        LearnedRunTimeStatus(template(1), (LONGEST_US + 1,)),
        LearnedRunTimeStatus(template(1), tuple(range(RUNS_KEPT + 1))),
    ],
    ids=repr,
)
def test_what_no_scheduler_wrote_is_dropped_with_a_line_in_the_log(
    bad: LearnedRunTimeStatus, caplog: pytest.LogCaptureFixture
) -> None:
    good = LearnedRunTimeStatus(template(2), (60,))
    with caplog.at_level(logging.WARNING):
        assert read((bad, good), TEAM) == (LearnedRuns(TEAM, template(2), (60,)),)
    (line,) = caplog.records
    assert line.getMessage() == "learned run times in the status of a queue make no sense and are dropped"
    assert line.__dict__["queue"] == "team"
