"""Seeing that an older leader can no longer bind, before the new one binds.

The admission policy that guards grants compares the epoch of a Binding with the Lease. It follows
the Lease within milliseconds, but how fast is the server's affair; so a new leader sends dry-run
Bindings of the epoch before its own, of a pod that does not exist, until one is refused. Admission
comes before the pod is looked up: an answer of "not found" means that the fence is not up yet.

A Lease that was deleted begins anew at a low epoch. So a new leader also looks for the newest epoch of the
grants that pods have (``newest_epoch``), and takes a higher one.
"""

import logging
from collections.abc import Iterable

from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import MAXIMUM_EPOCH, read_grant, write_grant
from gpufleet.kube.fencing import FENCED
from gpufleet.kube.kube_errors import KubeError, ObjectError
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.status import Forbidden, Invalid, NotFound
from gpufleet.model.grant import Grant
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
PROBE = "gpufleet-fence-probe"
"""The name of a pod and of a node that do not exist, so a Binding that is let through does nothing."""

# The policy follows the Lease within milliseconds, and a new leader decides nothing before it does.
PAUSE_FIRST_S = 0.005
PAUSE_MOST_S = 1.0
GIVE_UP_S = 30.0
"""Far longer than any server takes to follow the Lease: the policy is not installed."""


class FenceMissingError(WorldError):
    """The API server does not refuse Bindings of an older leader: the admission policy is absent."""


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
            # After the last epoch counting begins at 1 again, and grants of the last one are left out.
            if epoch <= most:
                newest = max(newest, epoch)
    return newest


async def wait_for_fence(client: Client, namespace: str, epoch: int) -> None:
    """Return once a Binding of the epoch before this one is refused.

    Raises FenceMissingError if that does not happen: the admission policy is not installed.
    """
    began_s = client.clock.monotonic_s()
    pause_s = PAUSE_FIRST_S
    while not await _refused(client, namespace, epoch - 1):
        if client.clock.monotonic_s() - began_s > GIVE_UP_S:
            raise FenceMissingError(
                f"the API server does not refuse Bindings of epoch {epoch - 1} although the Lease is at "
                f"{epoch}: install gpufleet's admission policies (the chart and `gpufleet up` do), or start "
                "with --no-fence if only one scheduler can ever run"
            )
        await client.clock.sleep(pause_s)
        pause_s = min(PAUSE_MOST_S, 2 * pause_s)


async def _refused(client: Client, namespace: str, epoch: int) -> bool:
    annotations = {keys.GRANT: write_grant(Grant(epoch))}
    try:
        await client.bind(
            PROBE, namespace=namespace, uid="", node=PROBE, annotations=annotations, dry_run=True
        )
    # Admission let the Binding through, and the pod was looked up after it.
    except NotFound:
        return False
    except (Forbidden, Invalid) as answer:
        return FENCED in answer.message
    except KubeError as problem:
        # What cannot be asked proves nothing, so it counts as a fence that is not up.
        LOG.warning("the fence could not be probed", extra={"problem": str(problem)})
    return False
