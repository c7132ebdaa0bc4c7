"""I4: at rest the auditor finds each pair of witnesses that differ about a pod's devices."""

import pytest

from gpufleet.auditor.record import Document
from gpufleet.auditor.rules import Evidence, Given, Rules, Seen
from tests.auditor.stories import Story, held, instance, share, whole

GPU = "nvidia.com/gpu"


def a_pod(*parts: Document, rules: Rules | None = None) -> tuple[Story, Document]:
    story = Story(rules)
    story.node("n", gpus=2)
    pod = story.running("a", "n", *parts)
    story.report("n", held(pod, *parts))
    return story, pod


def given_to(pod: str, *units: str, resource: str = GPU) -> Evidence:
    return Evidence(kubelets=(Given("n", pod, "main", resource, frozenset(units)),))


def test_where_all_agree_there_is_no_finding() -> None:
    story, pod = a_pod(whole("n-0"))
    seen = Seen(pod["metadata"]["uid"], "main", frozenset({"n-0"}))
    story.evidence = Evidence(given_to("space/a", "n-0").kubelets, (seen,))
    assert story.findings() == []


@pytest.mark.parametrize("parts", [[], [whole("n-1")], [whole("n-0"), whole("n-1")], [share("n-0", 500)]])
def test_a_report_that_differs_from_the_grant_is_found(parts: list[Document]) -> None:
    story = Story()
    story.node("n", gpus=2)
    pod = story.running("a", "n", whole("n-0"))
    story.report("n", held(pod, *parts))
    assert "I4" in story.broken()


def test_a_pod_that_a_swapped_kubelet_gave_another_gpu_agrees_by_amount() -> None:
    rules = Rules(swapped=frozenset({"a-1"}))
    story = Story(rules)
    story.node("n", gpus=2)
    pod = story.running("a", "n", whole("n-0"))
    story.report("n", held(pod, whole("n-1")))
    assert story.findings() == []
    story.report("n", [])
    assert story.broken() == {"I4"}


def test_a_report_of_who_lives_no_more_is_found() -> None:
    story, pod = a_pod(whole("n-0"))
    story.gone(pod)
    assert story.broken() == {"I4"}


@pytest.mark.parametrize("units", [(), ("n-1",), ("n-0", "n-1")])
def test_a_kubelet_that_gave_something_else_is_found(units: tuple[str, ...]) -> None:
    story, _ = a_pod(whole("n-0"))
    story.evidence = given_to("space/a", *units)
    assert "I4" in story.broken()


def test_slots_of_shares_and_instances_are_counted() -> None:
    for parts, resource in (
        ([share("n-0", 500)], "gpufleet.io/gpu-share"),
        ([instance("n-0", "1g.10gb", 0)], GPU),
    ):
        story, _ = a_pod(*parts)
        story.evidence = given_to("space/a", "slot-7", resource=resource)
        assert story.findings() == []
        story.evidence = given_to("space/a", "slot-7", "slot-8", resource=resource)
        assert story.broken() == {"I4"}


def test_a_kubelet_that_remembers_the_dead_or_forgot_the_living_is_found() -> None:
    story, _ = a_pod(whole("n-0"))
    story.evidence = Evidence(kubelets=())
    assert story.broken() == {"I4"}
    own = Given("n", "space/a", "main", GPU, frozenset({"n-0"}))
    dead = Given("n", "space/dead", "main", GPU, frozenset({"n-1"}))
    story.evidence = Evidence(kubelets=(own, dead))
    assert story.broken() == {"I4"}


def test_a_kubelet_that_gave_a_unit_twice_is_found() -> None:
    story, _ = a_pod(whole("n-0"))
    story.running("b", "n", whole("n-1"))
    story.evidence = Evidence(
        kubelets=tuple(Given("n", f"space/{name}", "main", GPU, frozenset({"n-0"})) for name in ("a", "b"))
    )
    assert "I1" in story.broken()


def test_where_no_kubelet_was_asked_nothing_is_concluded() -> None:
    story, _ = a_pod(whole("n-0"))
    assert story.findings() == []


def test_a_container_that_sees_more_or_less_than_its_grant_is_found() -> None:
    story, pod = a_pod(whole("n-0"))
    for devices, promise in (({"n-0", "n-1"}, "I14"), (set(), "I4")):
        story.evidence = Evidence(containers=(Seen(pod["metadata"]["uid"], "main", frozenset(devices)),))
        assert story.broken() == {promise}


def test_a_device_in_two_containers_at_once_is_found_and_one_after_the_other_is_not() -> None:
    story, first = a_pod(whole("n-0"))
    story.gone(first)
    second = story.running("b", "n", whole("n-0"))
    story.report("n", held(second, whole("n-0")))

    def ran(from_s: float) -> Evidence:
        seen = frozenset({"n-0"})
        one = Seen(first["metadata"]["uid"], "main", seen, 0.0, 10.0)
        return Evidence(containers=(one, Seen(second["metadata"]["uid"], "main", seen, from_s)))

    story.evidence = ran(10.0)
    assert story.findings() == []
    story.evidence = ran(9.0)
    assert story.broken() == {"I1"}


def test_shares_of_one_device_run_together() -> None:
    story, first = a_pod(share("n-0", 500))
    second = story.running("b", "n", share("n-0", 500))
    story.report("n", [*held(first, share("n-0", 500)), *held(second, share("n-0", 500))])
    seen = tuple(Seen(pod["metadata"]["uid"], "main", frozenset({"n-0"})) for pod in (first, second))
    story.evidence = Evidence(containers=seen)
    assert story.findings() == []
