"""Selectors of labels and of nodes, as written; ``codec.selectors`` says what they mean."""

import msgspec

from gpufleet.kube.objects.structure import Structure


class SelectorRequirement(Structure, frozen=True):
    """One condition: a key, an operator and values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Structure, frozen=True):
    """A selector by labels; both parts must hold."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(Structure, frozen=True):
    """Conditions on a node's labels and on its name."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Structure, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()
