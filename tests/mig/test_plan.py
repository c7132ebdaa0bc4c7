"""Plans: what is in use is never touched, who came first is served, and all fit who can fit on a card."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.mig.cards import MigCard
from gpufleet.mig.plan import MigPlan, Wanted, plan
from gpufleet.mig.steps import MakeInstance, RemoveInstance, SwitchMode
from gpufleet.model.identifiers import DeviceId
from tests.mig.mig_cards import H100, Driver, a_card, at

LAYOUTS = tuple(H100.layouts())
PROFILES = tuple(one.name for one in H100.profiles)


def wanted(*profiles: str) -> list[Wanted]:
    """One asker for each profile."""
    return [Wanted(f"pod-{number}", (profile,)) for number, profile in enumerate(profiles)]


def places(found: MigPlan) -> list[tuple[str, str, int]]:
    """Card, profile and start of each placement."""
    return [(one.card, one.instance.profile, one.instance.start) for one in found.placements]


def done(cards: Iterable[MigCard], found: MigPlan) -> dict[str, Driver]:
    """Each card after the steps, by a driver that refuses what real ones refuse."""
    drivers: dict[str, Driver] = {one.id: Driver(one) for one in cards}
    for step in found.steps:
        drivers[step.card].do([step])
    return drivers


@st.composite
def cards_as_they_are(draw: st.DrawFn) -> list[MigCard]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        name, node = f"GPU-{number}", f"node-{draw(st.integers(1, 2))}"
        layout = draw(st.sampled_from(LAYOUTS))
        if draw(st.booleans()):
            uses = [draw(st.booleans()) for _ in layout]
            held = tuple(one for one, use in zip(layout, uses, strict=True) if use)
            found.append(a_card(name, held, tuple(one for one in layout if one not in held), node=node))
        else:
            found.append(a_card(name, mig_enabled=False, in_use=draw(st.booleans()), node=node))
    return found


requests = st.lists(
    st.tuples(
        st.lists(st.sampled_from(PROFILES), min_size=1, max_size=3).map(tuple),
        st.sampled_from([None, frozenset({"node-1"})]),
    ),
    max_size=8,
)


@given(cards_as_they_are(), requests)
def test_nothing_in_use_is_touched_and_every_placement_is_there_in_the_end(
    cards: list[MigCard], asked: list[tuple[tuple[str, ...], frozenset[str] | None]]
) -> None:
    who = [Wanted(f"pod-{at}", profiles, nodes) for at, (profiles, nodes) in enumerate(asked)]
    found = plan(cards, who)
    drivers = done(cards, found)
    served, refused = ({one.asker for one in part} for part in (found.placements, found.unplaced))
    assert served | refused == {one.asker for one in who}
    assert not served & refused
    taken = {(one.card, one.instance) for one in found.placements}
    assert len(taken) == len(found.placements), "an instance is given twice"
    for one in found.placements:
        assert one.instance in drivers[one.card].there
        assert one.instance not in drivers[one.card].card.held
    for asked_for in who:
        got = [placement for placement in found.placements if placement.asker == asked_for.asker]
        assert not got or sorted(each.instance.profile for each in got) == sorted(asked_for.profiles)
        assert len({each.node for each in got}) <= 1
        assert asked_for.nodes is None or {each.node for each in got} <= asked_for.nodes


def test_all_that_fit_on_a_card_together_are_served_whatever_is_in_use() -> None:
    """Exhaustive: every set of slices in use, and every set of instances that fits beside it."""
    held_by_slices = {H100.taken(layout): layout for layout in LAYOUTS}
    rest: dict[int, set[tuple[str, ...]]] = {slices: set() for slices in held_by_slices}
    for layout in LAYOUTS:
        profiles, slices = tuple(sorted(one.profile for one in layout)), H100.taken(layout)
        for held, fitting in rest.items():
            if not held & slices:
                fitting.add(profiles)
    assert sum(map(len, rest.values())) > 500
    for slices, fitting in rest.items():
        card = a_card(held=held_by_slices[slices])
        for profiles in fitting:
            found = plan([card], wanted(*profiles))
            assert not found.unplaced, (held_by_slices[slices], profiles)


def test_an_instance_that_exists_is_taken_before_one_is_made() -> None:
    cards = [a_card("GPU-0"), a_card("GPU-1", unused=at("2g.20gb@0"))]
    found = plan(cards, wanted("2g.20gb"))
    assert places(found) == [("GPU-1", "2g.20gb", 0)]
    assert found.placements[0].exists
    assert found.steps == ()


def test_unused_instances_go_only_where_they_are_in_the_way() -> None:
    card = a_card(held=at("2g.20gb@4"), unused=at("1g.10gb@6", "1g.10gb@0", "1g.10gb@1"))
    found = plan([card], wanted("4g.40gb"))
    (large,) = at("4g.40gb@0")
    removed = [RemoveInstance(DeviceId("GPU-0"), one) for one in at("1g.10gb@0", "1g.10gb@1")]
    assert found.steps == (*removed, MakeInstance(DeviceId("GPU-0"), large))


def test_the_card_is_taken_that_loses_least_and_whole_cards_stay_whole() -> None:
    cards = [
        a_card("GPU-0", mig_enabled=False),
        a_card("GPU-1"),
        a_card("GPU-2", held=at("3g.40gb@4", "1g.10gb@0")),
    ]
    assert places(plan(cards, wanted("1g.10gb"))) == [("GPU-2", "1g.10gb", 1)]
    found = plan(cards, wanted("7g.80gb", "7g.80gb"))
    assert places(found) == [("GPU-1", "7g.80gb", 0), ("GPU-0", "7g.80gb", 0)]
    assert [step for step in found.steps if isinstance(step, SwitchMode)] == [
        SwitchMode(DeviceId("GPU-0"), enabled=True, reset=False)
    ]


def test_instances_for_one_pod_are_on_one_node() -> None:
    cards = [
        a_card("GPU-0", held=at("4g.40gb@0"), node="node-1"),
        a_card("GPU-1", held=at("4g.40gb@0"), node="node-2"),
        a_card("GPU-2", held=at("4g.40gb@0"), node="node-2"),
    ]
    both = Wanted("default/pair", ("3g.40gb", "3g.40gb"))
    assert {one.node for one in plan(cards, [both]).placements} == {"node-2"}
    (refused,) = plan(cards[:2], [both]).unplaced
    assert refused.reason == (
        "of 2 cards with 3g.40gb and 3g.40gb, 2 without room beside what is in use or planned"
    )


def test_who_came_first_is_served_where_not_all_can_be() -> None:
    found = plan([a_card()], wanted("1g.10gb", "7g.80gb", "3g.40gb", "4g.40gb"))
    assert [one.asker for one in found.unplaced] == ["pod-1", "pod-3"]


def test_a_refusal_counts_the_cards() -> None:
    cards = [
        a_card("GPU-0", mig_enabled=False, in_use=True),
        a_card("GPU-1", held=at("1g.10gb@2")),
        a_card("GPU-2", board="A30"),
    ]
    found = plan(cards, wanted("4g.40gb", "5g.50gb"))
    assert [one.reason for one in found.unplaced] == [
        "of 2 cards with 4g.40gb, 1 in use as a whole and 1 without room beside what is in use or planned",
        "no card that it may use can be cut into 5g.50gb",
    ]


def test_an_instance_with_media_engines_is_made_once() -> None:
    found = plan([a_card()], wanted("1g.10gb+me", "1g.10gb+me"))
    assert [one.asker for one in found.unplaced] == ["pod-1"]


def test_members_of_a_group_get_their_instances_all_or_none_on_any_nodes() -> None:
    cards = [a_card("GPU-0", node="node-1"), a_card("GPU-1", node="node-2")]
    two = [Wanted(f"g-{number}", ("7g.80gb",), group="g") for number in range(2)]
    single = Wanted("single", ("7g.80gb",))
    assert {one.node for one in plan(cards, two).placements} == {"node-1", "node-2"}
    found = plan(cards, [*two, Wanted("g-2", ("7g.80gb",), group="g"), single])
    assert [one.asker for one in found.unplaced] == ["g-0", "g-1", "g-2"]
    assert [one.asker for one in found.placements] == ["single"]
