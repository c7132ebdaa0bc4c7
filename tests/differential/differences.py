"""The differences from kube-scheduler that are meant, by the names they have in the documentation.

Each is as narrow as it can be told from a question: what it excuses is nothing but itself.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gpufleet.localkube.programs.releases import minor_version
from tests.differential.cases import Manifest, namespace_of
from tests.differential.comparison import Question
from tests.localkube.cluster import KUBERNETES

PAGE = Path(__file__).parents[2] / "docs" / "kube-scheduler-differences.md"
LATER = "WaitForFirstConsumer"
NO_VOLUME = "didn't find available persistent volumes to bind"


def documented() -> frozenset[str]:
    """The names of the differences on the page that tests can meet."""
    return frozenset(
        re.findall(r"^### `([a-z0-9-]+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )


def claims_matched_together(question: Question) -> bool:
    """Several claims of a pod compete for volumes, and one way of giving them out serves all.

    kube-scheduler gives each claim the first volume that fits and gives up if none is left for the next.
    """
    ours, theirs = question.ours.feasible, question.theirs.feasible
    return theirs < ours and NO_VOLUME in question.theirs.said and claims_compete(question)


def claims_compete(question: Question) -> bool:
    """Several claims of the pod wait for volumes that are there: what kube-scheduler gives the first decides
    whether one is left for the next, and that changes from try to try.
    """
    return len(_claims_for_volumes(question)) > 1


def _claims_for_volumes(question: Question) -> list[str]:
    """The claims of the pod that wait for one of the volumes that are there."""
    named = _claims(question.pod)
    local = {
        one["metadata"]["name"]
        for one in question.case.objects
        if one["kind"] == "StorageClass"
        and one["volumeBindingMode"] == LATER
        and one["provisioner"].startswith("kubernetes.io/")
    }
    return [
        one["metadata"]["name"]
        for one in question.case.objects
        if one["kind"] == "PersistentVolumeClaim"
        and namespace_of(one) == namespace_of(question.pod)
        and one["metadata"]["name"] in named
        and one["spec"]["storageClassName"] in local
    ]


def gpus_of_two_vendors(question: Question) -> bool:
    """No machine has GPUs of two vendors, so a pod that asks for both is refused at once."""
    return "several kinds of GPU" in question.ours.held and bool(question.theirs.feasible)


def claim_of_a_lost_node(question: Question) -> bool:
    """A claim for one pod at a time is in use by a pod of a node that is gone.

    kube-scheduler forgets the pod with its node; the volume may still be written to there.
    """
    case, ours, theirs = question.case, question.ours, question.theirs
    lost = [
        one
        for one in case.objects
        if one["kind"] == "Pod"
        and namespace_of(one) == namespace_of(question.pod)
        and one["spec"]["nodeName"] not in case.nodes
    ]
    shared = any(_claims(question.pod) & _claims(one) for one in lost)
    extra = theirs.feasible - ours.feasible
    only = all(ours.reasons.get(node) == ("volume-in-use",) for node in extra)
    return shared and only and ours.feasible < theirs.feasible


def _claims(pod: Manifest) -> set[str]:
    volumes = pod["spec"].get("volumes", ())
    return {one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one}


def resizing_before_1_37(question: Question) -> bool:
    """Until 1.37 the status of a container that is resized was looked at only in part."""
    statuses = (one.get("status", {}).get("containerStatuses") for one in question.case.objects)
    return before_1_37() and any(statuses)


def excluded_namespaces_before_1_37(question: Question) -> bool:
    """Until 1.37 a pod's own term that leaves out namespaces by their labels left out none."""
    affinity = question.pod["spec"].get("affinity", {})
    terms = [
        term
        for side in ("podAffinity", "podAntiAffinity")
        for term in affinity.get(side, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    ]
    operators = {
        expression["operator"]
        for term in terms
        for expression in term.get("namespaceSelector", {}).get("matchExpressions", ())
    }
    return before_1_37() and not operators.isdisjoint({"NotIn", "DoesNotExist"})


def before_1_37() -> bool:
    """True on older versions than the one that CI runs."""
    return minor_version(KUBERNETES) < (1, 37)


DIFFERENCES: Mapping[str, Callable[[Question], bool]] = {
    "claims-matched-together": claims_matched_together,
    "claim-of-a-lost-node": claim_of_a_lost_node,
    "gpus-of-two-vendors": gpus_of_two_vendors,
    "resizing-before-1-37": resizing_before_1_37,
    "excluded-namespaces-before-1-37": excluded_namespaces_before_1_37,
}


def excuse(question: Question) -> str | None:
    """The name of the difference that explains why the answers differ; None for none."""
    return next((name for name, explains in DIFFERENCES.items() if explains(question)), None)
