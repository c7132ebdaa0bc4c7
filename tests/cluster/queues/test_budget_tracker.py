"""What the engine is told of disruption budgets, against a plain model: the last good reading of each."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cluster.queues.budget_tracker import BudgetTracker
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.event import DisruptionBudgetRemoved, DisruptionBudgetSet
from gpufleet.kube import resources
from gpufleet.kube.objects.disruption import PodDisruptionBudget
from tests.kube.wire_objects import a_pod, decoded

ACTS = st.sampled_from(["set", "negative", "unreadable", "delete"])
PLACES = st.tuples(st.sampled_from(["red", "blue"]), st.sampled_from(["a", "b"]))


def budget(namespace: str, name: str, allowed: int, **disrupted: str) -> Any:
    """A budget whose controller has seen its spec."""
    metadata = {"namespace": namespace, "name": name, "generation": 1}
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1, "disruptedPods": disrupted}
    spec = {"selector": {"matchLabels": {"app": name}}}
    return decoded({"metadata": metadata, "spec": spec, "status": status}, PodDisruptionBudget)


@given(st.lists(st.tuples(ACTS, PLACES, st.integers(0, 3))))
def test_the_engine_knows_the_last_good_reading_of_each_budget_that_is_there(
    acts: list[tuple[str, tuple[str, str], int]],
) -> None:
    picture = Picture()
    there = picture.objects.setdefault(resources.POD_DISRUPTION_BUDGETS, {})
    book = BudgetTracker(picture)
    told: dict[tuple[str, str], int] = {}
    model: dict[tuple[str, str], int] = {}
    for act, place, allowed in acts:
        unreadable = ""
        match act:
            case "set":
                there[place] = budget(*place, allowed)
                model[place] = allowed
            case "negative":
                there[place] = budget(*place, -1 - allowed)
            case "unreadable":
                unreadable = "not JSON"
            case "delete":
                there.pop(place, None)
                model.pop(place, None)
        for event in book.update(*place, unreadable):
            match event:
                case DisruptionBudgetSet(found):
                    told[found.namespace, found.name] = found.allowed
                case DisruptionBudgetRemoved(namespace, name):
                    # Of a budget that the engine does not know it is not told that it is gone.
                    del told[namespace, name]
        assert told == model
        for namespace in ("red", "blue"):
            assert book.guards(namespace) == any(space == namespace for space, _ in model)


def test_pods_that_are_counted_as_disrupted_are_known_by_their_uids() -> None:
    picture = Picture()
    known = a_pod(name="p", namespace="red")
    picture.objects[resources.PODS] = {("red", "p"): known}
    at = "2026-01-01T00:00:00Z"
    picture.objects[resources.POD_DISRUPTION_BUDGETS] = {("red", "a"): budget("red", "a", 1, p=at, gone=at)}
    (event,) = BudgetTracker(picture).update("red", "a")
    assert isinstance(event, DisruptionBudgetSet)
    assert event.budget.disrupted == (known.metadata.uid,)
