"""Giving each claim a volume of its own (bipartite matching by augmenting paths).

kube-scheduler gives each claim the first volume that is left, and so misses some assignments that
exist. Here a claim that finds its volumes taken may move others to one of theirs. Claims for which
nothing can be provisioned choose first.
"""


def assign(usable: list[list[str]], can_provision: list[bool]) -> list[str] | None:
    """A volume for each claim, "" where one is to be provisioned; None if it cannot be done.

    ``usable`` lists each claim's volumes, the best first.
    """
    holder: dict[str, int] = {}
    # First the claims for which no volume can be made: they depend on those there are.
    order = sorted(range(len(usable)), key=lambda claim: can_provision[claim])
    for claim in order:
        found = _settle(claim, usable, holder, {})
        if not found and not can_provision[claim]:
            return None
    given = {claim: volume for volume, claim in holder.items()}
    return [given.get(claim, "") for claim in range(len(usable))]


def _settle(claim: int, usable: list[list[str]], holder: dict[str, int], seen: dict[str, None]) -> bool:
    """Give the claim a volume, a free one if there is any; False if no other claim can make room for it."""
    for volume in usable[claim]:
        if volume not in holder:
            holder[volume] = claim
            return True
    for volume in usable[claim]:
        if volume not in seen:
            # Each volume is asked for once in a search: two claims would else pass one back and forth.
            seen[volume] = None
            if _settle(holder[volume], usable, holder, seen):
                holder[volume] = claim
                return True
    return False
