"""I5, and the namespaces of I14: what a queue may have when it admits a pod."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.auditor import amounts
from gpufleet.auditor.quotas import Tree
from gpufleet.auditor.record import Document
from tests.auditor.stories import SCHEDULER, Story, instance, share, whole


def a_cluster() -> Story:
    story = Story()
    story.node("n", gpus=8)
    return story


def admit(story: Story, count: int, queue: str, first: int = 0, space: str = "space", **terms: Any) -> None:
    """So many pods of one GPU each are let in by a queue."""
    for number in range(first, first + count):
        pod = story.pod(f"{queue}-{number}", queue=queue, space=space)
        story.bind(pod, "n", [whole(f"n-{number}")], **{"queue": queue, **terms})


def of(findings: list[Any], promise: str) -> list[Any]:
    return [one for one in findings if one.promise == promise]


def test_a_queue_that_keeps_to_its_nominal_amount_is_no_finding_and_one_more_is() -> None:
    story = a_cluster()
    story.queue("alone", gpus=2)
    admit(story, 2, "alone")
    assert story.findings() == []
    admit(story, 1, "alone", first=2)
    (found,) = of(story.findings(), "I5")
    assert found.objects == ("space/alone-2", "alone")
    assert "uses 3 and may use 2" in found.words


def test_borrowing_is_allowed_as_far_as_others_lend_and_no_further() -> None:
    for lending, allowed in ((None, 6), (1, 3), (0, 2)):
        story = a_cluster()
        story.queue("root")
        lend = {} if lending is None else {"lendingLimit": lending}
        story.queue("lends", parent="root", quotas=[{"resource": "gpu", "nominal": 4, **lend}])
        story.queue("takes", parent="root", gpus=2)
        admit(story, allowed, "takes")
        assert story.findings() == [], lending
        admit(story, 1, "takes", first=allowed)
        assert story.broken() == {"I5"}, lending


def test_what_is_owed_but_lent_out_may_be_taken_back_only_when_it_is_free() -> None:
    story = a_cluster()
    story.queue("root")
    story.queue("owed", parent="root", gpus=4)
    story.queue("takes", parent="root", gpus=2)
    admit(story, 6, "takes")
    admit(story, 1, "owed", first=6)
    assert story.broken() == {"I5"}


@pytest.mark.parametrize(("limit", "most"), [("borrowingLimit", 3), ("hardLimit", 1)])
def test_a_limit_on_borrowing_and_a_hard_limit_bind(limit: str, most: int) -> None:
    story = a_cluster()
    story.queue("root", gpus=8)
    story.queue("q", parent="root", quotas=[{"resource": "gpu", "nominal": 2, limit: 1}])
    admit(story, most, "q")
    assert story.findings() == []
    admit(story, 1, "q", first=most)
    assert story.broken() == {"I5"}


def test_a_hard_limit_of_an_inner_queue_binds_those_below() -> None:
    story = a_cluster()
    story.queue("root", quotas=[{"resource": "gpu", "nominal": 8, "hardLimit": 1}])
    story.queue("q", parent="root", gpus=2)
    admit(story, 2, "q")
    assert story.broken() == {"I5"}


def test_a_resource_that_no_queue_of_the_path_names_is_not_limited() -> None:
    story = a_cluster()
    story.queue("root")
    story.queue("free", parent="root")
    story.queue("named", parent="root", gpus=1)
    admit(story, 7, "free")
    admit(story, 1, "named", first=7)
    assert story.findings() == []


def test_relabelling_what_runs_changes_nothing_of_where_it_counts() -> None:
    story = a_cluster()
    story.queue("q", gpus=1)
    bound = story.bind(story.pod("a", queue="q"), "n", [whole("n-0")], queue="q")
    labels = {"gpufleet.io/queue": "nowhere"}
    story.put("pods", {**bound, "metadata": {**bound["metadata"], "labels": labels}}, "tenant")
    admit(story, 1, "q", first=1)
    assert story.broken() == {"I5"}


def test_without_terms_the_words_of_the_pod_at_its_binding_count() -> None:
    story = a_cluster()
    story.queue("q", gpus=1)
    for number in range(2):
        story.bind(story.pod(f"p-{number}", queue="q"), "n", [whole(f"n-{number}")])
    assert story.broken() == {"I5"}


def test_a_quota_that_was_cut_below_its_use_harms_nobody_but_what_starts_then() -> None:
    story = a_cluster()
    story.queue("q", gpus=4)
    admit(story, 4, "q")
    story.queue("q", gpus=1)
    assert story.findings() == []
    admit(story, 1, "q", first=4)
    assert story.broken() == {"I5"}


def test_a_decision_that_was_under_way_when_the_quota_changed_stands() -> None:
    story = a_cluster()
    story.queue("q", gpus=1)
    pod = story.pod("a", queue="q")
    story.queue("q", gpus=0)
    story.at_s -= 9.0
    story.bind(pod, "n", [whole("n-0")], queue="q")
    assert story.findings() == []


RESOURCES: tuple[tuple[str, str, Document], ...] = (
    ("gpu/H100-80GB", "1", whole("n-0")),
    ("gpu-memory", "80000Mi", whole("n-0")),
    ("gpu-memory", "10Gi", share("n-0", 0, 10_240)),
    ("gpu", "250m", share("n-0", 250)),
    ("gpu", "500m", share("n-0", 0, 40_000)),
    ("mig-slices", "3", instance("n-0", "3g.40gb", 0)),
    ("cost", "4", whole("n-0")),
    ("cpu", "2", whole("n-0")),
)


@pytest.mark.parametrize(("resource", "amount", "part"), RESOURCES)
def test_each_resource_is_counted_in_its_own_way(resource: str, amount: str, part: Document) -> None:
    for room, promises in ((amounts.read(amount), set()), (amounts.read(amount) * Fraction(99, 100), {"I5"})):
        story = a_cluster()
        nominal = str(float(room))
        prices = [{"model": "H100-80GB", "price": 4}]
        story.queue("q", quotas=[{"resource": resource, "nominal": nominal}], prices=prices)
        pod = story.pod("a", queue="q")
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
        story.bind(pod, "n", [part], queue="q")
        assert story.broken() == promises, (resource, nominal, story.findings())


def test_a_model_that_a_quota_does_not_name_is_not_counted() -> None:
    story = a_cluster()
    story.queue("q", quotas=[{"resource": "gpu/A100-80GB", "nominal": 0}])
    admit(story, 1, "q")
    assert story.findings() == []


def test_work_that_is_never_evicted_has_at_most_what_its_queue_is_owed() -> None:
    story = a_cluster()
    story.queue("root", gpus=4)
    story.queue("q", parent="root", gpus=1)
    admit(story, 1, "q", preemptible=False)
    admit(story, 1, "q", first=1, preemptible=True)
    assert story.findings() == []
    admit(story, 1, "q", first=2, preemptible=False)
    assert story.broken() == {"I5"}


def test_without_terms_the_class_says_whether_work_is_evicted() -> None:
    story = a_cluster()
    story.class_never_evicted("safe")
    story.queue("root", gpus=4)
    story.queue("q", parent="root", gpus=1)
    for number in range(2):
        pod = story.pod(f"p-{number}", queue="q", priorityClassName="safe")
        story.bind(pod, "n", [whole(f"n-{number}")])
    assert story.broken() == {"I5"}


def test_a_stranger_behind_the_door_of_a_queue_is_found() -> None:
    story = a_cluster()
    story.namespace("stranger")
    story.queue("q", gpus=8, namespaces=["space"])
    admit(story, 1, "q")
    assert story.findings() == []
    admit(story, 1, "q", first=1, space="stranger")
    (found,) = story.findings()
    assert (found.promise, found.objects) == ("I14", ("stranger/q-1", "q"))


DOORS: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"namespaces": ["space"]}, True),
    ({"namespaces": ["other"]}, False),
    ({"namespaceSelector": {}}, True),
    ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
    ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
    ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}}, True),
    (
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}},
        False,
    ),
    ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, False),
    ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "space"}}}, True),
    ({"localQueues": [{"namespace": "space", "name": "local"}]}, True),
    ({"localQueues": [{"namespace": "other", "name": "local"}]}, False),
)


@pytest.mark.parametrize(("door", "opens"), DOORS)
@pytest.mark.parametrize("level", ["own", "parent"])
def test_a_queue_opens_to_those_it_names_or_the_nearest_above_it_does(
    door: dict[str, Any], opens: bool, level: str
) -> None:
    story = a_cluster()
    story.namespace("space", team="a")
    story.queue("top", gpus=8, **(door if level == "parent" else {"namespaces": ["other"]}))
    story.queue("q", parent="top", **(door if level == "own" else {}))
    admit(story, 1, "q")
    assert story.broken() == (set() if opens else {"I14"})


def test_a_queue_without_any_door_is_closed_as_soon_as_another_names_its_namespaces() -> None:
    story = a_cluster()
    story.queue("q", gpus=8)
    story.queue("other", gpus=0)
    admit(story, 1, "q")
    assert story.findings() == []
    story.queue("other", gpus=0, namespaces=["elsewhere"])
    admit(story, 1, "q", first=1)
    assert story.broken() == {"I14"}


def test_a_queue_that_is_not_described_lets_nobody_in() -> None:
    story = a_cluster()
    story.queue("q", gpus=8)
    admit(story, 1, "unknown")
    assert story.broken() == {"I14"}


def test_a_cluster_without_queues_limits_nothing() -> None:
    story = a_cluster()
    admit(story, 8, "any")
    assert story.findings() == []


def test_circles_and_missing_parents_end_no_judgement() -> None:
    story = a_cluster()
    for name, parent in (("a", "b"), ("b", "a"), ("c", "missing")):
        story.queue(name, parent=parent, gpus=1)
    admit(story, 1, "c")
    assert story.findings() == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("7.5", Fraction(15, 2)),
        ("500m", Fraction(1, 2)),
        ("80Gi", 80 * 2**30),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        ("1Ei", 2**60),
        ("+3", 3),
        (".5", Fraction(1, 2)),
        (4, 4),
    ],
)
def test_amounts_are_read_as_kubernetes_reads_them(text: str | int, value: Fraction) -> None:
    assert amounts.read(text) == value


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "16g", "NaN", "."])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        amounts.read(text)


AMOUNTS = st.integers(0, 6)


@given(st.data())
def test_within_nominal_amounts_nothing_is_ever_found_and_beyond_the_whole_tree_always(
    data: st.DataObject,
) -> None:
    """Whatever the limits: within what each is owed all is well; together they never have more than all."""
    queues: dict[str, Document] = {"root": {"metadata": {"name": "root"}, "spec": {}}}
    for number in range(data.draw(st.integers(1, 6))):
        nominal = data.draw(AMOUNTS)
        quota: Document = {"resource": "gpu", "nominal": nominal}
        if data.draw(st.booleans()):
            quota["borrowingLimit"] = data.draw(AMOUNTS)
        if data.draw(st.booleans()):
            quota["lendingLimit"] = data.draw(st.integers(0, nominal))
        parent = data.draw(st.sampled_from(sorted(queues)))
        spec = {"parent": parent, "quotas": [quota]}
        queues[f"q-{number}"] = {"metadata": {"name": f"q-{number}"}, "spec": spec}
    tree = Tree(queues, "gpu")
    total = sum((tree.limits(name).nominal for name in queues), Fraction(0))
    used = {name: Fraction(data.draw(AMOUNTS)) for name in queues if name != "root"}
    for name, amount in used.items():
        said = list(tree.broken(name, used, amount))
        if all(used[one] <= tree.limits(one).nominal for one in used):
            assert said == []
        if sum(used.values(), Fraction(0)) > total + sum(
            (tree.keeps[one] or Fraction(0) for one in used), Fraction(0)
        ):
            assert any(tree.broken(one, used, used[one]) for one in used)


def test_who_binds_is_not_what_counts() -> None:
    story = a_cluster()
    story.queue("q", gpus=1)
    admit(story, 2, "q")
    assert {write.user for write in story.writes if write.user} == {SCHEDULER}
    assert story.broken() == {"I5"}
