"""Where pods fit, by trying every node for each of them.

docs/queues.md, "What keeps work waiting": work starts when its queue, every queue above it, and a node allow
it at once; a gang with all that it needs or not at all.
"""

from collections.abc import Collection, Mapping

from tests.engine.reference.picture import Job, Picture


def free_gpus(picture: Picture, without: Collection[str] = ()) -> dict[str, int]:
    """Free GPUs by node once some pods are gone; what is promised to others is not free."""
    free = dict(picture.free_by_node)
    for pod in set(without):
        if pod in picture.runs:
            free[picture.runs[pod].node] += picture.job_of(pod).gpus
    return free


def fits(picture: Picture, job: Job, count: int, without: Collection[str] = ()) -> bool:
    """True if so many pods of a job fit once some pods are gone."""
    free = free_gpus(picture, without)
    accepted = [node for node in picture.nodes if job.model in {"", node.model}]
    if not job.in_rack:
        return holds({node.name: free[node.name] for node in accepted}, job.gpus, count)
    taken = racks_of(picture, job)
    racks = taken or {node.rack for node in accepted}
    return len(taken) <= 1 and any(
        holds({node.name: free[node.name] for node in accepted if node.rack == rack}, job.gpus, count)
        for rack in racks
    )


def racks_of(picture: Picture, job: Job) -> set[str]:
    """The racks in which pods of a job run, or have a place that is promised."""
    racks = {node.name: node.rack for node in picture.nodes}
    running = {racks[picture.runs[pod].node] for pod in picture.running(job)}
    return running | {racks[picture.promised[pod]] for pod in picture.pods_of(job) if pod in picture.promised}


def holds(free: Mapping[str, int], gpus: int, count: int) -> bool:
    """True if nodes with so many free GPUs hold ``count`` pods of ``gpus`` each; pods of a job are alike."""
    return sum(max(0, amount) // gpus for amount in free.values()) >= count
