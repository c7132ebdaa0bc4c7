"""What a name on the command line means: a pod, a gang, or a controller, and what was meant by a wrong one.

People write ``pod/NAME``, ``NAME``, ``job/NAME``, ``podgroup/NAME``; a plain name is looked for among the
pods first, then among gangs and groups, then among controllers.
"""

import re

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.identifiers import GangName
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.phrases import listed

POD = "pod"
GANG = "gang"
ANY = ""
ALIASES = {
    "po": POD,
    "pods": POD,
    "pg": GANG,
    "podgroup": GANG,
    "podgroups": GANG,
    "group": GANG,
    "gangs": GANG,
    "jobs": "job",
    "deploy": "deployment",
    "deployments": "deployment",
    "sts": "statefulset",
    "statefulsets": "statefulset",
    "rs": "replicaset",
    "replicasets": "replicaset",
    "ds": "daemonset",
    "daemonsets": "daemonset",
}
"""What else people call the kinds; others (JobSet, PyTorchJob, RayCluster, ...) are looked for as gangs."""

KIND = re.compile(r"[A-Za-z][A-Za-z0-9.-]*")
"""A kind as people type it, perhaps with its group behind a dot."""

OWNER_KINDS = ("job", "deployment", "statefulset", "replicaset", "daemonset")
"""Controllers that make pods themselves, under the names that people use."""


class Wanted(msgspec.Struct, frozen=True):
    """A name and its kind, "" for any."""

    kind: str
    name: str


def read_name(text: str) -> Wanted:
    """``KIND/NAME`` or ``NAME`` as it was written. Raises InputError."""
    kind, slash, name = text.rpartition("/")
    if not name or (slash and not KIND.fullmatch(kind)):
        expected = "NAME, pod/NAME, job/NAME, deployment/NAME, podgroup/NAME"
        raise InputError("not a name", field="POD|GROUP", value=text, expected=expected)
    folded = kind.lower().partition(".")[0]
    return Wanted(ALIASES.get(folded, folded), name)


def find_gang(facts: Facts, wanted: Wanted, namespace: str) -> GangName | None:
    """The gang of that name in the namespace, if any pod names it."""
    if wanted.kind == POD:
        return None
    for name in facts.gangs.records:
        kind, _, path = name.partition("/")
        if path == f"{namespace}/{wanted.name}" and _is_kind(kind, wanted.kind):
            return name
    return _gang_without_a_record(facts, wanted, namespace)


def _is_kind(kind: str, wanted: str) -> bool:
    if wanted in {ANY, GANG}:
        return True
    singular = kind.partition(".")[0]
    return wanted in {singular, singular.removesuffix("s")}


def _gang_without_a_record(facts: Facts, wanted: Wanted, namespace: str) -> GangName | None:
    """A gang that no tracker has, because all its pods are held, gated, foreign or ended."""
    for pod in facts.picture.all(resources.PODS):
        if pod.metadata.namespace == namespace:
            gang = facts.gang_of(pod)
            if gang is not None and gang.rpartition("/")[2] == wanted.name:
                if _is_kind(gang.partition("/")[0], wanted.kind):
                    return gang
    return None


def group_kinds(facts: Facts, name: str, namespace: str) -> list[str]:
    """The kinds of group objects of that name, whether or not pods name them."""
    kinds = (
        resources.POD_GROUPS_V1BETA1,
        resources.POD_GROUPS_V1ALPHA2,
        resources.PLUGINS_POD_GROUPS,
        resources.VOLCANO_POD_GROUPS,
        resources.KAI_POD_GROUPS,
    )
    return [kind.api_version for kind in kinds if facts.picture.find(kind, name, namespace) is not None]


def unknown(facts: Facts, wanted: Wanted, namespace: str, controllers: list[str]) -> InputError:
    """The error for a name that nothing has; it says which name may have been meant."""
    elsewhere = sorted(
        key[0]
        for key in facts.picture.objects.get(resources.PODS, {})
        if key[1] == wanted.name and key[0] != namespace
    )
    here = facts.names(namespace)
    gangs = [name.rpartition("/")[2] for name in facts.gangs.records if name.split("/")[1] == namespace]
    near = nearest(wanted.name, {*here, *gangs, *controllers})
    if elsewhere:
        there = f"{listed(elsewhere)} has a pod of that name (-n {harmless(elsewhere[0])})"
        expected = f"a name in this namespace; {there}"
    elif near is not None:
        expected = f"one that is there; did you mean {harmless(near)}?"
    elif not here:
        expected = f"a name of another namespace (-n): there are no pods in {harmless(namespace)}"
    else:
        expected = f"one that is there, such as {listed(sorted(here))}"
    kind = {"": "pod or group", GANG: "group"}.get(wanted.kind, harmless(wanted.kind))
    return InputError(
        f"no {kind} of that name in namespace {harmless(namespace)}: {printable(wanted.name)}",
        expected=expected,
    )
