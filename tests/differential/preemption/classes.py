"""The PriorityClasses of all cases of preemption."""

from collections.abc import Mapping

from gpufleet.kube import keys, resources
from tests.differential.cases import Manifest

VALUES: Mapping[str, int] = {
    "below-zero": -100,
    "low": 10,
    "middle": 100,
    "protected": 100,
    "high": 1000,
    "patient": 1000,
    "highest": 10_000,
}
NEVER = "patient"
"""The class whose pods have no pod evicted."""
PROTECTED = "protected"
"""The class whose pods are never evicted."""
RUNNING = ("below-zero", "low", "low", "middle", "middle", "high", "highest")
ASKING = ("low", "middle", "high", "high", "high", "highest", "highest", NEVER)


def priority_classes() -> list[Manifest]:
    """All of them."""
    kind = resources.PRIORITY_CLASSES
    found: list[Manifest] = []
    for name, value in VALUES.items():
        one: Manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name},
            "value": value,
        }
        if name == NEVER:
            one["preemptionPolicy"] = "Never"
        if name == PROTECTED:
            one["metadata"]["labels"] = {keys.PREEMPTIBLE: "false"}
        found.append(one)
    return found
