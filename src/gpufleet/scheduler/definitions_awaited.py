"""The wait of a starting scheduler until the cluster's definitions know every field that it reads and writes.

A definition of an older release drops what it does not know, so that a queue would say less than its author
wrote. A process that waits is not ready and takes no Lease: in an upgrade the leader of the release before
goes on. ``service`` begins after it.
"""

import asyncio
import contextlib
import logging

from gpufleet.kube.client import Client
from gpufleet.kube.definition_skew import missing_fields, words
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import FLEET_QUEUES, NODE_DEVICES
from gpufleet.kube.status import Forbidden
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.status import Status

LOG = logging.getLogger(__name__)
PAUSE_S = 1.0
"""A definition that was upgraded is served in the OpenAPI documents within some seconds."""


async def await_definitions(client: Client, status: Status, metrics: Metrics) -> None:
    """Return once no field would be dropped; what is in the way is in the log and in ``status``."""
    # The probe for life asks whether the loop turns, also while nothing else runs.
    beating = asyncio.ensure_future(status.run(client.clock, metrics))
    told = ""
    try:
        while problem := await definitions_problem(client):
            status.wait_for(problem)
            if problem != told:
                told = problem
                LOG.warning("the scheduler does not begin", extra={"problem": problem})
            await client.clock.sleep(PAUSE_S)
        status.enter_standby()
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating


async def definitions_problem(client: Client) -> str:
    """Why the scheduler cannot begin; "" where it can.

    A kind that is not served at all is no problem: the scheduler does without it, and finds it when it comes.
    """
    try:
        missing = await missing_fields(client, (NODE_DEVICES, FLEET_QUEUES), served_only=True)
    except Forbidden as error:
        # Some clusters keep their API documents from all accounts, and a fleet must not stand still for that.
        LOG.warning("whether the cluster's definitions fit is not known", extra={"problem": str(error)})
        return ""
    except KubeError as error:
        return f"the cluster's definitions are not known yet: {error}"
    return words(missing) if missing else ""
