"""What to tell the user whose label requirements match no node.

Most selectors that match nothing are misspelt. Given the labels that the fleet has, this names each
requirement that no node can satisfy and the closest key or value that exists. It is pure text work without a
score of its own; the explanation of a waiting pod uses it.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from gpufleet.model.labels import Operator, Requirement

# Labels such as the host name have as many values as nodes; comparing with all would take long.
MAXIMUM_COMPARED = 2000
_CUTOFF = 0.6
"""The usual ratio of ``difflib``: less alike texts are no misspelling of each other."""


class Advice(msgspec.Struct, frozen=True):
    """A requirement that no node satisfies, and the nearest key or value that some node has."""

    requirement: Requirement
    nearest_key: str | None = None
    nearest_value: str | None = None

    def __str__(self) -> str:
        """The advice as a sentence for the pod's owner."""
        sentence = f"no node satisfies {self.requirement}"
        if self.nearest_key is not None:
            return f"{sentence}; did you mean the label {self.nearest_key}?"
        if self.nearest_value is not None:
            return f"{sentence}; did you mean {self.nearest_value}?"
        return sentence


def advise(
    requirements: Iterable[Requirement], known: Mapping[str, Collection[str | None]]
) -> tuple[Advice, ...]:
    """The requirements that no node satisfies, each with the nearest way out.

    ``known`` holds, for each label of the fleet, the values it has, and None among them if some
    node lacks the label; every node lacks a label that is not in ``known``.
    """
    return tuple(
        _advice(requirement, known)
        for requirement in requirements
        if not any(map(requirement.accepts_value, known.get(requirement.key, (None,))))
    )


def _advice(requirement: Requirement, known: Mapping[str, Collection[str | None]]) -> Advice:
    values = [value for value in known.get(requirement.key, ()) if value is not None]
    if not values:
        return Advice(requirement, nearest_key=nearest(requirement.key, known))
    if requirement.operator is not Operator.IN:
        return Advice(requirement)
    near = (nearest(asked, values) for asked in requirement.values)
    return Advice(requirement, nearest_value=next((value for value in near if value), None))


def nearest(text: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like the text, ignoring case; None if none is like it."""
    folded = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    same = folded.get(text.casefold())
    if same is not None:
        return same
    compared = sorted(folded, key=lambda key: (abs(len(key) - len(text)), key))[:MAXIMUM_COMPARED]
    matches = difflib.get_close_matches(text.casefold(), compared, n=1, cutoff=_CUTOFF)
    return folded[matches[0]] if matches else None
