"""What to tell the user whose label requirements match no node.

Most selectors that match nothing are misspelt. Given the labels that the fleet has, this names each
requirement that no node can satisfy and the closest key or value that exists. It is pure text work without a
score of its own; the explanation of a waiting pod uses it.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from gpufleet.model.labels import Operator, Requirement

# Labels such as the host name have as many values as nodes; comparing with all would take long.
MAXIMUM_COMPARED = 2000
CANDIDATES_MAX = 5
"""So many of the texts that are most alike are looked at more closely."""

_CUTOFF = 0.6
"""The usual ratio of ``difflib``: less alike texts are no misspelling of each other."""

LETTERS_A_SLIP = 4
SLIPS_MAX = 3
"""A slip for every so many letters, three at most: what differs in more is another name."""

_WORDS = re.compile(r"[a-z0-9]+")


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
    """The candidate that was probably meant by a misspelt text, ignoring case; None if there is none."""
    folded = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    same = folded.get(text.casefold())
    if same is not None:
        return same
    compared = sorted(folded, key=lambda key: (abs(len(key) - len(text)), key))[:MAXIMUM_COMPARED]
    matches = difflib.get_close_matches(text.casefold(), compared, n=CANDIDATES_MAX, cutoff=_CUTOFF)
    return next((folded[one] for one in matches if is_slip(text.casefold(), one)), None)


def is_slip(written: str, meant: str) -> bool:
    """True if a text is a misspelling of another: few letters are missing, too many, swapped, or others.

    In a word with digits none is another one: "hmb3" is a slip for "hbm3", "a100" none for "h100". What lacks
    whole words is one, too: "h100-80gb" for "nvidia-h100-80gb-hbm3".
    """
    words = _WORDS.findall(written), _WORDS.findall(meant)
    if _is_cut_short(*words):
        return True
    if len(words[0]) == len(words[1]):
        for one, other in zip(*words, strict=True):
            has_digits = any(map(str.isdigit, one + other))
            if one != other and has_digits and len(one) == len(other) and sorted(one) != sorted(other):
                return False
    slips = min(SLIPS_MAX, max(1, min(len(written), len(meant)) // LETTERS_A_SLIP))
    return edits_between(written, meant) <= slips


def _is_cut_short(written: list[str], meant: list[str]) -> bool:
    """True if all words are there in their order, some with digits, and others are left out."""
    rest = iter(meant)
    has_digits = any(map(str.isdigit, "".join(written)))
    return has_digits and len(written) > 1 and all(word in rest for word in written)


def edits_between(one: str, other: str) -> int:
    """How many letters are put in, left out, replaced, or swapped with their neighbour."""
    before, last = list[int](), list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        now = [row]
        for column, second in enumerate(other, start=1):
            edits = min(last[column] + 1, now[column - 1] + 1, last[column - 1] + (letter != second))
            if before and column > 1 and one[row - 2] == second and letter == other[column - 2]:
                edits = min(edits, before[column - 2] + 1)
            now.append(edits)
        before, last = last, now
    return last[-1]
