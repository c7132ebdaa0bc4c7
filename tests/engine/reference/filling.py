"""What queues come to have when all want more than there is, one GPU after the other, by their turns.

The rule is that of docs/queues.md, "Who is next". The fleet is empty, and has room for everything.
"""

from collections import Counter

import msgspec

from gpufleet.model.queue import Queue
from tests.engine.reference.picture import Job, Machine, Picture, Run
from tests.engine.reference.quota import QuotaTree
from tests.engine.reference.turns import in_turn
from tests.engine.reference.verdict import starts

NODE = "n0"


def waiting_picture(queues: tuple[Queue, ...], each: int, gpus: int) -> Picture:
    """An empty node, and so many pods of one GPU in each leaf.

    They came leaf by leaf in the order of names from the root down: what is shown as fair share knows no
    ages, and goes by names where all else is equal.
    """
    tree = QuotaTree(queues)
    by_name_from_root = sorted(tree.leaves, key=lambda leaf: tree.paths[leaf][::-1])
    named = [(leaf, number) for leaf in by_name_from_root for number in range(each)]
    jobs = {
        f"{leaf}-{number}": Job(f"{leaf}-{number}", leaf, order=order)
        for order, (leaf, number) in enumerate(named)
    }
    by_name = {str(queue.name): queue for queue in queues}
    return Picture(0, by_name, (Machine(NODE, gpus),), jobs, {name: name for name in jobs})


def filled(picture: Picture) -> Counter[str]:
    """GPUs by leaf once all has started that may."""
    tree = QuotaTree(picture.queues.values())
    while True:
        turns = in_turn(picture, tree, picture.waiting_jobs())
        job = next((one for one in turns if starts(picture, tree, one)), None)
        if job is None:
            return Counter(picture.job_of(pod).queue for pod in picture.runs)
        runs = picture.runs | {job.name: Run(NODE, 0)}
        picture = msgspec.structs.replace(picture, runs=runs)
