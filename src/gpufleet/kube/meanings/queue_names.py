"""In which queue a pod says that it waits, in the words of several projects."""

from collections.abc import Mapping

from gpufleet.kube.keys import QUEUE_KEYS


def named_queue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """The first queue that is named, with the key that names it: ours, Kueue's, KAI's, Volcano's.

    A label counts before an annotation of the same key.
    """
    for key in QUEUE_KEYS:
        name = labels.get(key, annotations.get(key))
        if name is not None:
            return key, name
    return None
