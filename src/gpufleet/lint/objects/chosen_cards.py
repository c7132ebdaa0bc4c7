"""Which cards of the catalogue a container may get: by what its pod selects, or by the nodes for it."""

from collections.abc import Mapping

from gpufleet.fit.catalogue import CardEntry, find_cards
from gpufleet.kube.meanings.node_labels import CARD_LABELS, NVIDIA_PRODUCT, card_name
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.model.labels import Operator
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import NVIDIA_GPU


def chosen_cards(template: PodTemplate, container: Container, context: Context) -> tuple[CardEntry, ...]:
    """The cards that the container may get; none where one of them is not known."""
    if container.gpu_names != (NVIDIA_GPU,):
        return ()
    named = {
        (one.requirement.key, value)
        for term in template.node_terms
        for one in term
        if one.requirement.key in CARD_LABELS and one.requirement.operator is Operator.IN
        for value in one.requirement.values
    }
    if not named and context.cluster is not None:
        named = {_named_by(one.labels) for one in context.cluster.candidates(template)}
    found: dict[str, CardEntry] = {}
    for label, value in sorted(named):
        # A slice or a share has less memory than its card.
        if "-MIG-" in value or value.endswith("-SHARED"):
            return ()
        try:
            cards = find_cards(card_name(label, value))
        except InputError:
            return ()
        # Clouds name families too: which of its cards the node has is not known.
        if label != NVIDIA_PRODUCT and len(cards) > 1:
            return ()
        found.update((card.model, card) for card in cards)
    return tuple(found.values())


def _named_by(labels: Mapping[str, str]) -> tuple[str, str]:
    """The first of a node's labels that names its card, and its value; empty where none does."""
    return next(((one, labels[one]) for one in CARD_LABELS if labels.get(one)), (NVIDIA_PRODUCT, ""))
