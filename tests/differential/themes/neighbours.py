"""Affinity and anti-affinity to other pods, both ways, and topology spread."""

from tests.differential.builder import APPS, HOSTNAME, REVISIONS, TIERS, ZONE, Builder
from tests.differential.cases import Manifest
from tests.differential.draw import Draw

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KEPT_APART = ("revision", "shard")
"""Labels for matchLabelKeys; no selector may name them too."""


def furnish(case: Builder) -> None:
    """Pods to be near to or far from, some of which keep others away."""
    draw = case.draw
    for _ in range(draw.randint(1, 3)):
        case.one_more_running()
    for pod in case.running:
        if draw.chance(0.2):
            pod["metadata"]["labels"]["shard"] = draw.one("1", "2")
        if draw.chance(0.4):
            keys = (*case.topology_keys, HOSTNAME, ZONE)
            terms = [_term(draw, keys) for _ in range(draw.randint(1, 2))]
            pod["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: terms}}
        if draw.chance(0.15):
            pod["metadata"]["deletionTimestamp"] = "soon"
        elif draw.chance(0.1):
            pod["status"] = {"phase": draw.one("Succeeded", "Failed")}


def ask_affinity(case: Builder, pod: Manifest) -> None:
    """A pod with terms of its own."""
    draw = case.draw
    affinity = pod["spec"].setdefault("affinity", {})
    if draw.chance(0.3):
        pod["metadata"]["labels"]["shard"] = draw.one("1", "2")
    if draw.chance(0.6):
        terms = [_term(draw, case.topology_keys) for _ in range(draw.randint(1, 2))]
        affinity["podAffinity"] = {REQUIRED: terms}
    if draw.chance(0.5):
        terms = [_term(draw, (*case.topology_keys, HOSTNAME, ZONE)) for _ in range(draw.randint(1, 2))]
        affinity["podAntiAffinity"] = {REQUIRED: terms}
    if draw.chance(0.15):
        wish = {"weight": draw.randint(1, 100), "podAffinityTerm": _term(draw, case.topology_keys)}
        affinity.setdefault("podAffinity", {})[PREFERRED] = [wish]


def _term(draw: Draw, keys: tuple[str, ...]) -> Manifest:
    term: Manifest = {"topologyKey": draw.choice(keys)}
    selects = draw.chance(0.92)
    if selects:
        term["labelSelector"] = selector(draw)
    if draw.chance(0.3):
        term["namespaces"] = sorted(draw.some(("red", "blue", "green", "nowhere"), 1, 3))
    if draw.chance(0.35):
        term["namespaceSelector"] = _of_namespaces(draw)
    if selects and draw.chance(0.3):
        keys_apart = draw.some(KEPT_APART, 1, 2)
        matching = [key for key in keys_apart if draw.chance(0.6)]
        differing = [key for key in keys_apart if key not in matching]
        if matching:
            term["matchLabelKeys"] = matching
        if differing:
            term["mismatchLabelKeys"] = differing
    return term


def _of_namespaces(draw: Draw) -> Manifest:
    return draw.one(
        {},
        {"matchLabels": {"team": draw.one("a", "b")}},
        {"matchExpressions": [{"key": "stage", "operator": draw.one("Exists", "DoesNotExist")}]},
        {"matchLabels": {"kubernetes.io/metadata.name": draw.one("red", "plain")}},
        {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
    )


def selector(draw: Draw) -> Manifest:
    """A selector of pods, at times of all of them."""
    if draw.chance(0.15):
        return {}
    found: Manifest = {}
    if draw.chance(0.6):
        key, values = draw.one(("app", APPS), ("tier", TIERS))
        found["matchLabels"] = {key: draw.one(*values)}
    if draw.chance(0.5) or not found:
        found["matchExpressions"] = [_expression(draw)]
    return found


def _expression(draw: Draw) -> Manifest:
    key, values = draw.one(("app", APPS), ("tier", TIERS))
    operator = draw.one("In", "In", "NotIn", "Exists", "DoesNotExist")
    if operator in {"In", "NotIn"}:
        return {"key": key, "operator": operator, "values": sorted(draw.some(values, 1, 2))}
    return {"key": key, "operator": operator}


def furnish_spread(case: Builder) -> None:
    """Pods that are spread unevenly, on nodes of which some do not count."""
    draw = case.draw
    for _ in range(draw.randint(1, 5)):
        pod = case.one_more_running()
        # Mostly where asked pods are: only pods of the same namespace count.
        pod["metadata"]["namespace"] = draw.choice(case.asked)["metadata"]["namespace"]
        if draw.chance(0.15):
            pod["metadata"]["deletionTimestamp"] = "soon"
        elif draw.chance(0.1):
            pod["status"] = {"phase": draw.one("Succeeded", "Failed")}
    for node in case.nodes:
        if draw.chance(0.3):
            node["metadata"]["labels"]["disk"] = "ssd"
        if draw.chance(0.2):
            effect = draw.one("NoSchedule", "NoExecute", "PreferNoSchedule")
            node["spec"]["taints"] = [{"key": "dedicated", "value": "a", "effect": effect}]
        if draw.chance(0.1):
            node["spec"]["unschedulable"] = True


def ask_spread(case: Builder, pod: Manifest) -> None:
    """A pod with constraints, some of which look at all nodes."""
    draw, spec = case.draw, pod["spec"]
    constraints = []
    for key in draw.some(case.topology_keys, 1, 2):
        constraint: Manifest = {
            "maxSkew": draw.one(1, 1, 2, 3),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if draw.chance(0.9) else "ScheduleAnyway",
        }
        if draw.chance(0.93):
            constraint["labelSelector"] = selector(draw)
            if draw.chance(0.3):
                constraint["matchLabelKeys"] = draw.some((*KEPT_APART, "nobody-has-it"), 1, 2)
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and draw.chance(0.4):
            constraint["minDomains"] = draw.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if draw.chance(0.6):
                constraint[policy] = draw.one("Honor", "Ignore")
        constraints.append(constraint)
    spec["topologySpreadConstraints"] = constraints
    if draw.chance(0.3):
        spec.setdefault("nodeSelector", {})["disk"] = "ssd"
    if draw.chance(0.3):
        spec.setdefault("tolerations", []).append({"key": "dedicated", "operator": "Exists"})
    if draw.chance(0.5):
        pod["metadata"]["labels"]["revision"] = draw.one(*REVISIONS)
