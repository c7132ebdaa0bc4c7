"""The differences from kube-scheduler that are meant, by the names they have in the documentation.

Each is as narrow as it can be told from a question: what it excuses is nothing but itself.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.differential.cases import namespace_of
from tests.differential.comparison import Question

PAGE = Path(__file__).parents[2] / "docs" / "kube-scheduler-differences.md"
LATER = "WaitForFirstConsumer"
NO_VOLUME = "didn't find available persistent volumes to bind"


def documented() -> frozenset[str]:
    """The names of the differences on the page that tests can meet."""
    return frozenset(re.findall(r"^### `([a-z-]+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))


def claims_matched_together(question: Question) -> bool:
    """Several claims of a pod compete for volumes, and one way of giving them out serves all.

    kube-scheduler gives each claim the first volume that fits and gives up if none is left for the next.
    """
    ours, theirs = question.ours.feasible, question.theirs.feasible
    return theirs < ours and NO_VOLUME in question.theirs.said and len(_claims_for_volumes(question)) > 1


def _claims_for_volumes(question: Question) -> list[str]:
    """The claims of the pod that wait for one of the volumes that are there."""
    volumes = question.pod["spec"].get("volumes", ())
    named = {one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one}
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


DIFFERENCES: Mapping[str, Callable[[Question], bool]] = {"claims-matched-together": claims_matched_together}


def excuse(question: Question) -> str | None:
    """The name of the difference that explains why the answers differ; None for none."""
    return next((name for name, explains in DIFFERENCES.items() if explains(question)), None)
