"""The quota of the reference, against an account that is written in another way, and by hand."""

import random
from collections import Counter
from fractions import Fraction

import pytest

from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import GPU, Queue, Quota
from tests.engine.effort import seeds
from tests.engine.queueing.plain_quota import PlainQuota
from tests.engine.reference.picture import MILLI
from tests.engine.reference.quota import QuotaTree
from tests.engine.reference.story import EVERYTHING, random_queues


@pytest.mark.parametrize("seed", seeds(100))
def test_both_accounts_say_the_same_of_any_tree(seed: int) -> None:
    chance = random.Random(seed)
    queues = random_queues(chance, EVERYTHING, chance.randint(1, 8))
    tree = QuotaTree(queues)
    use = Counter({leaf: MILLI * chance.randint(0, 4) for leaf in tree.leaves})
    plain = PlainQuota({str(queue.name): queue for queue in queues})
    plain.charges = [(leaf, {GPU: amount}) for leaf, amount in use.items()]
    for name in tree.queues:
        assert tree.subtree[name] == plain.subtree(name, GPU)
        assert tree.counted(name, use) == plain.counted(name, GPU)
        assert tree.total(name, use) == plain.total(name, GPU)
        assert tree.available(name, use) == plain.available(name, GPU)


def test_shares_by_hand() -> None:
    """The root owns 8 GPUs, a 2 of weight 1, b none of weight 2, c none of weight 0: 10 are shared."""
    queues = [Queue(QueueName("all"), quotas=(Quota(GPU, 8 * MILLI),))]
    for name, nominal, weight_milli in (("a", 2, 1000), ("b", 0, 2000), ("c", 0, 0)):
        quota = Quota(GPU, nominal * MILLI)
        queues.append(
            Queue(QueueName(name), parent=QueueName("all"), weight_milli=weight_milli, quotas=(quota,))
        )
    tree = QuotaTree(queues)
    use = {"a": 4 * MILLI, "b": 2 * MILLI, "c": MILLI}
    assert tree.share("a", use) == (False, Fraction(2, 10))
    assert tree.share("b", use) == (False, Fraction(1, 10))
    assert tree.share("c", use) == (True, Fraction(1, 10))
    assert tree.available("a", use) == 3 * MILLI
    assert not tree.borrows("all", use)
