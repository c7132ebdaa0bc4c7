"""What people are told of queues: amounts in the unit they think in."""

import pytest

from gpufleet.engine.explanations.queue_words import amount_words, bar_words, shortage_words
from gpufleet.engine.instruction import QueueBar, QuotaLimit, QuotaShortage, WhyBarred
from gpufleet.model.identifiers import QueueName, QuotaResource


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        ("gpu", 1000, "1 GPU"),
        ("gpu", 1500, "1.5 GPUs"),
        ("gpu", 1_000_001, "1000.001 GPUs"),
        ("gpu/A100-SXM4-80GB", 2000, "2 A100-SXM4-80GB GPUs"),
        ("gpu-memory", 40_960, "40 GiB of GPU memory"),
        ("gpu-memory", 512, "512 MiB of GPU memory"),
        ("cpu", 2500, "2.5 cores of CPU"),
        ("memory", 3 << 29, "1.5 GiB of memory"),
        ("hugepages-2Mi", 2 << 20, "2 MiB of hugepages-2Mi"),
        ("cost", 4500, "a cost of 4.5"),
        ("mig-slices", 1, "1 MIG compute slice"),
        ("example.com/nic", 3, "3 of example.com/nic"),
    ],
)
def test_amounts_are_told_as_people_say_them(resource: str, amount: int, words: str) -> None:
    assert amount_words(QuotaResource(resource), amount) == words


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (QuotaLimit.NOMINAL, "queue team uses 2 GPUs of the 2 GPUs, and it needs 1 GPU"),
        (
            QuotaLimit.LENDING,
            (
                "queue team uses 2 GPUs of the 2 GPUs (others keep what is idle, by their lending limits), "
                "and it needs 1 GPU"
            ),
        ),
        (
            QuotaLimit.BORROWING,
            (
                "queue team uses 2 GPUs of the 2 GPUs that it may have with what it may borrow, "
                "and it needs 1 GPU"
            ),
        ),
        (QuotaLimit.HARD, "queue team uses 2 GPUs of the 2 GPUs of its hard limit, and it needs 1 GPU"),
    ],
)
def test_the_limit_that_binds_is_told(limit: QuotaLimit, words: str) -> None:
    short = QuotaShortage(QueueName("team"), QuotaResource("gpu"), limit, 2000, 1000, 2000, 1000)
    assert shortage_words(short) == f"waits for quota: {words}"


@pytest.mark.parametrize("limit", [QuotaLimit.NOMINAL, QuotaLimit.PROTECTED])
def test_what_is_reserved_is_not_called_used(limit: QuotaLimit) -> None:
    short = QuotaShortage(QueueName("team"), QuotaResource("gpu"), limit, 7000, 1000, 8000, 1000, 1000)
    assert "uses 7 GPUs of the 8 GPUs" in shortage_words(short)
    assert " and keeps 1 GPU for reserved places, and it needs 1 GPU" in shortage_words(short)


def test_work_that_is_never_evicted_is_told_that_it_may_not_borrow() -> None:
    limit = QuotaLimit.PROTECTED
    short = QuotaShortage(QueueName("team"), QuotaResource("gpu"), limit, 2000, 1000, 2500, 500)
    assert shortage_words(short) == (
        "waits for quota: it is never evicted, so it may not borrow; such work uses 2 GPUs of the 2.5 GPUs "
        "that queue team owns, and it needs 1 GPU"
    )


@pytest.mark.parametrize("why", list(WhyBarred))
def test_every_bar_names_its_queue(why: WhyBarred) -> None:
    assert "queue team" in bar_words(QueueBar(QueueName("team"), why))
