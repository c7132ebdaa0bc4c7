"""Amounts, worked out by hand from what each system's documents say of its fields."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.migration.command import converted
from gpufleet.migration.field_notes import FieldVerdict, leaves
from gpufleet.migration.go_durations import as_ours
from gpufleet.migration.sources import Source, object_of, read_documents
from gpufleet.model.model_errors import InputError

GPU = "nvidia.com/gpu"


def an_object(api_version: str, kind: str, name: str, spec: Any, **metadata: Any) -> Source:
    written = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return object_of(written, "here")


def queues(system: str, *sources: Source) -> dict[str, dict[str, Any]]:
    """The specs of the FleetQueues by name."""
    text = converted(system, sources).manifests
    return {one.name: one.body["spec"] for one in read_documents(text.encode(), "the result")}


def quota(spec: dict[str, Any], resource: str) -> dict[str, Any]:
    return next(one for one in spec["quotas"] if one["resource"] == resource)


def cluster_queue(name: str, *flavors: dict[str, Any], **spec: Any) -> Source:
    listed = [
        {"name": f"flavor-{number}", "resources": [{"name": GPU, **flavor}]}
        for number, flavor in enumerate(flavors)
    ]
    groups = [{"coveredResources": [GPU], "flavors": listed}]
    return an_object("kueue.x-k8s.io/v1beta2", "ClusterQueue", name, {"resourceGroups": groups, **spec})


def kai_queue(name: str, **gpu: Any) -> Source:
    return an_object("scheduling.run.ai/v2", "Queue", name, {"resources": {"gpu": gpu}})


def volcano_queue(name: str, **spec: Any) -> Source:
    return an_object("scheduling.volcano.sh/v1beta1", "Queue", name, spec)


def elastic_quota(namespace: str, **spec: Any) -> Source:
    return an_object("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", "q", spec, namespace=namespace)


def test_flavors_without_a_model_are_added_up() -> None:
    first = {"nominalQuota": 4, "borrowingLimit": 2, "lendingLimit": 1}
    second = {"nominalQuota": "6", "borrowingLimit": 3}
    found = queues("kueue", cluster_queue("a", first, second, cohortName="c"))
    # Without a lending limit all of the second is lent: 1 + 6.
    assert quota(found["a"], "gpu") == {
        "resource": "gpu",
        "nominal": 10,
        "borrowingLimit": 5,
        "lendingLimit": 7,
    }


def test_one_flavor_without_a_borrowing_limit_has_none_together() -> None:
    first, second = {"nominalQuota": 4, "borrowingLimit": 2}, {"nominalQuota": 6}
    found = queues("kueue", cluster_queue("a", first, second, cohortName="c"))
    assert "borrowingLimit" not in quota(found["a"], "gpu")


def test_a_cohort_that_is_only_a_name_is_a_queue() -> None:
    found = queues("kueue", cluster_queue("a", {"nominalQuota": 1}, cohortName="shared"))
    assert found["shared"] == {}
    assert found["a"]["parent"] == "shared"


def test_what_kueue_does_not_do_unasked_is_switched_off() -> None:
    found = queues("kueue", cluster_queue("a", {"nominalQuota": 1}))
    assert found["a"]["preemption"] == {"withinQueue": "Never", "reclaim": "Never"}


def test_units_of_kai() -> None:
    resources = {
        "gpu": {"quota": 0.5, "limit": 2},
        "cpu": {"quota": 1500, "limit": 2000},
        "memory": {"quota": 4096, "limit": 8192},
    }
    found = queues("kai", an_object("scheduling.run.ai/v2", "Queue", "a", {"resources": resources}))
    assert quota(found["a"], "gpu") == {"resource": "gpu", "nominal": "500m", "hardLimit": 2}
    # 1500 thousandths of a core; 4096 times a million bytes.
    assert quota(found["a"], "cpu") == {"resource": "cpu", "nominal": "1500m", "hardLimit": 2}
    assert quota(found["a"], "memory") == {"resource": "memory", "nominal": "4096M", "hardLimit": "8192M"}


def test_what_kai_shares_is_the_fleet() -> None:
    node = object_of(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "status": {"allocatable": {GPU: "8", "amd.com/gpu": "2"}},
        },
        "here",
    )
    found = queues("kai", kai_queue("a", quota=3, limit=-1), kai_queue("b", quota=-1, limit=-1), node)
    # 10 in all, 3 of which stand in a.
    assert quota(found["fleet"], "gpu")["nominal"] == 7
    assert found["a"]["parent"] == found["b"]["parent"] == "fleet"
    assert quota(found["a"], "gpu") == {"resource": "gpu", "nominal": 3}
    assert quota(found["b"], "gpu") == {"resource": "gpu", "nominal": 10, "lendingLimit": 0}


def test_what_is_owed_below_is_a_part_of_what_is_owed_above() -> None:
    above = {"resources": {"gpu": {"quota": 10, "limit": -1}}}
    below = {"resources": {"gpu": {"quota": 4, "limit": -1}}, "parentQueue": "above"}
    more = {"resources": {"gpu": {"quota": 9, "limit": -1}}, "parentQueue": "above"}
    version = "scheduling.run.ai/v2"
    found = queues(
        "kai", an_object(version, "Queue", "above", above), an_object(version, "Queue", "a", below)
    )
    assert quota(found["above"], "gpu")["nominal"] == 6
    found = queues(
        "kai",
        an_object(version, "Queue", "above", above),
        an_object(version, "Queue", "a", below),
        an_object(version, "Queue", "b", more),
    )
    assert quota(found["above"], "gpu")["nominal"] == 0


def test_a_cohort_that_limits_what_its_members_lend_lends_without_a_limit() -> None:
    spec = {
        "resourceGroups": [
            {
                "coveredResources": [GPU],
                "flavors": [
                    {"name": "f", "resources": [{"name": GPU, "nominalQuota": 1, "lendingLimit": 5}]}
                ],
            }
        ]
    }
    found = queues("kueue", an_object("kueue.x-k8s.io/v1beta2", "Cohort", "c", spec))
    assert quota(found["c"], "gpu") == {"resource": "gpu", "nominal": 1}


def test_a_queue_of_the_roots_name_keeps_it() -> None:
    found = queues("kai", kai_queue("fleet", quota=3, limit=-1))
    assert found["fleet"]["parent"] == "fleet-root"


def test_what_volcano_guarantees_is_not_lent() -> None:
    found = queues(
        "volcano",
        volcano_queue("a", guarantee={"resource": {GPU: "2"}}, deserved={GPU: "8"}, capability={GPU: "12"}),
        volcano_queue("b", guarantee={"resource": {"cpu": "2"}}),
    )
    assert quota(found["a"], "gpu") == {
        "resource": "gpu",
        "nominal": 8,
        "lendingLimit": 6,
        "hardLimit": 12,
    }
    # Without a deserved amount the guarantee is all that is owed.
    assert quota(found["b"], "cpu") == {"resource": "cpu", "nominal": 2, "lendingLimit": 0}


def test_a_guarantee_above_what_is_deserved_is_refused() -> None:
    with pytest.raises(InputError, match=r"Queue a, spec.deserved\[gpu\]: less than is guaranteed"):
        queues("volcano", volcano_queue("a", guarantee={"resource": {GPU: 9}}, deserved={GPU: 8}))


def test_all_elastic_quotas_share_the_sum_of_their_minimums() -> None:
    found = queues(
        "elasticquota",
        elastic_quota("a", min={GPU: 1}, max={GPU: 2}),
        elastic_quota("b", min={GPU: 4}, max={"cpu": 8}),
    )
    # The root has nothing of its own: 1 + 4 is all that there is.
    assert found["elastic-quotas"] == {}
    assert quota(found["a"], "gpu") == {"resource": "gpu", "nominal": 1, "hardLimit": 2}
    assert found["a"]["namespaces"] == ["a"]
    assert found["b"]["quotas"] == [{"resource": "cpu", "hardLimit": 8}, {"resource": "gpu", "nominal": 4}]


def test_a_namespace_has_one_elastic_quota() -> None:
    with pytest.raises(InputError, match="a second one in its namespace"):
        queues("elasticquota", elastic_quota("a"), elastic_quota("a"))


@pytest.mark.parametrize(
    ("go", "ours"),
    [("1h0m0s", "1h"), ("1.5h", "1h30m"), ("90m", "1h30m"), ("1ns", "1ms"), ("0", "0s"), ("36h", "1d12h")],
)
def test_lengths_of_time(go: str, ours: str) -> None:
    assert as_ours(kai_queue("a"), go, "") == ours


@pytest.mark.parametrize("go", ["", "1", "-1h", "1d", "1 h", "h", "1h\n", "\uff19h", "1000000h"])
def test_no_lengths_of_time(go: str) -> None:
    with pytest.raises(InputError):
        as_ours(kai_queue("a"), go, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "none of ClusterQueue.kueue.x-k8s.io"),
        (b"7", "not an object"),
        (b"a: [", "not YAML"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"a: &x [1]\nb: *x", "has aliases"),
        (b"kind: ClusterQueue", "no Kubernetes object"),
        (b"[" * 10_000, "nested too deep"),
        (b"{apiVersion: v1, kind: Pod, metadata: {name: a}}", "found Pod"),
        (b"{apiVersion: v1, kind: Pod, metadata: {name: ../a}}", "not an object's name"),
        (
            b"{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: []}",
            "not a map",
        ),
    ],
)
def test_what_is_no_queue_is_told(text: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        converted("kueue", read_documents(text, "x.yaml"))
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_wrong_amount_is_told_with_its_place() -> None:
    with pytest.raises(InputError) as caught:
        queues("kueue", cluster_queue("a", {"nominalQuota": "-8"}))
    field = "spec.resourceGroups[0].flavors[flavor-0].resources[nvidia.com/gpu].nominalQuota"
    assert str(caught.value) == f"ClusterQueue a, {field}: a negative amount, found '-8'; expected 0 or more"


NAMES = st.sampled_from(
    [
        "cohort",
        "cohortName",
        "preemption",
        "stopPolicy",
        "parent",
        "weight",
        "deserved",
        "resources",
        "min",
        "x",
    ]
)
PARTS = st.recursive(
    st.integers(-2, 9) | st.sampled_from(["a", "8", "Hold", "10m"]) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(
    [
        ("kueue", "kueue.x-k8s.io/v1beta2", "ClusterQueue"),
        ("kueue", "kueue.x-k8s.io/v1beta2", "Cohort"),
        ("kai", "scheduling.run.ai/v2", "Queue"),
        ("volcano", "scheduling.volcano.sh/v1beta1", "Queue"),
        ("elasticquota", "scheduling.x-k8s.io/v1alpha1", "ElasticQuota"),
    ]
)


@given(KINDS, st.dictionaries(NAMES, PARTS, max_size=4))
def test_every_field_is_spoken_of_or_the_object_is_refused(kind: tuple[str, str, str], spec: Any) -> None:
    system, api_version, name = kind
    source = an_object(api_version, name, "a", spec, namespace="n")
    try:
        found = converted(system, [source])
    except InputError as problem:
        told = str(problem)
        assert told.isprintable()
        return
    spoken = {note.field for note in found.report.notes if note.object == source.title}
    for path in leaves(spec, "spec") if spec else ():
        assert any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in spoken), path
    assert sum(found.report.counts.values()) == len(found.report.notes)
    assert all(note.becomes for note in found.report.notes if note.verdict is not FieldVerdict.NO_EQUIVALENT)
    msgspec.json.encode(found.report)
