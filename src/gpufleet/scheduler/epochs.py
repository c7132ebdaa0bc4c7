"""The newest epoch under which anything was granted, as the pods tell."""

from collections.abc import Iterable

from gpufleet.kube import keys
from gpufleet.kube.codec.grant import MAXIMUM_EPOCH, read_grant
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.pod import Pod


def newest_epoch(pods: Iterable[Pod], most: int = MAXIMUM_EPOCH) -> int:
    """The highest epoch of all grants that can be read, of those up to ``most``; 0 if there is none."""
    newest = 0
    for pod in pods:
        text = pod.metadata.annotations.get(keys.GRANT)
        if text is not None:
            try:
                epoch = read_grant(text).epoch
            except ObjectError:
                continue  # reported when the pod itself is read
            if epoch <= most:
                newest = max(newest, epoch)
    return newest
