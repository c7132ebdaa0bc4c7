"""Which nodes a pod accepts by label and name, and which nodes accept it by taint and cordon."""

from tests.differential.builder import ZONE, Builder
from tests.differential.cases import CASE_LABEL, Manifest
from tests.differential.draw import Draw

DISKS = ("ssd", "hdd")
GENERATIONS = ("1", "7", "10", "007", "new", "9223372036854775807")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
TAINT_KEYS = ("dedicated", "level", "example.com/gpu")
TAINT_VALUES = ("", "a", "1", "5", "05")
CORDON = "node.kubernetes.io/unschedulable"


def furnish_labels(case: Builder) -> None:
    """Labels to select by."""
    for node in case.nodes:
        labels = node["metadata"]["labels"]
        if case.draw.chance(0.7):
            labels["disk"] = case.draw.one(*DISKS)
        if case.draw.chance(0.7):
            labels["generation"] = case.draw.one(*GENERATIONS)
        if case.draw.chance(0.3):
            labels["empty"] = ""


def ask_nodes(case: Builder, pod: Manifest) -> None:
    """Selector and affinity, at times without the plain selector of the case."""
    draw, spec = case.draw, pod["spec"]
    if draw.chance(0.4):
        spec["nodeSelector"]["disk"] = draw.one(*DISKS)
    affinity: Manifest = {}
    if draw.chance(0.8):
        terms = [_term(case) for _ in range(draw.randint(1, 3))]
        if draw.chance(0.3):
            del spec["nodeSelector"]
            for term in terms:
                of_case = {"key": CASE_LABEL, "operator": "In", "values": [case.token]}
                term.setdefault("matchExpressions", []).append(of_case)
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw.chance(0.2):
        preferred = [{"weight": draw.randint(1, 100), "preference": _term(case)}]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    if affinity:
        spec["affinity"] = {"nodeAffinity": affinity}


def _term(case: Builder) -> Manifest:
    draw = case.draw
    term: Manifest = {}
    if draw.chance(0.85):
        term["matchExpressions"] = [_expression(case) for _ in range(draw.randint(1, 2))]
    if draw.chance(0.25):
        name = draw.one(case.one_node(), f"{case.token}-none")
        field = {"key": "metadata.name", "operator": draw.one("In", "In", "NotIn"), "values": [name]}
        term["matchFields"] = [field]
    return term


def _expression(case: Builder) -> Manifest:
    draw = case.draw
    key = draw.one("disk", "generation", "generation", "empty", ZONE, "nowhere")
    if key == "generation" and draw.chance(0.6):
        bound = draw.one("0", "1", "6", "10", "9223372036854775806")
        return {"key": key, "operator": draw.one("Gt", "Lt"), "values": [bound]}
    operator = draw.one("In", "In", "NotIn", "Exists", "DoesNotExist")
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    values = {
        "disk": DISKS,
        "generation": GENERATIONS,
        "empty": ("", "full"),
        ZONE: (case.zone(), case.zone()),
        "nowhere": ("x",),
    }[key]
    return {"key": key, "operator": operator, "values": sorted(set(draw.some(values, 1, 2)))}


def furnish_taints(case: Builder) -> None:
    """Taints and cordons."""
    draw = case.draw
    for node in case.nodes:
        if draw.chance(0.7):
            keys = draw.some([(key, effect) for key in TAINT_KEYS for effect in EFFECTS], 1, 2)
            node["spec"]["taints"] = [_taint(draw, key, effect) for key, effect in keys]
        if draw.chance(0.2):
            node["spec"]["unschedulable"] = True


def _taint(draw: Draw, key: str, effect: str) -> Manifest:
    value = draw.one(*TAINT_VALUES)
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def ask_tolerance(case: Builder, pod: Manifest) -> None:
    """Tolerations, often of the very taints of a node."""
    draw = case.draw
    found = [_toleration(draw) for _ in range(draw.randint(0, 2))]
    tainted = [node for node in case.nodes if node["spec"].get("taints")]
    if tainted and draw.chance(0.7):
        found += [_tolerated(draw, taint) for taint in draw.choice(tainted)["spec"]["taints"]]
    if draw.chance(0.2):
        found.append({"key": CORDON, "operator": "Exists", "effect": draw.one("NoSchedule", "NoExecute")})
    pod["spec"]["tolerations"] = found


def _tolerated(draw: Draw, taint: Manifest) -> Manifest:
    """A toleration of this taint, or one that nearly is."""
    found = {"key": taint["key"], "operator": draw.one("Equal", "Exists", "")}
    if found["operator"] != "Exists":
        found["value"] = taint.get("value", "")
    if draw.chance(0.7):
        found["effect"] = taint["effect"]
    return found


def _toleration(draw: Draw) -> Manifest:
    if draw.chance(0.1):
        return {"operator": "Exists"} | ({"effect": draw.one(*EFFECTS)} if draw.chance(0.5) else {})
    operator = draw.one("Equal", "Exists", "Gt", "Lt")
    found: Manifest = {"key": draw.one(*TAINT_KEYS), "operator": operator}
    if operator == "Equal":
        found["value"] = draw.one(*TAINT_VALUES)
    elif operator in {"Gt", "Lt"}:
        found["value"] = draw.one("0", "3", "-5", "7")
    if draw.chance(0.6):
        found["effect"] = draw.one(*EFFECTS)
    return found
