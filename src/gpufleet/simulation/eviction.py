"""The eviction subresource: a deletion that asks the pod's disruption budget first."""

from typing import TYPE_CHECKING

from gpufleet.simulation import deletion, pod_rules
from gpufleet.simulation.object_selectors import label_predicate
from gpufleet.simulation.refusal import JsonObject, bad_request, not_found, too_many_requests, unreadable
from gpufleet.simulation.request_target import Target

if TYPE_CHECKING:
    from gpufleet.simulation.api_server import ApiServer

BUDGETS = ("policy", "poddisruptionbudgets")
PODS = ("", "pods")
NOT_NOW = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(server: "ApiServer", target: Target, eviction: JsonObject, user: str) -> JsonObject:
    """Evict a pod. Raises Refusal: 404, 409 by precondition, 429 by the budget."""
    if ((eviction.get("metadata") or {}).get("name") or "") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    server.policies.check_eviction(eviction, server.store, server.clock.monotonic_s())
    options = deletion.options_of(eviction.get("deleteOptions") or {}, dry_run=target.dry_run)
    name = (target.namespace, target.name)
    pod = server.store.get(PODS, name)
    if pod is None:
        raise not_found("", "pods", target.name)
    kind = server.kinds["", "v1", "pods"]
    # As the API server: what is over, has not started, or is being deleted costs no budget anything.
    unguarded = pod["status"].get("phase", "Pending") in {*pod_rules.TERMINAL, "Pending"}
    if not unguarded and "deletionTimestamp" not in pod["metadata"]:
        _take_from_budget(server, pod, user, dry_run=options.dry_run)
    options.check(pod, kind)
    if not options.dry_run:
        conditions = pod_rules.with_condition(
            pod["status"],
            "DisruptionTarget",
            "True",
            server.clock.now(),
            "EvictionByEvictionAPI",
            "Eviction API: evicting",
        )
        # A write of its own before the deletion, as the API server does it: a watch tells of both.
        marked = {**pod, "status": {**pod["status"], "conditions": conditions}}
        if marked != pod:
            server.write(kind, name, marked, user)
    # The mark has changed the version of the pod, so preconditions could not hold any more; they held above.
    unconditional = deletion.DeleteOptions(options.grace_s, dry_run=options.dry_run)
    server.delete(kind, name, unconditional, user)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _take_from_budget(server: "ApiServer", pod: JsonObject, user: str, *, dry_run: bool) -> None:
    budgets = [
        (name, budget)
        for name, budget in server.store.all(BUDGETS).items()
        if name[0] == pod["metadata"]["namespace"] and selects(budget, pod)
    ]
    if not budgets:
        return
    # The API server answers 500 here and not 429: no later try can succeed.
    if len(budgets) > 1:
        raise unreadable(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    name, budget = budgets[0]
    status = budget.get("status") or {}
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions") or []
    )
    # As the API server: a pod that is not ready costs the budget nothing while enough others are healthy.
    enough = status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
    policy = budget["spec"].get("unhealthyPodEvictionPolicy")
    if not ready and (policy == "AlwaysAllow" or enough):
        return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        words = f"The disruption budget {name[1]} is still being processed by the server."
        # The budget's controller has not seen the newest spec; the API server says to come back after 10 s.
        raise too_many_requests(NOT_NOW, 10, [{"reason": "DisruptionBudget", "message": words}])
    if not status.get("disruptionsAllowed"):
        words = (
            f"The disruption budget {name[1]} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise too_many_requests(NOT_NOW, 0, [{"reason": "DisruptionBudget", "message": words}])
    taken = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1}
    server.write(
        server.kinds["policy", "v1", "poddisruptionbudgets"],
        name,
        {**budget, "status": taken},
        user,
        dry_run=dry_run,
    )


def selects(budget: JsonObject, pod: JsonObject) -> bool:
    """Whether a budget is about a pod of its namespace."""
    selector = (budget.get("spec") or {}).get("selector") or {}
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        values = ",".join(expression.get("values") or [])
        terms.append(
            {
                "In": f"{expression['key']} in ({values})",
                "NotIn": f"{expression['key']} notin ({values})",
                "Exists": expression["key"],
                "DoesNotExist": f"!{expression['key']}",
            }[expression["operator"]]
        )
    predicate = label_predicate(",".join(terms))
    return predicate is None or predicate(pod)
