"""PodDisruptionBudgets: what they let us evict, and what is no budget at all."""

from typing import Any

import msgspec
import pytest

from gpufleet.kube.codec.disruption_budgets import read_disruption_budget
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.disruption import PodDisruptionBudget
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import PodUid

UIDS = {"web-1": PodUid("uid-1")}


def read(spec: dict[str, Any], status: dict[str, Any], generation: int = 1) -> DisruptionBudget:
    metadata = {"name": "b", "namespace": "team", "generation": generation}
    body = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})
    return read_disruption_budget(msgspec.json.decode(body, type=PodDisruptionBudget), UIDS.get)


def web(**labels: str) -> dict[str, Any]:
    return {"selector": {"matchLabels": labels}, "minAvailable": 1}


def test_a_budget_says_how_many_may_go_and_who_is_counted_already() -> None:
    gone = {"web-1": "2026-01-01T00:00:00Z", "nobody": "2026-01-01T00:00:00Z"}
    status = {"observedGeneration": 1, "disruptionsAllowed": 2, "disruptedPods": gone}
    found = read(web(app="web"), status)
    assert (found.namespace, found.name, found.allowed) == ("team", "b", 2)
    assert found.disrupted == ("uid-1",)
    assert found.selector is not None
    assert found.selector.accepts({"app": "web"})
    assert not found.selector.accepts({"app": "db"})


@pytest.mark.parametrize("status", [{}, {"observedGeneration": 1, "disruptionsAllowed": 3}])
def test_until_its_controller_has_read_it_a_budget_allows_nothing(status: dict[str, Any]) -> None:
    assert read(web(app="web"), status, generation=2).allowed == 0


def test_an_empty_selector_keeps_everybody_and_none_keeps_nobody() -> None:
    everybody = read({"selector": {}}, {}).selector
    assert everybody is not None
    assert everybody.accepts({"any": "thing"})
    assert read({}, {}).selector is None


@pytest.mark.parametrize(
    ("spec", "status", "words"),
    [
        (web(a="b"), {"disruptionsAllowed": -1}, "status.disruptionsAllowed"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, {}, "spec.selector"),
    ],
)
def test_what_is_no_budget_is_refused_with_its_field(
    spec: dict[str, Any], status: dict[str, Any], words: str
) -> None:
    with pytest.raises(ObjectError, match="PodDisruptionBudget team/b") as problem:
        read(spec, status)
    assert words in str(problem.value)
