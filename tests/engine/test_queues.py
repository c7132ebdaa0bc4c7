"""Whose turn it is without quota: priority, age, strict queues."""

from tests.engine.fleet_builder import Story, gang, members, node, placed, pod, shape


def test_higher_priority_goes_first_then_age_then_arrival() -> None:
    told = Story()
    told.arrive(
        pod("young", shape(1), created_at_us=9),
        pod("old", shape(1), created_at_us=1),
        pod("old too", shape(1), created_at_us=1),
        pod("urgent", shape(1), priority=5, created_at_us=20),
    )
    assert placed(told.nodes(node("n", 8))) == ["urgent", "old", "old too", "young"]


def test_work_that_is_described_anew_behind_the_head_of_its_line_waits_where_it_belongs_now() -> None:
    told = Story()
    told.arrive(*(pod(name, shape(1)) for name in "abc"))
    told.arrive(pod("b", shape(2)))
    told.nodes(node("n", 8))
    assert {name: len(devices) for name, (_, devices) in told.binds.items()} == {"a": 1, "b": 2, "c": 1}


def test_a_queue_of_higher_priority_goes_first() -> None:
    told = Story()
    told.queue("vip", priority=1)
    told.arrive(pod("urgent", shape(1), priority=9), pod("vip", shape(1), queue="vip"))
    assert placed(told.nodes(node("n", 1))) == ["vip"]


def test_equal_queues_are_served_as_one() -> None:
    told = Story()
    told.arrive(
        pod("a1", shape(1), queue="a"), pod("b1", shape(1), queue="b"), pod("a2", shape(1), queue="a")
    )
    assert placed(told.nodes(node("n", 8))) == ["a1", "b1", "a2"]


def test_smaller_work_overtakes_in_an_ordinary_queue() -> None:
    told = Story()
    told.nodes(node("n", 2))
    assert placed(told.arrive(pod("large", shape(4)), pod("small", shape(1)))) == ["small"]


def test_nothing_overtakes_the_head_of_a_strict_queue() -> None:
    told = Story()
    told.queue("team", strict=True)
    told.nodes(node("n", 2))
    told.arrive(pod("large", shape(4), queue="team"), pod("small", shape(1), queue="team"))
    assert told.binds == {}
    told.wait_s(1)
    told.arrive(pod("smaller", shape(), queue="team"))
    told.nodes(node("m", 2))
    assert told.binds == {}, "later steps respect it too"
    assert placed(told.arrive(pod("elsewhere", shape(1)))) == ["elsewhere"]


def test_what_stood_behind_a_strict_head_goes_on_when_the_head_leaves() -> None:
    told = Story()
    told.queue("team", strict=True)
    told.nodes(node("n", 2))
    told.arrive(
        *(
            pod(uid, needs, queue="team")
            for uid, needs in (("large", shape(4)), ("a", shape(1)), ("b", shape(1)))
        )
    )
    told.depart("a")
    assert placed(told.depart("large")) == ["b"]


def test_more_urgent_work_goes_before_the_head_that_waits_in_a_strict_queue() -> None:
    told = Story()
    told.queue("team", strict=True)
    told.nodes(node("n", 2))
    told.arrive(pod("large", shape(4), queue="team"))
    assert placed(told.arrive(pod("urgent", shape(1), queue="team", priority=1))) == ["urgent"]
    assert placed(told.arrive(pod("later", shape(), queue="team"))) == []


def test_a_strict_queue_that_becomes_ordinary_lets_everyone_go() -> None:
    told = Story()
    told.queue("team", strict=True)
    told.nodes(node("n", 2))
    told.arrive(pod("large", shape(4), queue="team"), pod("small", shape(1), queue="team"))
    assert placed(told.queue("team", strict=False)) == ["small"]


def test_what_a_running_gang_would_still_like_to_have_holds_nobody_back() -> None:
    told = Story()
    told.queue("team", strict=True)
    told.nodes(node("n", 2))
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(*members("g", 4, shape(1)))
    assert len(told.binds) == 2
    assert placed(told.arrive(pod("small", queue="team"))) == ["small"]


def test_a_gang_that_cannot_start_holds_back_a_strict_queue() -> None:
    told = Story()
    told.queue("team", strict=True)
    told.nodes(node("n", 2))
    told.gangs(gang("g", 3, queue="team"))
    told.arrive(*members("g", 3, shape(1)))
    assert placed(told.arrive(pod("small", queue="team"))) == []
