"""What every queue of the tree is owed, level by level: the view that ``gpufleet queues`` and reclaim show.

Each resource is looked at alone. From the bottom up, every queue learns what it and all below it want; what
it is guaranteed covers part of that, the rest is a claim on what its parent has. From the top down, what
a queue has is poured into the claims of its children (``water_filling``). A queue is owed what it wants
where no limit is stated.

This costs the whole tree, so no decision asks for it: ``turns`` needs only one path.
"""

from collections.abc import Mapping, Sequence

from gpufleet.engine.arrays import layout
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.engine.queueing.water_filling import Claim, owed_by_name


class Level:
    """One resource over the whole tree: claims from the bottom up, what is owed from the top down.

    ``wanted`` says for each leaf what it uses and waits for.
    """

    def __init__(self, tree: QueueTree, column: int, wanted: Mapping[int, int], unit: int) -> None:
        self.tree = tree
        self.wanted = wanted
        self.unit = unit
        limits = tree.store.tables.queue_limits[:, :, column]
        self.subtree: list[int] = limits[layout.LIMIT_SUBTREE].tolist()
        self.guaranteed: list[int] = limits[layout.LIMIT_GUARANTEED].tolist()
        self.borrowing: list[int] = limits[layout.LIMIT_BORROWING].tolist()
        self.hard: list[int] = limits[layout.LIMIT_HARD].tolist()
        self.claims: dict[int, Claim] = {}
        self.has: dict[int, int] = {}

    def owed_by_row(self, order: Sequence[int]) -> dict[int, int]:
        """What each queue, with all below it, is owed; ``order`` has parents before their children."""
        covered_below: dict[int, int] = {}
        for row in reversed(order):
            children = self.tree.children(row)
            below = sum(covered_below[child] for child in children)
            wants = sum(self.claims[child].most for child in children) + self.wanted.get(row, 0)
            # A hard limit may be less than what is guaranteed below it.
            wants = max(0, min(wants, self.hard[row] - below))
            # A root has no parent to claim from: all that is there is its own.
            if int(self.tree.parent[row]) == layout.NOT_SET:
                self.has[row] = min(wants, self._whole(row))
            else:
                self.has[row] = min(wants, self.guaranteed[row])
                self.claims[row] = self._claim(row, wants - self.has[row])
            covered_below[row] = below + self.has[row]
        for row in order:
            self._divide(row)
        owed: dict[int, int] = {}
        for row in reversed(order):
            children = self.tree.children(row)
            # What none below a queue wants is owed to none.
            owed[row] = sum(owed[child] for child in children) if children else self.has[row]
        return owed

    def _whole(self, root: int) -> int:
        """What a tree has: what its queues share; no end of it where no queue limits it."""
        is_limited = self.guaranteed[root] != layout.NO_LIMIT
        return self.subtree[root] if is_limited else layout.NO_LIMIT

    def _claim(self, row: int, demand: int) -> Claim:
        """What a queue wants of its parent, beyond what it is guaranteed."""
        queue = self.tree.queue_at(row)
        lent = self.subtree[row] - min(self.subtree[row], self.guaranteed[row])
        limit = lent + self.borrowing[row]
        return Claim(queue.name, demand, lent, limit, queue.priority, queue.weight_milli)

    def _divide(self, row: int) -> None:
        """What a queue has goes to its children."""
        children = self.tree.children(row)
        owed = owed_by_name(self.has[row], [self.claims[child] for child in children], self.unit)
        for child in children:
            self.has[child] += owed[self.claims[child].name]


def top_down(tree: QueueTree) -> list[int]:
    """The rows of all queues that are described, parents before their children."""
    # Sorted, so that the order does not depend on when queues were described.
    rows = [tree.row_by_name[name] for name in sorted(tree.described)]
    level = [row for row in rows if int(tree.parent[row]) == layout.NOT_SET]
    order: list[int] = []
    while level:
        order += level
        level = [child for row in level for child in tree.children(row)]
    return order
