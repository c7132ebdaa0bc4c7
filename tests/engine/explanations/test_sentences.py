"""Verdicts in words: each number agrees with its noun."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.explanations.sentences import explain, explain_gang, explain_unknown_gang
from gpufleet.engine.instruction import (
    GangUnknown,
    GangUnschedulable,
    ModelsTried,
    Nearest,
    NodesLacking,
    Verdict,
)
from gpufleet.engine.node_reasons.amount_words import MISSING, amount_of, cores, gibibytes
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.model.identifiers import GangName, GpuModelName, NodeName
from tests.engine.fleet_builder import shape

FEW = st.integers(0, 2)
REASONS = st.sampled_from(sorted(TABLE.by_name))
COUNTS = st.dictionaries(REASONS, st.integers(1, 2), max_size=3)
UNITS = {"cpu_milli": 1000}
"""So much of a resource is one, where an amount is not counted one by one."""

NOUNS = "core|device|GPU|instance|member|node|pod|share"
ONE_OF_MANY = re.compile(rf"(?<![\d.])1 (?:(?:free|GPU|more|whole) )?(?:{NOUNS})s\b")
MANY_OF_ONE = re.compile(rf"(?<![\d.])[02] (?:(?:free|more|whole) )?(?:{NOUNS})(?![\w-])")

SHORT = st.dictionaries(st.sampled_from(sorted(MISSING)), st.integers(1, 2), max_size=2).map(
    lambda short: {name: amount * UNITS.get(name, 1) for name, amount in short.items()}
)
NEAREST = st.builds(
    Nearest, node=st.just(NodeName("n")), short=SHORT, barred_by=st.just(()), equals=st.integers(1, 3)
)
HURDLES = st.builds(
    NodesLacking, reasons=st.lists(REASONS, min_size=1, max_size=1).map(tuple), nodes=st.integers(1, 2)
)
TRIED = st.builds(
    ModelsTried, models=st.just((GpuModelName("T4"),)), reasons=COUNTS, placeable=st.none() | FEW
)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    """A verdict on some nodes, with each number from none to two."""
    counts = draw(COUNTS)
    return Verdict(
        sum(counts.values()) + draw(FEW),
        counts,
        counts,
        draw(st.none() | NEAREST),
        draw(st.none() | HURDLES),
        models_tried=tuple(draw(st.lists(TRIED, max_size=1))),
    )


def agrees(sentence: str) -> bool:
    """Whether no number stands before a noun of the other number."""
    return not ONE_OF_MANY.search(sentence) and not MANY_OF_ONE.search(sentence)


@given(verdicts(), st.integers(1, 2))
def test_each_number_of_a_verdict_agrees_with_its_noun(verdict: Verdict, gpus: int) -> None:
    sentence = explain(verdict, shape(gpus))
    assert agrees(sentence), sentence


@given(st.none() | verdicts(), FEW, FEW, st.integers(1, 2))
def test_each_number_of_a_gang_agrees_with_its_noun(
    verdict: Verdict | None, arrived: int, placeable: int, least: int
) -> None:
    name = GangName("team/train")
    sentence = explain_gang(GangUnschedulable(name, least, arrived, placeable, verdict, ""), shape(1))
    assert agrees(sentence), sentence
    assert agrees(explain_unknown_gang(GangUnknown(name, arrived)))


def test_a_number_that_does_not_agree_is_found() -> None:
    assert not agrees("of 1 nodes 1 with too few free GPUs")
    assert not agrees("2 node would do")
    assert agrees("of 11 nodes 1 with too few free GPUs")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (cores(1_000), "1 core of CPU"),
        (cores(1_234_567_000), "1234567 cores of CPU"),
        (gibibytes(2**20 * 1536), "1.5 GiB"),
        (gibibytes(2**30 * 12_345_678), "12345678 GiB"),
        (amount_of("hugepages-2Mi", 2**26), "64 MiB of hugepages-2Mi"),
        (amount_of("rdma/hca", 2), "2 of rdma/hca"),
    ],
)
def test_amounts_are_written_as_people_write_them(words: str, expected: str) -> None:
    assert words == expected
