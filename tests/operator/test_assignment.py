"""One field of one node has one policy."""

from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.operator.assignment import Assigned, RefusalKind, assign, nodes_by_refusal, with_nodes
from gpufleet.operator.node_facts import NodeFacts
from tests.operator.builders import DIGEST, OTHER_DIGEST, TOOLKIT, node, policy


def assigned(*policies: FleetPolicy, nodes: tuple[NodeFacts, ...] = ()) -> list[Assigned]:
    return list(assign(policies, nodes or (node(),)).values())


def test_a_policy_holds_for_the_nodes_that_it_selects() -> None:
    one = policy("one", labels={"tier": "gold"})
    inside, outside = assigned(one, nodes=(node("a"), node("b", labels={"gpu": "no"})))
    assert inside.holding == (one,)
    assert outside.selecting == ()


def test_two_policies_share_a_node_where_they_speak_of_different_fields() -> None:
    first, second = policy("first", labels={"tier": "gold"}), policy("second", labels={"zone": "a"})
    (found,) = assigned(second, first)
    assert found.holding == (first, second)
    assert found.refusals == ()


def test_a_contradiction_is_refused_with_both_names_and_what_each_says() -> None:
    first, second = policy("first", labels={"tier": "gold"}), policy("second", labels={"tier": "tin"})
    (found,) = assigned(second, first)
    assert found.holding == ()
    (refusal,) = found.refusals
    assert refusal.kind is RefusalKind.CONTRADICTION
    assert refusal.policies == ("first", "second")
    assert refusal.sentence() == (
        "first and second set labels[tier] to gold and to tin; "
        "take it out of one of them, or select other nodes"
    )


def test_an_overlap_is_refused_though_both_agree() -> None:
    (found,) = assigned(policy("first", migLayout="all-1g"), policy("second", migLayout="all-1g"))
    (refusal,) = found.refusals
    assert refusal.kind is RefusalKind.OVERLAP
    assert refusal.sentence() == "first and second both set migLayout to all-1g; keep it in one of them"


def test_drivers_of_two_policies_contradict_each_other() -> None:
    image = {"source": "Image", "image": DIGEST}
    other = {"source": "Image", "image": OTHER_DIGEST}
    (found,) = assigned(policy("first", driver=image), policy("second", driver=other))
    assert [one.field for one in found.refusals] == ["driver"]


def test_the_images_of_one_node_come_from_one_policy() -> None:
    """A node is in one rollout at a time: the other would wait for its end for ever."""
    runtime = {"mode": "Toolkit", "image": TOOLKIT}
    image = {"source": "Image", "image": DIGEST}
    (found,) = assigned(policy("first", driver=image), policy("second", runtime=runtime))
    (refusal,) = found.refusals
    assert (refusal.kind, refusal.refused) == (RefusalKind.TWO_ROLLOUTS, ("first", "second"))
    assert refusal.sentence() == (
        "first and second bring one node its driver and its toolkit, which is one rollout; "
        "name both in one of them"
    )
    (found,) = assigned(policy("first", driver={"source": "Host"}), policy("second", runtime=runtime))
    assert found.refusals == ()


def test_one_image_is_started_in_one_way_on_all_nodes() -> None:
    """The pods of an image are of one DaemonSet, so each policy would change what the other one wants."""
    open_one, own = (
        {"source": "Image", "image": DIGEST, "kernelModules": one} for one in ("Open", "Proprietary")
    )
    nodes = (node("a", labels={"pool": "a"}), node("b", labels={"pool": "b"}))
    first = policy("first", {"pool": "a"}, driver=open_one)
    found = assigned(first, policy("second", {"pool": "b"}, driver=own), nodes=nodes)
    assert [one.holding for one in found] == [(), ()]
    assert {one.refusals for one in found} == {found[0].refusals}
    assert found[0].refusals[0].sentence() == (
        "first and second start one driver image with kernelModules Open and Proprietary; "
        "name the same in both, or another image"
    )
    both = assigned(first, policy("second", {"pool": "b"}, driver=open_one), nodes=nodes)
    assert [len(one.holding) for one in both] == [1, 1]


def test_taints_of_one_key_with_different_effects_are_different_fields() -> None:
    soft, hard = ({"key": "gpu", "effect": effect} for effect in ("PreferNoSchedule", "NoExecute"))
    (found,) = assigned(policy("first", taints=[soft]), policy("second", taints=[hard]))
    assert found.refusals == ()


def test_a_third_policy_holds_where_two_others_are_refused() -> None:
    third = policy("third", labels={"zone": "a"})
    (found,) = assigned(policy("first", sharingConfig="a"), policy("second", sharingConfig="b"), third)
    assert found.holding == (third,)


def test_a_policy_that_writes_what_another_selects_by_is_refused_and_the_other_holds() -> None:
    writer = policy("writer", labels={"tier": "gold"})
    reader = policy("reader", select={"gpu": "yes", "tier": "tin"}, labels={"zone": "a"})
    (found,) = assigned(writer, reader, nodes=(node(labels={"tier": "tin"}),))
    assert found.holding == (reader,)
    (refusal,) = found.refusals
    assert refusal.kind is RefusalKind.SELECTOR
    assert refusal.sentence() == (
        "writer writes label tier, which reader selects nodes by; select by a label that no policy writes"
    )


def test_two_policies_that_would_swap_a_node_for_ever_are_both_refused() -> None:
    first = policy("first", select={"a": "1"}, labels={"b": "1"})
    second = policy("second", select={"b": "1"}, labels={"a": "2"})
    (found,) = assigned(first, second, nodes=(node(labels={"a": "1", "b": "1"}),))
    assert found.holding == ()


def test_no_policy_holds_for_a_node_that_opts_out() -> None:
    one = policy("one", labels={"tier": "gold"})
    (found,) = assigned(one, nodes=(node(labels={"gpufleet.io/fleet-policy": "ignore"}),))
    assert (found.selecting, found.holding) == ((one,), ())


def test_another_value_of_the_label_opts_out_of_nothing() -> None:
    one = policy("one", labels={"tier": "gold"})
    (found,) = assigned(one, nodes=(node(labels={"gpufleet.io/fleet-policy": "yes"}),))
    assert found.holding == (one,)


def test_a_refusal_is_told_once_with_its_nodes() -> None:
    policies = policy("first", sharingConfig="a"), policy("second", sharingConfig="b")
    found = assign(policies, [node(name) for name in ("c", "a", "b")])
    ((refusal, nodes),) = nodes_by_refusal(found).items()
    assert nodes == ("a", "b", "c")
    assert with_nodes(refusal, nodes).endswith("(on a, b and c)")
