"""Tenants try everything on a real API server: no device twice, no strangers' quota, no forged key.

The calls are random by a fixed seed; ``make soak-security`` goes on with other seeds and with faults beside.
"""

from pathlib import Path
from random import Random

import pytest

from tests.chaos.catalogue import make_faults
from tests.chaos.stage import play_on_stage
from tests.hostile.calls import OF_A_NODE, OF_A_TENANT, OF_AN_OPERATOR, Known, Thinker
from tests.hostile.people import MERGE, NONCE, RED, Call
from tests.hostile.play import ROWS, SECONDS, SEED, SETTING, SOAK_SETTING, Play

KNOWN = Known({RED: ("h-1",)}, ("gpu-001", "gpu-002"), {"gpu-001": ("GPU-1",), "gpu-002": ("GPU-2",)})
WAYS = (*(way for way, _ in OF_A_TENANT), *OF_A_NODE, *OF_AN_OPERATOR)


def test_hostile_tenants_gain_nothing(tmp_path: Path) -> None:
    play = Play(SEED)
    if SECONDS:
        faults = tuple(make_faults(ROWS, int(SEED)).values())
        play_on_stage(tmp_path, int(SEED), faults, play.long, SOAK_SETTING)
    else:
        play_on_stage(tmp_path, int(SEED), (), play.short, SETTING)
    print(play.verdict())  # noqa: T201  (a soak is watched)
    assert not play.broken, "\n".join([*play.broken, play.verdict()])


def test_the_same_seed_thinks_of_the_same_calls() -> None:
    one, other = (Thinker(Random("7/hostile")) for _ in range(2))
    assert [one.next(KNOWN) for _ in range(200)] == [other.next(KNOWN) for _ in range(200)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_is_one_call_with_its_mark(way: object) -> None:
    assert callable(way)
    thinker = Thinker(Random("1"))
    for _ in range(50):
        call = way(thinker)
        assert isinstance(call, Call)
        assert call.path.startswith(("/api/", "/apis/"))
        if call.content_type == MERGE:
            assert call.body["metadata"]["annotations"][NONCE] == call.nonce


def test_every_actor_and_every_way_comes_up() -> None:
    thinker = Thinker(Random("1"))
    calls = [thinker.next(KNOWN) for _ in range(2000)]
    assert {call.actor for call in calls} == {"red", "blue", "node", "errs"}
    assert {call.method for call in calls} == {"GET", "POST", "PATCH", "DELETE"}
