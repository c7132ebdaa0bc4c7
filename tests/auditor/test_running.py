"""I12: who runs keeps its node, containers and devices, and whoever is taken away is told why."""

from gpufleet.auditor.record import Document
from tests.auditor.stories import SCHEDULER, Story, held, whole


def a_running_pod() -> tuple[Story, Document]:
    story = Story()
    story.node("n", gpus=2)
    pod = story.running("a", "n", whole("n-0"))
    story.report("n", held(pod, whole("n-0")))
    return story, pod


def test_a_pod_that_runs_and_ends_by_itself_is_no_finding() -> None:
    story, pod = a_running_pod()
    story.report("n", [])
    story.phase(pod, "Succeeded")
    assert story.findings() == []


def test_a_pod_that_its_owner_deletes_is_no_finding() -> None:
    story, pod = a_running_pod()
    story.gone(story.leave(pod, "owner"))
    story.report("n", [])
    assert story.findings() == []


def test_a_pod_that_the_scheduler_takes_away_without_a_word_is_found() -> None:
    story, pod = a_running_pod()
    story.gone(story.leave(pod, SCHEDULER))
    story.report("n", [])
    assert story.broken() == {"I12"}


def test_an_event_or_a_condition_is_a_word() -> None:
    story, pod = a_running_pod()
    story.gone(story.leave(pod, SCHEDULER))
    story.report("n", [])
    story.event(pod, "Preempted")
    assert story.findings() == []
    story, pod = a_running_pod()
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    told = {**pod, "status": {**pod["status"], "conditions": [condition]}}
    story.gone(story.leave(told, SCHEDULER))
    story.report("n", [])
    assert story.findings() == []


def test_an_event_of_another_pod_is_none() -> None:
    story, pod = a_running_pod()
    other = story.pod("b")
    story.gone(story.leave(pod, SCHEDULER))
    story.report("n", [])
    story.event(other, "Preempted")
    assert story.broken() == {"I12"}


def test_a_container_that_was_started_again_is_found() -> None:
    story, pod = a_running_pod()
    story.phase(pod, "Running", "another-container", restarts=1)
    assert story.broken() == {"I12"}


def test_devices_that_are_exchanged_under_a_running_pod_are_found() -> None:
    story, pod = a_running_pod()
    story.report("n", held(pod, whole("n-1")))
    story.report("n", held(pod, whole("n-0")))
    assert story.broken() == {"I12"}


def test_a_report_that_is_empty_for_a_while_is_no_exchange() -> None:
    story, pod = a_running_pod()
    story.report("n", [])
    story.report("n", held(pod, whole("n-0")))
    assert story.findings() == []


def test_a_pod_that_moves_to_another_node_is_found() -> None:
    story, pod = a_running_pod()
    story.put("pods", {**pod, "spec": {**pod["spec"], "nodeName": "elsewhere"}})
    assert "I12" in story.broken()


def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    story, pod = a_running_pod()
    story.gone(pod)
    again = story.running("a", "n", whole("n-1"))
    story.report("n", held(again, whole("n-1")))
    assert story.findings() == []
