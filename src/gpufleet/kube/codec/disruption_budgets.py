"""What a PodDisruptionBudget lets us evict.

While its controller has not read the newest spec it allows nothing, as the eviction API has it. A pod that is
not ready is counted like one that is: the API may allow more, and has the last word.
"""

from collections.abc import Callable

from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.selectors import label_selector
from gpufleet.kube.objects.disruption import PodDisruptionBudget
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import InputError


def read_disruption_budget(
    budget: PodDisruptionBudget, uid_of: Callable[[str], PodUid | None]
) -> DisruptionBudget:
    """The budget as a value; ``uid_of`` tells the uid of a pod of its namespace, None where there is none.

    Raises ObjectError, naming the field, for what makes no sense.
    """
    metadata, status = budget.metadata, budget.status
    with of_object("PodDisruptionBudget", f"{metadata.namespace}/{metadata.name}"):
        with inside("spec"):
            selector = label_selector(budget.spec.selector, "selector")
        allowed = status.disruptions_allowed
        if allowed < 0:
            with inside("status"):
                raise InputError(
                    "a negative number of evictions",
                    field="disruptionsAllowed",
                    value=allowed,
                    expected="0 or more",
                )
        # The API server lets no pod go either before the budget's controller has seen the newest spec.
        if status.observed_generation < metadata.generation:
            allowed = 0
        uids = (uid_of(name) for name in status.disrupted_pods)
        disrupted = tuple(uid for uid in uids if uid is not None)
        return DisruptionBudget(metadata.name, metadata.namespace, selector, allowed, disrupted)
