"""Where pods fit, by trying every node for each of them.

docs/queues.md, "What keeps work waiting": work starts when its queue, every queue above it, and a node allow
it at once; a gang with all that it needs or not at all.
"""

from collections.abc import Collection, Mapping

from tests.engine.reference.picture import Job, Picture


def free_gpus(picture: Picture, without: Collection[str] = ()) -> dict[str, int]:
    """Free GPUs by node once some pods are gone; what is promised to others is not free."""
    free = {node.name: node.gpus for node in picture.nodes}
    for pod, run in picture.runs.items():
        if pod not in without:
            free[run.node] -= picture.job_of(pod).gpus
    for pod, node in picture.promised.items():
        free[node] -= picture.job_of(pod).gpus
    return free


def fits(picture: Picture, job: Job, count: int, without: Collection[str] = ()) -> bool:
    """True if so many pods of a job fit once some pods are gone."""
    free = free_gpus(picture, without)
    accepted = [node.name for node in picture.nodes if job.model in {"", node.model}]
    return holds({name: free[name] for name in accepted}, job.gpus, count)


def holds(free: Mapping[str, int], gpus: int, count: int) -> bool:
    """True if nodes with so many free GPUs hold ``count`` pods of ``gpus`` each; pods of a job are alike."""
    return sum(max(0, amount) // gpus for amount in free.values()) >= count
