"""The auditor at work on a whole run: nothing in what happened, and each falsehood put into it."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gpufleet.simulation.audited import findings_of
from gpufleet.simulation.history import EVENTS_OF_ANY_GROUP, FLEET_QUEUES, NODE_DEVICES, PODS, History
from gpufleet.simulation.live_scheduler import TEAMS, LiveScheduler
from gpufleet.simulation.object_store import Written
from gpufleet.simulation.pod_facts import GRANT, is_over, node_of
from gpufleet.simulation.scenario import run_scenario

Change = Callable[[Written], Written | None]


@pytest.fixture(scope="module")
def run() -> History:
    """Teams that take back from each other."""
    return run_scenario(LiveScheduler(), 1, plan=TEAMS).history


def promises(history: History) -> set[str]:
    return {finding.promise for finding in findings_of(history, at_rest=True)}


def changed(history: History, change: Change) -> History:
    """Another history, in which each write went as ``change`` says; None leaves it out."""
    writes = tuple(other for one in history.writes if (other := change(one)) is not None)
    return msgspec.structs.replace(history, writes=writes)


def rewritten(value: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(value).replace(old, new))


def grants(history: History) -> list[tuple[str, str, str]]:
    """Name, node and first device of every pod that runs at the end."""
    found = []
    for pod in history.final(PODS).values():
        text = pod["metadata"].get("annotations", {}).get(GRANT)
        if text is not None and node_of(pod) and not is_over(pod):
            devices = [one["id"] for part in json.loads(text)["containers"].values() for one in part]
            if devices:
                found.append((pod["metadata"]["name"], node_of(pod), devices[0]))
    return sorted(found)


def test_nothing_is_found_in_what_happened(run: History) -> None:
    assert findings_of(run, at_rest=True) == []


def test_a_grant_of_anothers_device_is_found(run: History) -> None:
    (_, _, device), (other, _, its) = grants(run)[:2]

    def forged(one: Written) -> Written:
        if one.kind != PODS or one.name[1] != other:
            return one
        value, before = (rewritten(value, its, device) for value in (one.value, one.before))
        return msgspec.structs.replace(one, value=value, before=before)

    assert {"I1", "I4"} <= promises(changed(run, forged))


def test_a_report_that_forgets_or_exchanges_holders_is_found(run: History) -> None:
    _, _, device = grants(run)[0]
    forgotten = changed(
        run,
        lambda one: (
            msgspec.structs.replace(one, value=rewritten(one.value, device, "GPU-elsewhere"))
            if one.kind == NODE_DEVICES and one.value is not None
            else one
        ),
    )
    assert "I4" in promises(forgotten)


def test_a_quota_that_was_never_that_large_is_found(run: History) -> None:
    def smaller(one: Written) -> Written:
        if one.kind != FLEET_QUEUES or one.name[1] != "team-1" or one.value is None:
            return one
        spec = {**one.value["spec"], "quotas": [{"resource": "gpu", "nominal": 0, "borrowingLimit": 0}]}
        return msgspec.structs.replace(one, value={**one.value, "spec": spec})

    assert "I5" in promises(changed(run, smaller))


def test_a_door_that_was_never_open_is_found(run: History) -> None:
    def closed(one: Written) -> Written:
        if one.kind != FLEET_QUEUES or one.value is None:
            return one
        spec = {**one.value["spec"], "namespaces": ["somewhere-else"]}
        return msgspec.structs.replace(one, value={**one.value, "spec": spec})

    assert "I14" in promises(changed(run, closed))


def test_an_eviction_without_a_word_is_found(run: History) -> None:
    def silent(one: Written) -> Written | None:
        if one.kind in EVENTS_OF_ANY_GROUP:
            return None
        value, before = (
            rewritten(value, "DisruptionTarget", "Whatever") for value in (one.value, one.before)
        )
        return msgspec.structs.replace(one, value=value, before=before)

    assert "I12" in promises(changed(run, silent))


def test_a_grant_that_somebody_else_wrote_is_found(run: History) -> None:
    def by_another(one: Written) -> Written:
        grants_now = one.kind == PODS and one.value is not None and node_of(one.value)
        return msgspec.structs.replace(one, user="system:users:someone") if grants_now else one

    assert "I14" in promises(changed(run, by_another))
