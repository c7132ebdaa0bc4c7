"""Evictions over the cases of Kubernetes' own tests and Karpenter's: the same pods end, the others are told.

The simulated API server answers. So the tables hold it to Kubernetes, and the actuator to the answers.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gpufleet.eviction.plan import Victim
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod_name import PodName
from tests.eviction.test_evictions import Case, in_case
from tests.published_cases import expected, name_of, published_cases
from tests.simulation.spoilt_way import refused

KUBERNETES = published_cases(__file__, "kubernetes")
KARPENTER = published_cases(__file__, "karpenter")
POD = "/api/v1/namespaces/default/pods/p"


def victim_of(found: Case, case: dict[str, Any]) -> Victim:
    """The pod of a case, with its budgets."""
    victim = found.pod("p", app="x")
    is_ready = "True" if case.get("is_ready", True) else "False"
    ready = [{"type": "Ready", "status": is_ready}]
    found.set_status(POD, {"phase": case.get("phase", "Running"), "conditions": ready})
    for number, one in enumerate(case.get("budgets", ())):
        name = f"budget-{number}"
        found.budget(name, one["allowed"], app=one.get("label", "x"))
        counts = {"currentHealthy": one.get("healthy", 1), "desiredHealthy": one.get("desired", 1)}
        found.set_status(f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{name}", counts)
    if case.get("is_gone") or case.get("is_namesake"):
        name = "gone" if case.get("is_gone") else "p"
        victim = msgspec.structs.replace(victim, pod=PodName("default", name, PodUid("another")))
    return victim


def conflicts_of(found: Case, case: dict[str, Any]) -> list[Callable[[], None] | Any]:
    """The answers before the server looks at the pod, after which it may be in another phase."""
    spoilt: list[Any] = [refused(409, "the object has been modified")] * case.get("conflicts", 0)
    if "becomes" in case:
        spoilt.append(lambda: found.set_status(POD, {"phase": case["becomes"]}))
    return spoilt


@pytest.mark.parametrize("case", KUBERNETES["evictions"] + KARPENTER["evictions"], ids=name_of)
def test_the_same_pods_end_and_the_others_are_told_why(case: dict[str, Any]) -> None:
    async def story(found: Case) -> None:
        victim = victim_of(found, case)
        if case.get("is_leaving"):
            leaving = msgspec.structs.replace(victim, deleted=True)
            assert await found.evictions.evict(leaving) is None
        found.way.spoilt = conflicts_of(found, case)
        refusal = await found.evictions.evict(victim)
        assert ("ends" if refusal is None else "stays") == expected(case)
        assert (None if refusal is None else refusal.cause) == case.get("cause")
        # A namesake is not touched; all else is told to end exactly where the table says so.
        if not (case.get("is_gone") or case.get("is_namesake")):
            there = found.by_uid(victim.pod.uid).get("metadata", {"deletionTimestamp": ""})
            assert ("deletionTimestamp" in there) == (refusal is None)

    in_case(story)


@pytest.mark.parametrize("case", KUBERNETES["budgets"], ids=name_of)
def test_an_eviction_is_counted_by_its_budget(case: dict[str, Any]) -> None:
    async def story(found: Case) -> None:
        found.budget("keeps", case["allowed"], app="x")
        assert await found.evictions.evict(found.pod("p", app="x")) is None
        budget = found.server.store.get(("policy", "poddisruptionbudgets"), ("default", "keeps"))
        assert budget is not None
        assert budget["status"]["disruptionsAllowed"] == expected(case)

    in_case(story)


@pytest.mark.parametrize("case", KUBERNETES["trials"], ids=name_of)
def test_a_trial_ends_nothing(case: dict[str, Any]) -> None:
    async def story(found: Case) -> None:
        victim = victim_of(found, case)
        pod = victim.pod
        await found.evictions.client.evict(
            pod.name, namespace=pod.namespace, uid=pod.uid, annotations={}, dry_run=True
        )
        assert expected(case) == "nothing ends"
        assert not found.leaving(victim)

    in_case(story)
