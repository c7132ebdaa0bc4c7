"""Label selectors of other objects, asked whether they select what has certain labels."""

from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.source.fields import Field


def selects(selector: Field, template: PodTemplate) -> bool:
    """Whether a selector by labels and expressions selects these pods; an empty one selects all."""
    labels = {name: field.text or "" for name, field in template.metadata.at("labels").entries()}
    return selector.exists and accepts(selector, labels)


def accepts(selector: Field, labels: dict[str, str]) -> bool:
    """Whether a selector, or one that is missing, takes what has these labels."""
    equal = all(labels.get(name) == field.text for name, field in selector.at("matchLabels").entries())
    return equal and all(_holds(one, labels) for one in selector.at("matchExpressions").items())


def _holds(expression: Field, labels: dict[str, str]) -> bool:
    key = expression.text_at("key") or ""
    values = {one.text for one in expression.at("values").items()}
    match expression.text_at("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
