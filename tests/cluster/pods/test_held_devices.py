"""Where the pods of a node are booked, and who gives way, by what was granted and what is held."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.cluster.pods.held_devices import Claim, Conflict, booked, conflicts
from gpufleet.model.identifiers import DeviceId, PodUid
from gpufleet.model.shape import GpuRequest

WHOLE = GpuRequest(1, 1000)
HALF = GpuRequest(1, 500)
MEMORY_MIB = {DeviceId(f"g{number}"): 80000 for number in range(6)}


def claim(
    uid: str, granted: str = "", held: str = "", *, at_us: int = 0, request: GpuRequest | None = None
) -> Claim:
    """A pod with the devices of these names, by spaces."""
    ids = [tuple(DeviceId(name) for name in names.split()) for names in (granted, held)]
    asked = request or GpuRequest(max(map(len, ids)), 1000)
    return Claim(PodUid(uid), asked, ids[0], ids[1], placed_at_us=at_us)


def places(*claims: Claim) -> dict[str, str]:
    return {uid: " ".join(str(device) for device in devices) for uid, devices in booked(claims).items()}


def who_gives_way(*claims: Claim) -> list[str]:
    return [one.uid for one in conflicts(claims, booked(claims), MEMORY_MIB)]


def test_a_pod_of_which_nothing_is_reported_is_booked_as_granted() -> None:
    assert places(claim("a", "g0"), claim("b", "g1 g2")) == {"a": "g0", "b": "g1 g2"}


def test_what_is_held_counts_and_not_what_was_granted() -> None:
    assert places(claim("a", "g0", "g3")) == {"a": "g3"}


def test_swapped_twins_are_both_moved() -> None:
    both = claim("a", "g0", "g1"), claim("b", "g1", "g0")
    assert places(*both) == {"a": "g1", "b": "g0"}
    assert who_gives_way(*both) == []


def test_while_one_twin_is_reported_the_other_is_booked_on_what_that_one_left() -> None:
    both = claim("a", "g0", "g1"), claim("b", "g1")
    assert places(*both) == {"a": "g1", "b": "g0"}
    assert who_gives_way(*both) == []


def test_what_was_left_and_granted_again_is_not_given_to_a_third() -> None:
    claims = claim("a", "g0", "g1"), claim("b", "g1", at_us=1), claim("c", "g0", at_us=2)
    assert places(*claims) == {"a": "g1", "b": "g1", "c": "g0"}
    assert who_gives_way(*claims) == ["b"]


def test_a_device_that_two_pods_left_is_given_to_a_third_once() -> None:
    left_both = claim("a", "g0", "g1"), claim("b", "g0", "g2")
    claims = *left_both, claim("c", "g1 g2", at_us=1)
    assert places(*claims) == {"a": "g1", "b": "g2", "c": "g0 g2"}
    told = conflicts(claims, booked(claims), MEMORY_MIB)
    assert told == [Conflict(PodUid("c"), DeviceId("g2"), (PodUid("b"),))]


def test_who_holds_a_device_stays_and_who_only_was_granted_it_gives_way() -> None:
    stranger = claim("stranger", "", "g0", at_us=9)
    granted = claim("granted", "g0", at_us=1)
    assert who_gives_way(stranger, granted) == ["granted"]


def test_of_two_that_hold_a_device_the_later_gives_way() -> None:
    claims = claim("late", "g0", "g0", at_us=2), claim("early", "g0", "g0", at_us=1)
    told = conflicts(claims, booked(claims), MEMORY_MIB)
    assert told == [Conflict(PodUid("late"), DeviceId("g0"), (PodUid("early"),))]


def test_shares_that_fit_are_no_conflict_and_the_latest_that_does_not_fit_gives_way() -> None:
    shares = [claim(name, "g0", "g0", at_us=at, request=HALF) for at, name in enumerate("abc")]
    assert who_gives_way(*shares[:2]) == []
    assert who_gives_way(*shares) == ["c"]


def test_shares_conflict_in_memory_too() -> None:
    def by_memory(uid: str, memory_mib: int, at_us: int) -> Claim:
        return claim(uid, "g0", at_us=at_us, request=GpuRequest(1, 0, memory_mib))

    assert who_gives_way(by_memory("a", 50000, 1), by_memory("b", 30000, 2)) == []
    assert who_gives_way(by_memory("a", 50000, 1), by_memory("b", 30001, 2)) == ["b"]


def test_shares_that_run_are_not_ended_when_their_card_has_less_memory_than_it_had() -> None:
    shares = [
        claim(uid, "g0", "g0", at_us=at, request=GpuRequest(1, 500, 40001)) for at, uid in enumerate("ab")
    ]
    assert who_gives_way(*shares) == []


def test_a_whole_pod_and_a_share_do_not_fit_together() -> None:
    assert who_gives_way(claim("w", "g0", "g0", at_us=1), claim("s", "g0", at_us=2, request=HALF)) == ["s"]


def test_replicas_fit_as_many_as_the_kubelet_says() -> None:
    replica = frozenset({DeviceId("g0")})
    claims = [
        Claim(PodUid(f"p{at}"), WHOLE, (), (DeviceId("g0"),), replicas=replica, placed_at_us=at)
        for at in range(5)
    ]
    assert who_gives_way(*claims) == []


@st.composite
def nodes(draw: st.DrawFn) -> list[Claim]:
    """Pods whose grants do not overlap, some of which hold what the kubelet chose, each device once."""
    order = draw(st.permutations(sorted(MEMORY_MIB)))
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    held_order = draw(st.permutations(order))
    claims, at = [], 0
    for number, size in enumerate(sizes):
        granted, held = tuple(order[at : at + size]), tuple(held_order[at : at + size])
        reported = draw(st.booleans())
        claims.append(
            Claim(
                PodUid(f"p{number}"),
                GpuRequest(size, 1000),
                granted,
                held if reported else (),
                placed_at_us=draw(st.integers(0, 3)),
            )
        )
        at += size
    return claims


@given(nodes())
def test_everybody_has_as_many_as_asked_what_is_held_and_nobody_else_when_others_gave_way(
    claims: list[Claim],
) -> None:
    found = booked(claims)
    for one in claims:
        assert len(found[one.uid]) == one.request.count
        assert set(one.held) <= set(found[one.uid])
    giving_way = {one.uid for one in conflicts(claims, found, MEMORY_MIB)}
    assert not any(one.held for one in claims if one.uid in giving_way), "what the kubelet gave once is kept"
    kept = Counter(device for uid, devices in found.items() if uid not in giving_way for device in devices)
    assert set(kept.values()) <= {1}


@given(nodes(), st.randoms())
def test_the_order_in_which_pods_are_seen_changes_nothing(claims: list[Claim], random: Random) -> None:
    shuffled = list(claims)
    random.shuffle(shuffled)
    assert booked(claims) == booked(shuffled)
    told = conflicts(claims, booked(claims), MEMORY_MIB)
    assert sorted(told, key=repr) == sorted(conflicts(shuffled, booked(shuffled), MEMORY_MIB), key=repr)


@st.composite
def crowds(draw: st.DrawFn) -> list[Claim]:
    """Whole GPUs, shares and replicas on three cards, granted and held in any way."""
    cards = [DeviceId(f"g{number}") for number in range(3)]
    some = st.lists(st.sampled_from(cards), unique=True, max_size=2)
    claims = []
    for number in range(draw(st.integers(1, 5))):
        granted, held = tuple(draw(some)), tuple(draw(some))
        is_share = draw(st.booleans())
        memory_mib = draw(st.sampled_from((None, 20000, 50000)))
        count = max(1, len(granted), len(held))
        share = GpuRequest(count, draw(st.sampled_from((0, 300, 600))), memory_mib)
        whole = GpuRequest(count, 1000)
        parts = draw(st.sampled_from((frozenset(), frozenset(held))))
        claims.append(
            Claim(
                PodUid(f"p{number}"),
                share if is_share else whole,
                granted,
                held,
                replicas=frozenset() if is_share else parts,
                placed_at_us=draw(st.integers(0, 2)),
            )
        )
    return claims


@settings(max_examples=400)
@given(crowds())
def test_a_pod_that_holds_nothing_is_moved_off_a_gpu_that_another_holds_while_one_was_left(
    claims: list[Claim],
) -> None:
    found = booked(claims)
    holders = [one for one in claims if one.held]
    wholly = [one for one in holders if one.request.whole]
    taken = {device for one in wholly for device in one.held if device not in one.replicas}
    waiting = [one for one in claims if not one.held]
    kept = {device for one in holders for device in one.held} | {
        one for each in waiting for one in each.granted
    }
    left = {device for one in wholly for device in one.granted} - kept
    moved = []
    for one in claims:
        as_told = [*one.held, *(device for device in one.granted if device not in one.held)]
        if one.held or not one.request.whole:
            assert list(found[one.uid])[: len(as_told)] == as_told[: one.request.count]
            continue
        for was, now in zip(one.granted, found[one.uid], strict=False):
            if was != now:
                assert was in taken, "nobody has the GPU that it was granted"
                moved.append(now)
    assert not Counter(moved) - Counter(left)
    staying = [device for one in waiting if one.request.whole for device in found[one.uid] if device in taken]
    assert not staying or len(moved) == len(left)


def have_room(device: DeviceId, together: list[Claim]) -> bool:
    """True if these pods can have one card, by what each was promised of it."""
    if len(together) < 2:
        return True
    parts = [one.request for one in together if not one.request.whole]
    if any(one.request.whole and device not in one.replicas for one in together):
        return False
    run_already = all(one.held for one in together)
    total_mib = MEMORY_MIB[device]
    memory_mib = [
        total_mib * one.gpu_milli // 1000 if one.memory_mib is None else one.memory_mib for one in parts
    ]
    return sum(one.gpu_milli for one in parts) <= 1000 and (run_already or sum(memory_mib) <= total_mib)


@settings(max_examples=400)
@given(crowds())
def test_those_give_way_who_came_last_to_a_card_that_has_no_room_for_them(claims: list[Claim]) -> None:
    found = booked(claims)
    in_order = sorted(claims, key=lambda one: (not one.held, one.placed_at_us, one.uid))
    expected: dict[PodUid, set[DeviceId]] = {}
    for device in MEMORY_MIB:
        staying: list[Claim] = []
        for one in in_order:
            if device in found[one.uid]:
                if have_room(device, [*staying, one]):
                    staying.append(one)
                else:
                    expected.setdefault(one.uid, set()).add(device)
    told = conflicts(claims, found, MEMORY_MIB)
    assert {one.uid for one in told} == expected.keys()
    assert all(one.device in expected[one.uid] and one.uid not in one.holders for one in told)
    assert len(told) == len(expected), "each gives way once"
