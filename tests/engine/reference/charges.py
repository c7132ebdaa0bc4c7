"""What a picture charges to queues."""

from collections import Counter
from collections.abc import Iterable

from tests.engine.reference.picture import MILLI, Job, Picture


def use_of(picture: Picture, without: Iterable[str] = ()) -> Counter[str]:
    """GPUs in thousandths by queue, of all pods that have a place, but for some."""
    found = Counter(picture.use_by_queue)
    for pod in set(without):
        if pod in picture.runs or pod in picture.promised:
            job = picture.job_of(pod)
            found[job.queue] -= job.gpus * MILLI
    return found


def protected_use_of(picture: Picture) -> Counter[str]:
    """The same, of pods that are never evicted."""
    return use_of(picture, [pod for pod in picture.job_by_pod if picture.job_of(pod).preemptible])


def start_charge(picture: Picture, job: Job) -> int:
    """What the pods are charged that a job lacks for its minimum."""
    return picture.missing(job) * job.gpus * MILLI
