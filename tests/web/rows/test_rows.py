"""Rows of the page from what is known: who holds each card, what a person may see, what is unknown."""

from typing import Any

import msgspec

from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.overview.rows.known import FleetPart, Known
from gpufleet.overview.rows.pod_facts import PodFact, PodFacts
from gpufleet.web.documents import Holder, NodeRow
from gpufleet.web.rights import ALL, Rights
from gpufleet.web.rows.cards import cards_of
from gpufleet.web.rows.decisions import decision_row
from gpufleet.web.rows.fleet import fleet_row
from gpufleet.web.rows.nodes import node_row
from gpufleet.web.rows.queues import queue_rows
from tests.overview.known_values import NOW, node, pod, report

OF_TEAM = Rights(frozenset({"team"}))


def fact(one: Pod) -> PodFact:
    found = PodFacts("gpufleet").read(one, {})
    assert found is not None
    return found


def held(name: str, uid: str, **more: Any) -> NodeDevices:
    """A report of two cards, of which the first is held."""
    devices = [{"id": f"GPU-{name}-{number}", "model": "H100", "memoryMiB": 80_000} for number in range(2)]
    holders = [{"device": f"GPU-{name}-0", "podUID": uid, **more}]
    value = {"metadata": {"name": name}, "spec": {"devices": devices, "holders": holders}}
    return msgspec.convert(value, NodeDevices)


def holders_of(one: NodeDevices, placed: list[PodFact], rights: Rights, *, has_all: bool = True) -> Any:
    return cards_of(one, placed, rights, has_all_pods=has_all)[0].holders


def test_a_pod_that_holds_a_card_is_named_with_its_queue() -> None:
    placed = fact(pod("train", on="n", uid="u", labels={"gpufleet.io/queue": "vision"}))
    assert holders_of(held("n", "u"), [placed], ALL) == (Holder(1000, "team", "train", "vision"),)


def test_a_pod_of_another_namespace_keeps_its_amount_and_loses_its_name_and_its_queue() -> None:
    labels = {"gpufleet.io/queue": "secret"}
    placed = fact(pod("train", on="n", uid="u", namespace="other", labels=labels))
    (holder,) = holders_of(held("n", "u", gpuMilli=500), [placed], OF_TEAM)
    assert holder == Holder(500)
    assert not holder.is_process


def test_a_holder_that_is_no_pod_is_a_process_only_where_all_pods_are_known() -> None:
    assert holders_of(held("n", "u"), [], ALL) == (Holder(1000, is_process=True),)
    assert holders_of(held("n", "u"), [], ALL, has_all=False) == (Holder(1000),)
    assert holders_of(held("n", ""), [], OF_TEAM, has_all=False) == (Holder(1000, is_process=True),)


def known(*pods: Pod, devices: NodeDevices | None = None) -> Known:
    return Known(
        NOW,
        "gpufleet",
        pods={(one.metadata.namespace, one.metadata.name): one for one in pods},
        nodes={("", "n"): node("n", gpus=2)},
        devices={} if devices is None else {("", "n"): devices},
    )


def test_free_gpus_are_whole_healthy_cards_of_a_node_that_takes_work() -> None:
    row = node_row("n", [], known(devices=held("n", "u")), ALL)
    assert row is not None
    assert (row.gpus, row.free_gpus, row.state) == (2, 1, "ready")
    unwell = node_row("n", [], known(devices=report("n", gpus=2, unwell=1)), ALL)
    assert unwell is not None
    assert (unwell.free_gpus, unwell.gpus_unwell) == (1, 1)


def test_a_pod_whose_card_no_one_names_yet_leaves_fewer_free() -> None:
    placed = fact(pod("plain", on="n", uid="p"))
    row = node_row("n", [placed], known(placed.pod, devices=report("n", gpus=2)), ALL)
    assert row is not None
    assert (row.gpus_held, row.free_gpus) == (1.0, 1)
    assert [card.held_milli for card in row.cards] == [0, 0]


def test_without_the_right_to_list_nodes_there_is_no_row_and_without_that_to_reports_no_card() -> None:
    all_of_it = known(devices=held("n", "u"))
    assert node_row("n", [], all_of_it, Rights(nodes=False)) is None
    few = all_of_it.without(FleetPart.DEVICES, "you may not list nodedevices")
    row = node_row("n", [], few, Rights(devices=False))
    assert row is not None
    assert (row.state, row.cards, row.gpus_unwell, row.free_gpus) == ("ready", (), None, None)


def test_sums_say_how_free_gpus_lie() -> None:
    nodes = [
        NodeRow("a", "ready", gpus=8, gpus_held=0.0, free_gpus=8),
        NodeRow("b", "ready", gpus=8, gpus_held=5.0, free_gpus=3),
    ]
    row = fleet_row(nodes, 4)
    assert (row.free_gpus, row.largest_free_block, row.fragmented_gpus) == (11, 8, 3)
    assert row.free_blocks == {"1": 11, "2": 5, "4": 2, "8": 1}


def test_sizes_of_pods_go_up_to_a_whole_node_of_the_largest() -> None:
    nodes = [NodeRow("a", "ready", gpus=16, gpus_held=0.0, free_gpus=16), NodeRow("b", "ready", gpus=4)]
    assert fleet_row([nodes[0]], 0).free_blocks == {"1": 16, "2": 8, "4": 4, "8": 2, "16": 1}
    assert fleet_row(nodes, 0).free_blocks == {}


def test_what_one_node_does_not_tell_is_unknown_of_all() -> None:
    row = fleet_row([NodeRow("a", "?"), NodeRow("b", "ready", gpus=8, gpus_held=1.0, free_gpus=7)], None)
    assert (row.gpus_held, row.free_gpus, row.largest_free_block) == (None, None, None)
    assert row.free_blocks == {}


def test_an_empty_fleet_has_no_gpus_and_that_is_known() -> None:
    assert fleet_row([], 0).free_gpus == 0


def test_without_the_right_to_list_queues_there_are_none() -> None:
    assert queue_rows(known(), Rights(queues=False)) == []


def test_a_decision_is_the_newest_condition_with_its_time() -> None:
    waits = pod("a", why="no room")
    assert decision_row(fact(waits)) is None
    value = msgspec.to_builtins(waits)
    value["status"]["conditions"][0]["lastTransitionTime"] = "2026-03-01T11:30:00Z"
    row = decision_row(fact(msgspec.convert(value, Pod)))
    assert row is not None
    assert (row.key, row.at, row.text) == ("pod/team/a", "2026-03-01T11:30:00Z", "no room")
