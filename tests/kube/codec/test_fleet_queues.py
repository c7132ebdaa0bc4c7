"""What a FleetQueue means, and what is said of one that means nothing."""

import string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube.codec import durations, quota_amounts
from gpufleet.kube.codec.fleet_queues import NUMBER_PATTERN, QueueTerms, read_fleet_queue
from gpufleet.kube.codec.quota_amounts import read_amount, written_amount
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.manifests import FOLDER
from gpufleet.kube.objects.fleet_queues import FleetQueue, FleetQueueStatus, status_of
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.queue import PreemptionPolicy, QueueState, Quota, VictimOrder, VictimScope
from tests.kube.codec.queue_cases import CASES, Case
from tests.kube.wire_objects import decoded

RESOURCES = ("gpu", "gpu/H100-80GB", "gpu-memory", "mig-slices", "cpu", "memory", "cost", "example.com/fpga")


def read(spec: dict[str, Any], name: str = "team-a") -> QueueTerms:
    return read_fleet_queue(decoded({"metadata": {"name": name}, "spec": spec}, FleetQueue))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdict(case: Case) -> None:
    if case.unreadable:
        with pytest.raises(msgspec.DecodeError):
            decoded(case.object(), FleetQueue)
        return
    found = decoded(case.object(), FleetQueue)
    if case.refused:
        with pytest.raises(ObjectError) as caught:
            read_fleet_queue(found)
        assert caught.value.field == case.refused
        message = str(caught.value)
        assert message.isascii()
        assert message.isprintable()
        assert len(message) < 1000
        return
    queue = read_fleet_queue(found).queue
    assert queue.name == "team-a"
    for name, value in case.result.items():
        assert getattr(queue.quotas[0] if name == "nominal" else queue, name) == value


def test_what_the_server_refuses_the_codec_refuses() -> None:
    for case in CASES:
        assert case.stored or case.refused or case.unreadable, case


def test_every_number_of_the_list_about_queues_is_there() -> None:
    assert {38, 39, 40, 41, 42, 43} <= {case.number for case in CASES}


def test_a_whole_queue() -> None:
    terms = read(
        {
            "parent": "research",
            "priority": 5,
            "weight": "1.5",
            "ordering": "Strict",
            "state": "Draining",
            "quotas": [
                {
                    "resource": "gpu",
                    "nominal": 8,
                    "borrowingLimit": "4",
                    "lendingLimit": 2,
                    "hardLimit": "10.5",
                },
                {"resource": "gpu/NVIDIA-H100-80GB-HBM3", "nominal": "4"},
                {"resource": "cpu", "nominal": "500m"},
            ],
            "preemption": {
                "withinQueue": "LowerOrNewerEqualPriority",
                "reclaim": "LowerPriority",
                "borrowing": "LowerPriority",
                "borrowingPriorityMax": 100,
                "preemptAfter": "10m",
                "reclaimAfter": "1h",
                "elasticAfter": "0s",
                "victimOrder": "WorkLostFirst",
            },
            "runTimeMax": "24h",
            "halfLife": "7d",
            "reserveAfter": "10m",
            "learnRunTimes": True,
            "namespaces": ["team-a", "team-a-dev"],
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "localQueues": [{"namespace": "team-a", "name": "user-queue"}],
        }
    )
    queue = terms.queue
    assert (queue.parent, queue.priority, queue.weight_milli, queue.strict) == ("research", 5, 1500, True)
    assert queue.state is QueueState.DRAINING
    assert queue.quotas == (
        Quota(QuotaResource("gpu"), 8000, 4000, 2000, 10_500),
        Quota(QuotaResource("gpu/H100-80GB"), 4000),
        Quota(QuotaResource("cpu"), 500),
    )
    assert queue.preemption == PreemptionPolicy(
        VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY,
        VictimScope.LOWER_PRIORITY,
        VictimScope.LOWER_PRIORITY,
        100,
        600 * 10**6,
        3600 * 10**6,
        0,
        VictimOrder.WORK_LOST_FIRST,
    )
    assert (queue.run_time_max_us, queue.half_life_us) == (86_400 * 10**6, 7 * 86_400 * 10**6)
    assert queue.reserve_after_us == 600 * 10**6
    assert queue.learn_run_times
    assert terms.namespaces == ("team-a", "team-a-dev")
    assert terms.local_names == (("team-a", "user-queue"),)
    assert terms.selector is not None
    assert terms.selector.accepts({"team": "a"})
    assert not terms.selector.accepts({"team": "b"})


def test_prices_stand_on_a_root_under_the_models_own_names() -> None:
    terms = read(
        {"prices": [{"model": "NVIDIA-H100-80GB-HBM3", "price": 4}, {"model": "T4", "price": "0.5"}]}
    )
    assert terms.prices == (("H100-80GB", 4000), ("T4", 500))


def test_a_family_of_models_is_no_model_and_its_members_are_named() -> None:
    with pytest.raises(ObjectError, match=r"several models, found 'A100'; expected A100-.* or A100-"):
        read({"quotas": [{"resource": "gpu/A100", "nominal": 1}]})


def test_a_model_that_no_catalogue_has_keeps_its_name() -> None:
    terms = read({"quotas": [{"resource": "gpu/X9000", "nominal": 1}]})
    assert terms.queue.quotas[0].resource == "gpu/X9000"


def test_a_misspelt_resource_is_told_with_the_probable_one() -> None:
    with pytest.raises(
        ObjectError, match=r"FleetQueue team-a, spec.quotas\[0\].resource: unknown.*gpu-memory\?"
    ):
        read({"quotas": [{"resource": "gpu-memroy"}]})


def test_a_status_that_a_user_wrote_badly_is_no_status() -> None:
    found = decoded({"metadata": {"name": "a"}, "spec": {}, "status": {"resources": 7}}, FleetQueue)
    assert status_of(found) == FleetQueueStatus()


def test_definition_and_codec_have_the_same_patterns() -> None:
    definition = (FOLDER / "fleetqueues.yaml").read_text(encoding="utf-8")
    for pattern in (quota_amounts.PATTERN, durations.PATTERN, NUMBER_PATTERN):
        assert f'"^{pattern}$"' in definition


@given(st.sampled_from(RESOURCES), st.integers(0, 2**40))
def test_an_amount_is_read_as_it_was_written(resource: str, units: int) -> None:
    name = QuotaResource(resource)
    assert read_amount(name, written_amount(name, units), "") == units


@given(st.integers(0, 100 * 365 * 86_400 * 1000))
def test_a_length_of_time_is_read_as_it_was_written(length_ms: int) -> None:
    assert durations.read_duration(durations.written_duration(length_ms * 1000), "") == length_ms * 1000


TEXT = st.text(max_size=12) | st.sampled_from(["gpu", "8", "7.5", "80Gi", "1h", "-1", "Any", "team-a", "1e9"])
AMOUNT = TEXT | st.integers(-(2**63), 2**63)
QUOTAS = st.lists(
    st.fixed_dictionaries(
        {"resource": TEXT | st.sampled_from(RESOURCES)},
        optional=dict.fromkeys(("nominal", "borrowingLimit", "lendingLimit", "hardLimit"), AMOUNT),
    ),
    max_size=3,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "parent": TEXT,
        "priority": st.integers(-(2**40), 2**40),
        "weight": AMOUNT,
        "state": TEXT,
        "quotas": QUOTAS,
        "prices": st.lists(st.fixed_dictionaries({"model": TEXT, "price": AMOUNT}), max_size=2),
        "preemption": st.dictionaries(st.sampled_from(["withinQueue", "reclaim", "preemptAfter"]), TEXT),
        "halfLife": TEXT,
        "reserveAfter": TEXT,
        "namespaces": st.lists(TEXT, max_size=3),
        "namespaceSelector": st.fixed_dictionaries(
            {"matchLabels": st.dictionaries(TEXT | st.text(string.ascii_letters), TEXT, max_size=2)}
        ),
        "localQueues": st.lists(st.fixed_dictionaries({"namespace": TEXT, "name": TEXT}), max_size=2),
    },
)


@given(SPECS, TEXT)
def test_a_value_in_bounds_or_a_harmless_line(spec: dict[str, Any], name: str) -> None:
    try:
        queue = read(spec, name).queue
    except ObjectError as error:
        message = str(error)
        assert message.isascii()
        assert message.isprintable()
        assert len(message) < 2000
        return
    for quota in queue.quotas:
        limits = (quota.borrowing_limit, quota.lending_limit, quota.hard_limit)
        assert all(0 <= amount <= 2**56 for amount in (quota.nominal, *limits) if amount is not None)
        assert quota.lending_limit is None or quota.lending_limit <= quota.nominal
    assert 0 <= queue.weight_milli < 10**9


@pytest.mark.parametrize(
    ("spec", "after_us"), [({}, 300 * 10**6), ({"reserveAfter": "Never"}, None), ({"reserveAfter": "0s"}, 0)]
)
def test_when_work_holds_a_reservation(spec: dict[str, str], after_us: int | None) -> None:
    assert read(spec).queue.reserve_after_us == after_us
