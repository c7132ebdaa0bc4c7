"""What the auditor says: a promise that broke, when, of which objects, and what was seen."""

from dataclasses import dataclass

PROMISES = {
    "I1": "no device, MIG instance or share is granted or held beyond what there is of it",
    "I4": "at rest grants, reports of nodes, kubelets and containers name the same devices for the same pods",
    "I5": "no admission takes a queue beyond its limits",
    "I12": "running pods and their devices are left alone, but for evictions that name their reason",
    "I14": "no pod gains a device, a quota or a place that was not granted",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that did not hold."""

    promise: str
    at_s: float
    objects: tuple[str, ...]
    words: str

    def __str__(self) -> str:
        return f"{self.promise} at {self.at_s:.3f} s, {', '.join(self.objects)}: {self.words}"
