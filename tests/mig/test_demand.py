"""Which cards are cut for what waits, and which are made whole: by value, and not back and forth."""

import datetime as dt

import msgspec
import pytest

from gpufleet.mig.cards import CardInstance, MigCard
from gpufleet.mig.demand import DemandRules, ManagedCard, NewLayout, WantedSince, choose
from gpufleet.mig.plan import Wanted
from gpufleet.mig.wanted import DemandRecord, LayoutState, layout_texts
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from tests.mig.mig_cards import H100, at

NOW = dt.datetime(2026, 11, 29, 12, tzinfo=dt.UTC)
RULES = DemandRules()
HOUR = dt.timedelta(hours=1)


def a_card(
    name: str, *instances: str, cut: bool = True, held: tuple[str, ...] = (), node: str = "n"
) -> MigCard:
    layout = tuple(CardInstance(one, one in at(*held)) for one in at(*instances))
    return MigCard(node, DeviceId(name), H100, mig_enabled=cut, instances=layout)


def managed(card: MigCard, **more: object) -> ManagedCard:
    return msgspec.structs.replace(ManagedCard(card, is_followed=True), **more)


def waits(pod: str, *profiles: str, for_s: float = 60) -> WantedSince:
    return WantedSince(Wanted(pod, profiles), NOW - dt.timedelta(seconds=for_s))


def record(layout: Layout | None, age: dt.timedelta = HOUR, *pods: str) -> DemandRecord:
    return DemandRecord(layout_texts(layout), NOW - age, pods)


WHOLE = a_card("GPU-w", cut=False)


def test_a_card_that_is_cut_already_is_cut_further_before_a_whole_one() -> None:
    cards = [managed(WHOLE), managed(a_card("GPU-a", "3g.40gb@4", held=("3g.40gb@4",)))]
    (found,) = choose(cards, [waits("team/p", "2g.20gb")], {}, RULES, NOW)
    assert (found.card, found.pods) == ("GPU-a", ("team/p",))
    assert set(at("3g.40gb@4")) < set(found.layout or ())
    (found,) = choose(cards, [waits("team/p", "4g.40gb")], {}, RULES, NOW)
    # 4g.40gb begins at slice 0 alone, beside which 3g.40gb@4 may stay (NVIDIA's MIG guide, H100 layouts).
    assert found.layout == at("4g.40gb@0", "3g.40gb@4")
    (found,) = choose(cards, [waits("team/p", "7g.80gb")], {}, RULES, NOW)
    assert (found.card, found.layout) == ("GPU-w", at("7g.80gb@0"))


def test_a_whole_card_stays_whole_where_work_on_whole_cards_waits() -> None:
    assert not choose([managed(WHOLE)], [waits("team/p", "2g.20gb")], {"n": 1}, RULES, NOW)


def test_a_pod_that_came_just_now_waits_for_what_others_give_back() -> None:
    assert not choose([managed(WHOLE)], [waits("team/p", "2g.20gb", for_s=29)], {}, RULES, NOW)
    assert choose([managed(WHOLE)], [waits("team/p", "2g.20gb", for_s=30)], {}, RULES, NOW)


@pytest.mark.parametrize("state", [None, LayoutState.PENDING, LayoutState.WAITING])
def test_what_is_on_its_way_is_used_and_not_cut_twice(state: LayoutState | None) -> None:
    """As a scheduler finds it that starts anew after the write."""
    wish = at("2g.20gb@2")
    cut = managed(WHOLE, wish=wish, state=state, record=record(wish, dt.timedelta(seconds=5), "team/p"))
    other = managed(a_card("GPU-x", cut=False))
    assert not choose([cut, other], [waits("team/p", "2g.20gb")], {}, RULES, NOW)
    (found,) = choose([cut, other], [waits("team/p", "2g.20gb"), waits("team/q", "2g.20gb")], {}, RULES, NOW)
    assert (found.card, found.pods) == ("GPU-x", ("team/q",))


def test_a_card_whose_cut_failed_is_cut_no_more_and_another_is() -> None:
    wish = at("2g.20gb@2")
    cut = managed(WHOLE, wish=wish, state=LayoutState.FAILED, record=record(wish))
    (found,) = choose(
        [cut, managed(a_card("GPU-x", cut=False))], [waits("team/p", "2g.20gb")], {}, RULES, NOW
    )
    assert found.card == "GPU-x"


@pytest.mark.parametrize(
    "kept",
    [
        managed(WHOLE, is_followed=False),
        managed(WHOLE, wish=None),
        managed(WHOLE, wish=None, record=record(at("1g.10gb@0"))),
        managed(WHOLE, wish=None, record=record(None, dt.timedelta(minutes=4))),
    ],
    ids=["no agent", "a person's", "a person's since", "just made whole"],
)
def test_a_card_that_is_not_to_be_changed_stays(kept: ManagedCard) -> None:
    assert not choose([kept], [waits("team/p", "2g.20gb")], {}, RULES, NOW)


def unused(name: str, *instances: str, minutes: float = 10, **more: object) -> ManagedCard:
    """A card that was cut on demand."""
    layout = at(*instances)
    since = NOW - dt.timedelta(minutes=minutes)
    card = a_card(name, *instances)
    fields = {"wish": layout, "state": LayoutState.SUCCESS, "record": record(layout), "unused_since": since}
    return msgspec.structs.replace(managed(card), **{**fields, **more})


def test_cards_that_serve_nothing_are_made_whole_for_work_that_needs_as_many() -> None:
    cards = [unused("GPU-a", "1g.10gb@0"), unused("GPU-b", "2g.20gb@0"), unused("GPU-c", "3g.40gb@0")]
    assert not choose(cards, [], {}, RULES, NOW), "as long as nothing waits for whole cards they stay"
    assert choose(cards, [], {"n": 2}, RULES, NOW) == [
        NewLayout("n", DeviceId("GPU-a"), None),
        NewLayout("n", DeviceId("GPU-b"), None),
    ]
    assert not choose(cards, [], {"n": 4}, RULES, NOW), "three start nothing that lacks four"
    two = choose(cards, [waits("team/p", "1g.10gb")], {"n": 2}, RULES, NOW)
    assert [one.card for one in two] == ["GPU-b", "GPU-c"], "GPU-a serves a pod that waits"


@pytest.mark.parametrize(
    "kept",
    [
        unused("GPU-a", "1g.10gb@0", minutes=9),
        unused("GPU-a", "1g.10gb@0", unused_since=None),
        unused("GPU-a", "1g.10gb@0", record=None),
        unused("GPU-a", "1g.10gb@0", card=a_card("GPU-a", "1g.10gb@0", held=("1g.10gb@0",))),
    ],
    ids=["a short while", "in use until now", "cut by a person", "in use"],
)
def test_a_card_is_not_made_whole_too_soon(kept: ManagedCard) -> None:
    assert not choose([kept], [], {"n": 1}, RULES, NOW)


def test_cards_on_their_way_to_be_whole_count() -> None:
    going = unused("GPU-a", "1g.10gb@0", wish=None, state=LayoutState.PENDING, record=record(None))
    assert not choose([going, unused("GPU-b", "1g.10gb@0")], [], {"n": 1}, RULES, NOW)


@pytest.mark.parametrize(
    ("state", "age_s", "taken_back"),
    [
        (None, 300, True),
        (LayoutState.WAITING, 300, True),
        (None, 299, False),
        (LayoutState.PENDING, 3600, False),
        (LayoutState.FAILED, 3600, False),
    ],
)
def test_a_cut_that_does_not_begin_is_taken_back(
    state: LayoutState | None, age_s: float, *, taken_back: bool
) -> None:
    wish = at("2g.20gb@2")
    age = dt.timedelta(seconds=age_s)
    whole = managed(WHOLE, wish=wish, state=state, record=record(wish, age, "team/p"))
    before = at("1g.10gb@0")
    cut = managed(a_card("GPU-a", "1g.10gb@0"), wish=wish, state=state, record=record(wish, age, "team/p"))
    expected = [NewLayout("n", DeviceId("GPU-w"), None), NewLayout("n", DeviceId("GPU-a"), before)]
    assert choose([whole, cut], [], {}, RULES, NOW) == (expected if taken_back else [])
    person = managed(WHOLE, wish=wish, state=state)
    assert not choose([person], [], {}, RULES, NOW)
