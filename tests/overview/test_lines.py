"""Each view's lines say what is known, and leave out what is not."""

from dataclasses import replace
from typing import Any

import pytest

from gpufleet.explain.queue_answer import PendingRow, QueueRow, ReservationRow, ResourceRow, WaitingRow
from gpufleet.kube.codec.selector_text import read_selector
from gpufleet.overview.rows.engine_report import GangReport
from gpufleet.overview.rows.known import FleetPart, Known
from gpufleet.top.showing import ViewLines, missing
from tests.overview.known_values import GIB, NOW, engine_report, known, measured, node, pod, report


def lines(view: str, seen: Known) -> list[Any]:
    return ViewLines("gpufleet").of(view, seen)[0]


def test_a_node_shows_what_is_held_and_measured() -> None:
    seen = known(node("a"), report("a"), pod("p", on="a", gpus=3), use={"a": measured(("p", 0.5, 40))})
    (line,) = lines("node", seen)
    assert (line.state, line.gpus, line.gpus_held, line.pods) == ("ready", 8, 3.0, 1)
    assert (line.busy_ratio, line.memory_used_bytes, line.power_watts) == (0.9, 40 * GIB, 500.0)


def test_what_was_not_measured_is_unknown_and_not_nothing() -> None:
    (line,) = lines("node", known(node("a"), report("a")))
    assert (line.busy_ratio, line.memory_used_bytes, line.power_watts, line.temperature_celsius) == (
        None,
    ) * 4
    assert line.gpus_held == 0


@pytest.mark.parametrize(
    ("objects", "state"),
    [
        ((node("a"), report("a")), "ready"),
        ((node("a", ready="Unknown"), report("a", unwell=1)), "not ready"),
        ((node("a"), report("a", unwell=2)), "2 unwell"),
        ((node("a", unschedulable=True), report("a")), "cordoned"),
        ((node("a"),), "no report"),
    ],
)
def test_a_node_shows_the_worst_of_its_states(objects: tuple[Any, ...], state: str) -> None:
    (line,) = lines("node", known(*objects))
    assert line.state == state
    assert bool(line.reason) is (state != "ready")


@pytest.mark.parametrize(
    ("part", "model"),
    [("::1", "H100-80GB shares"), ("::1g.10gb@4", "H100-80GB instances"), ("", "H100-80GB")],
)
def test_shares_and_instances_that_are_asked_for_as_gpus_are_called_so(part: str, model: str) -> None:
    (line,) = lines("node", known(node("a"), report("a", gpus=1, part=part)))
    assert line.model == model


def test_nodes_without_gpus_are_left_out() -> None:
    assert lines("node", known(node("cpu", gpus=0))) == []


def test_without_the_right_to_list_nodes_their_reports_are_shown() -> None:
    seen = known(report("a", holders=2), unread={FleetPart.NODES: "you may not list nodes"})
    (line,) = lines("node", seen)
    assert (line.name, line.state, line.reason) == ("a", "?", "you may not list nodes")


def test_without_the_right_to_list_pods_the_agents_word_counts_for_what_is_held() -> None:
    seen = known(node("a"), report("a", holders=2), unread={FleetPart.PODS: "you may not list pods"})
    (line,) = lines("node", seen)
    assert (line.gpus_held, line.pods) == (2.0, None)


def test_a_pod_that_runs_shows_its_use_and_one_that_waits_its_reason() -> None:
    seen = known(
        pod("runs", on="a"),
        pod("waits", why="no room"),
        pod("cpu", gpus=0),
        use={"a": measured(("runs", 0.25, 10))},
    )
    runs, waits = lines("pod", seen)
    assert (runs.state, runs.node, runs.used_ratio, runs.memory_used_bytes) == ("runs", "a", 0.25, 10 * GIB)
    assert (waits.state, waits.node, waits.used_ratio, waits.why) == ("waits", "", None, "no room")


def test_a_waiting_pod_has_position_and_cause_of_the_engine() -> None:
    row = WaitingRow("pod", "team", "p", 1, 0, "nodes", 3, cause="gpu-busy")
    (line,) = lines("pod", known(pod("p"), engine_report=engine_report(QueueRow("q", waiting=(row,)))))
    assert (line.queue, line.position, line.cause, line.why) == ("q", 3, "gpu-busy", "nodes (gpu-busy)")


def test_a_member_of_a_gang_waits_with_its_gang() -> None:
    row = WaitingRow("gang", "team", "g", 2, 0, "incomplete-gang", cause="gang-short")
    gang = GangReport("team", "g", "q", 3, 2, pods=("p",))
    (line,) = lines(
        "pod", known(pod("p"), engine_report=engine_report(QueueRow("q", waiting=(row,)), gangs=(gang,)))
    )
    assert (line.queue, line.cause) == ("q", "gang-short")


def test_a_held_pod_says_why_no_place_is_sought() -> None:
    (line,) = lines(
        "pod", known(pod("p"), engine_report=engine_report(held={"uid-team-p": "its claim is missing"}))
    )
    assert (line.state, line.why) == ("held", "its claim is missing")


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"schedulerName": "other"}, "foreign"),
        ({"schedulingGates": [{"name": "wait"}]}, "gated"),
        ({"on": "a", "phase": "Pending"}, "placed"),
    ],
)
def test_a_pod_stands_where_explain_says_it_stands(more: dict[str, Any], state: str) -> None:
    (line,) = lines("pod", known(pod("p", **more)))
    assert line.state == state


def test_a_pod_that_has_ended_is_left_out() -> None:
    assert lines("pod", known(pod("p", on="a", phase="Succeeded"))) == []


def test_only_wanted_namespaces_are_shown() -> None:
    seen = known(pod("p"), pod("q", namespace="other"), namespaces=("team",))
    assert [line.name for line in lines("pod", seen)] == ["p"]


def test_a_share_by_memory_is_that_part_of_its_card() -> None:
    device = '{"id":"GPU-a-0","kind":"share","gpuMilli":0,"memoryMiB":20000}'
    grant = f'{{"v":2,"epoch":1,"containers":{{"main":[{device}]}}}}'
    annotations = {"gpufleet.io/gpu-memory": "20000Mi", "gpufleet.io/grant": grant}
    limits = {"gpufleet.io/gpu-share": "1"}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    share = pod("p", on="a", annotations=annotations, containers=containers)
    (line,) = lines("pod", known(node("a"), report("a"), share))
    assert line.gpus == 0.25
    seen_before = ViewLines("gpufleet")
    (unknown,) = seen_before.of("pod", known(node("a"), share))[0]
    assert unknown.gpus is None
    # The report may come after the pod, which does not change then.
    (later,) = seen_before.of("pod", known(node("a"), report("a"), share))[0]
    assert later.gpus == 0.25


def test_use_that_is_measured_again_is_shown_while_no_object_changes() -> None:
    objects = node("a"), report("a"), node("b"), report("b"), pod("p", on="a", gpus=3)
    view_lines, changes = ViewLines("gpufleet"), 1
    first, words = view_lines.of("node", known(*objects), changes)
    assert [line.busy_ratio for line in first] == [None, None]
    use = {"a": measured(("p", 0.5, 40))}
    second, same_words = view_lines.of("node", known(*objects, use=use), changes)
    assert [line.busy_ratio for line in second] == [0.9, None]
    assert second == lines("node", known(*objects, use=use))
    assert words == same_words
    # A measurement that has become too old is gone, and a node that is gone comes with a change.
    assert view_lines.of("node", known(*objects), changes)[0] == first
    assert [line.name for line in view_lines.of("node", known(*objects[:2]), changes + 1)[0]] == ["a"]


def test_nodes_and_pods_are_chosen_by_labels_and_what_is_not_known_is_left_out() -> None:
    marked, plain = node("a"), node("b")
    marked.metadata.labels["pool"] = "h100"
    work = pod("p", on="a", labels={"app": "web"}), pod("q", on="b", labels={"app": "db"})
    seen = known(marked, report("a"), plain, report("b"), *work)

    def chosen(view: str, text: str, of: Known = seen) -> list[str]:
        return [line.name for line in ViewLines("gpufleet", read_selector(text)).of(view, of)[0]]

    assert chosen("node", "pool=h100") == ["a"]
    assert chosen("node", "!pool") == ["b"]
    assert chosen("pod", "app in (web,api)") == ["p"]
    assert chosen("idle", "pool=h100") == ["a"]
    assert chosen("node", "!pool", replace(seen, nodes={}, unread={FleetPart.NODES: "refused"})) == []


def test_what_may_be_listed_counts_though_no_object_changes() -> None:
    view_lines, seen = ViewLines("gpufleet"), known(node("a"), report("a"), pod("p", on="a", gpus=3))
    assert view_lines.of("node", seen, 1)[0][0].gpus_held == 3.0
    refused = replace(seen, unread={**seen.unread, FleetPart.PODS: "you may not list pods"})
    assert view_lines.of("node", refused, 1)[0] == lines("node", refused)


def test_a_gang_in_part_says_so() -> None:
    gangs = (
        GangReport("team", "half", "q", 4, 4, 2, 8000, pods=("p",)),
        GangReport("team", "whole", "q", 2, 2, 2, 4000),
        GangReport("team", "none", "q", 2, 1, 0, 2000),
        GangReport("team", "bad", "q", problem="members contradict"),
    )
    seen = known(pod("p", why="no room for all"), engine_report=engine_report(gangs=gangs))
    half, whole, none, bad = lines("gang", seen)
    assert [one.state for one in (half, whole, none, bad)] == ["in part", "runs", "waits", "held"]
    assert (half.why, half.gpus, whole.why, bad.why) == ("no room for all", 8.0, "", "members contradict")


def test_a_gang_with_a_reservation_has_its_start() -> None:
    held = ReservationRow("gang", "team", "g", 2, expected_start="2026-03-01T13:00:00Z")
    seen = known(
        engine_report=engine_report(
            QueueRow("q", reservation=held), gangs=(GangReport("team", "g", "q", 2, 2),)
        )
    )
    (line,) = lines("gang", seen)
    assert line.expected_start == "2026-03-01T13:00:00Z"


def test_queues_stand_below_their_parents_with_the_words_of_gpufleet_queues() -> None:
    use = ResourceRow("gpu", "6", "4", "4", "2", "0", "5")
    waits = (WaitingRow("pod", "t", "p", 1, 0, "quota", 1, "2026-03-01T11:30:00Z"),)
    rows = (
        QueueRow("root"),
        QueueRow("a", "root", resources=(use,), pending=(PendingRow("quota", 1),), waiting=waits),
    )
    root, a = lines("queue", known(engine_report=engine_report(*rows)))
    assert (root.depth, root.used, a.depth) == (0, None, 1)
    assert (a.used, a.quota, a.borrowed, a.fair_share, a.pods_waiting) == ("6", "4", "2", "5", 1)
    assert (a.why, a.oldest) == ("1 quota", "2026-03-01T11:30:00Z")


def test_idle_is_who_was_measured_to_compute_nothing_and_what_nothing_holds() -> None:
    use = measured(("busy", 0.8, 40), ("loaded", 0.0, 40), ("empty", 0.01, 0.2))
    seen = known(
        *(node("a"), report("a")),
        *(pod(name, on="a") for name in ("busy", "loaded", "empty", "unknown")),
        use={"a": use},
        quiet_since_s={("team", "loaded"): NOW.timestamp() - 600},
    )
    found = {line.name: line for line in lines("idle", seen)}
    assert {name: line.state for name, line in found.items()} == {
        "loaded": "holding",
        "empty": "empty",
        "a": "free",
    }
    assert (found["loaded"].idle_s, found["empty"].idle_s, found["a"].gpus) == (600.0, None, 4.0)


def test_gpus_of_a_sick_node_are_no_free_ones() -> None:
    assert lines("idle", known(node("a"), report("a", unwell=1))) == []


def test_the_fleet_is_summed_up() -> None:
    seen = known(node("a"), report("a", unwell=1), node("b"), pod("p", on="a", gpus=2), pod("w"))
    assert ViewLines("gpufleet").of("node", seen)[1] == (
        "2 nodes, 16 GPUs, 2 held, 1 unwell, 1 node away, 1 pod waits"
    )


def test_what_a_view_lacks_is_said_and_what_it_does_not_need_is_not() -> None:
    seen = known(unread={FleetPart.ENGINE: "no engine", FleetPart.USE: "no use"})
    assert missing("node", seen) == ["no use"]
    assert missing("queue", seen) == ["no engine"]
    assert missing("pod", seen) == ["no engine", "no use"]
